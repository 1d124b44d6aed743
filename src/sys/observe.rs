//! What the kernel shows of holders and waiters, in `/proc`: byte locks and inotify watches of every process that we may
//! look into, and the waiting lines' sockets. There is no registry of our own, so nothing here can be out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::line::{NAMES, PARTS};

/// One process' share in what is asked for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sight {
    pub pid: u32,
    /// The marks that it keeps, and the directories they are on.
    pub marks: Vec<Mark>,
    pub watched: Vec<Watched>,
    /// Names of the waiting lines that it stands in.
    pub lines: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub nonce: u32,
    pub directory: Option<PathBuf>,
}

/// A watched inode, and the device of its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    pub device: u64,
    pub inode: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Observed {
    pub sights: Vec<Sight>,
    /// The devices of the file systems that are mounted here.
    devices: BTreeSet<u64>,
    /// Processes that may not be looked into: holders and waiters may be among them.
    pub unseen: usize,
}

impl Observed {
    /// Looks into all processes.
    pub fn take() -> Observed {
        let mut observed = Observed { devices: mounted_devices(), ..Observed::default() };
        let lines = line_sockets();
        for pid in processes() {
            match look_into(pid, &lines) {
                Some(sight) if sight.marks.is_empty() && sight.watched.is_empty() && sight.lines.is_empty() => {}
                Some(sight) => observed.sights.push(sight),
                // It may just have ended.
                None if Path::new(&format!("/proc/{pid}")).exists() => observed.unseen += 1,
                None => {}
            }
        }
        observed
    }

    /// Does this process watch the inode that `stat` shows so? Subvolumes and layers show other devices than that of their
    /// file system: for these the inode alone says it.
    pub fn is_watched_by(&self, sight: &Sight, shown: Watched) -> bool {
        sight.watched.iter().any(|watched| {
            watched.inode == shown.inode && (watched.device == shown.device || !self.devices.contains(&shown.device))
        })
    }

    /// Who keeps this mark.
    pub fn holders(&self, nonce: u32) -> impl Iterator<Item = &Sight> {
        self.sights.iter().filter(move |sight| sight.marks.iter().any(|mark| mark.nonce == nonce))
    }
}

/// The command line of a process, its words parted by spaces; `None` if it is gone or hidden.
pub fn command_line(pid: u32) -> Option<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line: Vec<&[u8]> = words.split(|&byte| byte == 0).filter(|word| !word.is_empty()).collect();
    match line.is_empty() {
        true => fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| format!("[{}]", name.trim_end())),
        false => Some(String::from_utf8_lossy(&line.join(&b' ')).into_owned()),
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn look_into(pid: u32, lines: &BTreeMap<u64, Vec<u8>>) -> Option<Sight> {
    let mut sight = Sight { pid, ..Sight::default() };
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let number = entry.file_name();
        if let Some(inode) = socket_inode(target.as_os_str()) {
            sight.lines.extend(lines.get(&inode).cloned());
        } else if target.as_os_str() == "anon_inode:inotify" {
            sight.watched.extend(fdinfo(pid, &number).lines().filter_map(watched));
        } else if target.is_absolute() {
            let marks = fdinfo(pid, &number).lines().filter_map(mark_nonce).collect::<Vec<_>>();
            sight.marks.extend(marks.into_iter().map(|nonce| Mark { nonce, directory: Some(target.clone()) }));
        }
    }
    Some(sight)
}

fn fdinfo(pid: u32, number: &OsStr) -> String {
    fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number)).unwrap_or_default()
}

/// `lock: 1: OFDLCK  ADVISORY  READ -1 08:01:1234 77 77`: one byte, read-locked.
fn mark_nonce(line: &str) -> Option<u32> {
    let words: Vec<&str> = line.strip_prefix("lock:")?.split_ascii_whitespace().collect();
    match words[..] {
        [_, "OFDLCK", "ADVISORY", "READ", _, _, start, end] if start == end => start.parse().ok(),
        _ => None,
    }
}

/// `inotify wd:1 ino:3e8 sdev:800013 mask:…`; the kernel's device numbers have 20 bits of minor.
fn watched(line: &str) -> Option<Watched> {
    let line = line.strip_prefix("inotify ")?;
    let number = |key| u64::from_str_radix(line.split(' ').find_map(|word| word.strip_prefix(key))?, 16).ok();
    let device = u32::try_from(number("sdev:")?).ok()?;
    Some(Watched { device: libc::makedev(device >> 20, device & 0xf_ffff), inode: number("ino:")? })
}

fn mounted_devices() -> BTreeSet<u64> {
    // Paths in it are any bytes.
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(mounted_device).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime …`
fn mounted_device(line: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(line.split(|&byte| byte == b' ').nth(2)?).ok()?.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// `socket:[1234]`
fn socket_inode(target: &OsStr) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets of waiting lines, by inode, and the line that each is in. No hash table: those of std align to 16 bytes,
/// the malloc of bash 4.4 and 5.0 to 8.
fn line_sockets() -> BTreeMap<u64, Vec<u8>> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(line_socket).collect()
}

/// `0000000000000000: 00000002 00000000 00000000 0001 03 4711 @interlock/…`: the kernel shows an abstract name's NUL as `@`.
fn line_socket(row: &[u8]) -> Option<(u64, Vec<u8>)> {
    let at = row.windows(2).position(|pair| pair == b" @")?;
    let (fields, name) = (&row[..at], &row[at + 2..]);
    let inode = std::str::from_utf8(fields).ok()?.split_ascii_whitespace().last()?.parse().ok()?;
    let parts: Vec<&[u8]> = name.splitn(PARTS + 1, |&byte| byte == b'/').collect();
    (name.starts_with(NAMES.as_bytes()) && parts.len() >= PARTS).then(|| (inode, parts[..PARTS].join(&b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines() {
        assert_eq!(
            mark_nonce("lock:\t1: OFDLCK  ADVISORY  READ -1 fe:00:42 2147483647 2147483647"),
            Some(i32::MAX as u32)
        );
        for other in [
            "lock:\t1: FLOCK  ADVISORY  WRITE 12 fe:00:42 0 EOF",
            "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:42 7 7",
            "lock:\t1: OFDLCK ADVISORY  READ -1 fe:00:42 7 9",
            "pos:\t0",
        ] {
            assert_eq!(mark_nonce(other), None, "{other}");
        }
        for (sdev, device) in [
            ("1a", libc::makedev(0, 26)),
            ("10300001", libc::makedev(259, 1)),
            ("801fffff", libc::makedev(0x801, 0xf_ffff)),
        ] {
            let line = format!("inotify wd:3 ino:3e8 sdev:{sdev} mask:c0e ignored_mask:0 fhandle-bytes:8");
            assert_eq!(watched(&line), Some(Watched { device, inode: 1000 }), "{line}");
        }
        assert_eq!(mounted_device(b"36 35 259:1 / /a\xff rw - ext4 x rw"), Some(libc::makedev(259, 1)));
        assert_eq!(socket_inode(OsStr::new("socket:[77]")), Some(77));
        let row = |name: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 4711 {name}").into_bytes();
        let front = Some((4711, b"interlock/fe00/2a/77/removal".to_vec()));
        assert_eq!(line_socket(&row("@interlock/fe00/2a/77/removal")), front);
        assert_eq!(line_socket(&row("@interlock/fe00/2a/77/removal/12.5")), front, "one behind");
        for other in ["@interlock/", "@other/1/2/3/removal", "/run/interlock/1/2/3/removal", ""] {
            assert_eq!(line_socket(&row(other)), None, "{other}");
        }
    }

    #[test]
    fn the_same_number_on_another_device_is_another_inode() {
        let sight = Sight { watched: vec![Watched { device: 1, inode: 7 }], ..Sight::default() };
        let observed = Observed { devices: BTreeSet::from([1, 2]), ..Observed::default() };
        for (device, inode, is_watched) in [(1, 7, true), (1, 8, false), (2, 7, false), (3, 7, true), (3, 8, false)] {
            assert_eq!(observed.is_watched_by(&sight, Watched { device, inode }), is_watched, "{device}:{inode}");
        }
    }

    #[test]
    fn our_own_command_line_is_seen_and_a_missing_one_is_not() {
        assert!(command_line(std::process::id()).is_some_and(|line| line.contains("interlock")));
        assert_eq!(command_line(u32::MAX), None);
    }
}
