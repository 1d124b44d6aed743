//! One process in the simulated world: its side of the seam.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use interlock::base::{Deadline, Process, Time};
use interlock::sys::{Access, Armed, Awaited, Errno, Inherit, Kind, Rule, Stat, Sys, Wake, World};

use super::files::{Inode, Node};
use super::kernel::{Deviation, Handle, Kernel, Parked, State, Trouble, Who};
use super::machine::{Answer, Machine};

/// The longest sleep without looking.
const RECHECK: u64 = 1_000_000_000;
/// The longest wait for the guard.
const GUARD: u64 = 1_000_000_000;
/// Writes are seen, and can be cut, page by page.
const PAGE: u64 = 4096;

macro_rules! troubles {
    ($($errno:ident),* $(; $other:ident)?) => {
        &[$(Trouble::Fails(Errno::$errno),)* $(Trouble::$other)?]
    };
}

/// One process.
#[derive(Clone)]
pub struct Sim {
    machine: Arc<Machine>,
    me: Who,
}

impl Sim {
    pub fn new(machine: Arc<Machine>, me: Who) -> Sim {
        Sim { machine, me }
    }

    pub fn who(&self) -> Who {
        self.me
    }

    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// One step: seen by the others as a whole.
    fn step<T: Answer>(
        &self,
        op: &str,
        name: &OsStr,
        detail: fmt::Arguments<'_>,
        troubles: &'static [Trouble],
        action: impl FnOnce(&mut Kernel, bool) -> T,
    ) -> T {
        self.do_step(true, op, name, detail, troubles, action)
    }

    /// Unless visible, it makes no difference whether it comes before or after a step of somebody else.
    fn do_step<T: Answer>(
        &self,
        is_visible: bool,
        op: &str,
        name: &OsStr,
        detail: fmt::Arguments<'_>,
        troubles: &'static [Trouble],
        action: impl FnOnce(&mut Kernel, bool) -> T,
    ) -> T {
        if std::thread::panicking() {
            return T::nothing();
        }
        self.machine.come_to_step(self.me, is_visible);
        let mut kernel = self.machine.kernel();
        let answer = match kernel.trouble(self.me, troubles) {
            Some(Trouble::Fails(errno)) => T::failed(errno),
            Some(_) => action(&mut kernel, true),
            None => action(&mut kernel, false),
        };
        self.machine.record(&mut kernel, self.me, op, name, detail, &answer);
        answer
    }

    /// A step that the others can interleave with and that changes nothing: being inside a critical section.
    pub fn pause(&self, what: &str) {
        self.step(what, OsStr::new(""), format_args!(""), &[], |_, _| ());
    }

    /// Being inside the section that must exclude.
    pub fn critical_section(&self) {
        self.enter();
        self.pause("inside");
        self.leave();
    }

    pub fn enter(&self) {
        let mut kernel = self.machine.kernel();
        let others = kernel.processes.iter().filter(|process| process.is_inside).count();
        kernel.processes[self.me].is_inside = true;
        drop(kernel);
        self.machine.say(format!("             process {}  is inside", self.me));
        assert_eq!(others, 0, "two are inside");
    }

    pub fn leave(&self) {
        self.machine.kernel().processes[self.me].is_inside = false;
        self.machine.say(format!("             process {}  is outside", self.me));
    }

    /// Keeps count of something for the test; not a step.
    pub fn add(&self, key: &'static str, by: i64) -> i64 {
        let mut kernel = self.machine.kernel();
        let value = kernel.board.entry(key).or_default();
        *value += by;
        let value = *value;
        kernel.remember(self.me, &value);
        self.machine.say(format!("             process {}  {key} = {value}", self.me));
        value
    }

    /// Notes something for the test; not a step.
    pub fn note(&self, what: impl Into<String>) {
        let what = what.into();
        self.machine.say(format!("             process {}  {what}", self.me));
        self.machine.kernel().processes[self.me].notes.push(what);
    }

    /// Forks a subshell that the scene has prepared.
    pub fn fork(&self, child: Who) {
        self.step("fork", OsStr::new(""), format_args!("process {child}"), &[], |kernel, _| {
            kernel.fork(self.me, child);
        });
    }

    /// `exec` of a program that closes all descriptors and lives on.
    pub fn exec_closing_all(&self) {
        self.step("exec", OsStr::new(""), format_args!("closing all"), &[], |kernel, _| kernel.close_parked(self.me));
    }

    /// The end of the process.
    pub fn exit(&self) {
        self.step("exit", OsStr::new(""), format_args!(""), &[], |kernel, _| kernel.kill(self.me));
    }

    pub fn kill(&self, victim: Who) {
        self.step("kill", OsStr::new(""), format_args!("process {victim}"), &[], |kernel, _| {
            if kernel.processes[victim].state != State::Dead {
                let steps = kernel.processes[victim].steps;
                kernel.crashes.push((victim, steps));
            }
            kernel.kill(victim);
        });
    }

    /// A signal that bash will have to look at.
    pub fn signal(&self, whom: Who) {
        self.step("signal", OsStr::new(""), format_args!("process {whom}"), &[], |kernel, _| {
            let process = &mut kernel.processes[whom];
            process.has_signal = true;
            if matches!(process.state, State::Asleep { .. }) {
                process.state = State::Running;
            }
        });
    }

    /// The trap has run.
    pub fn take_signal(&self) {
        self.machine.kernel().processes[self.me].has_signal = false;
    }

    /// Time jumps to the next moment at which somebody wakes, though others are still busy.
    pub fn skip_time(&self) {
        self.step("time passes", OsStr::new(""), format_args!(""), &[], |kernel, _| kernel.pass_time());
    }

    /// A program's `sleep 1`.
    pub fn nap(&self) {
        let waiter = self.machine.kernel().fresh_handle(self.me);
        self.step("nap", OsStr::new(""), format_args!(""), &[], |kernel, _| {
            let until = kernel.now + RECHECK;
            kernel.processes[self.me].state = State::Asleep { waiter, until };
            kernel.settle();
        });
        if !std::thread::panicking() {
            self.machine.block(self.me);
        }
    }

    /// `O_APPEND`, in one step.
    pub fn append(&self, file: &SimFile, bytes: &[u8]) -> Sys<usize> {
        self.step("append", OsStr::new(""), format_args!("{}", Text(bytes.to_vec())), &[], |k, _| {
            let (inode, now) = (k.opens[&file.handle].inode, k.now);
            k.files.bytes_mut(inode).extend_from_slice(bytes);
            k.files.entry_mut(inode).modified = now;
            k.changed(inode, false);
            Ok(bytes.len())
        })
    }

    fn close(&self, handle: Handle) {
        if std::thread::panicking() {
            return;
        }
        let is_visible = {
            let kernel = self.machine.kernel();
            let Some(open) = kernel.opens.get(&handle) else { return };
            !open.marks.is_empty() && open.by.len() == 1
        };
        if is_visible {
            self.step("close", OsStr::new(""), format_args!("a mark"), &[], |kernel, _| kernel.close(self.me, handle));
        } else {
            self.machine.kernel().close(self.me, handle);
        }
    }

    fn stat_of(kernel: &Kernel, inode: Inode) -> Stat {
        let entry = kernel.files.entry(inode);
        Stat {
            kind: entry.node.kind(),
            device: 1,
            inode,
            length: entry.node.length(),
            modified: i128::from(entry.modified),
        }
    }

    fn create(&self, kernel: &mut Kernel, dir: &SimDir, name: &OsStr, node: Node, mode: u32) -> Sys<Inode> {
        let (at, now) = (kernel.inode(dir.handle)?, kernel.now);
        let inode = kernel.fresh_handle(self.me);
        self.is_foreseen(kernel, &node);
        kernel.files.insert(at, name, inode, node, mode, now)?;
        kernel.changed(at, false);
        Ok(inode)
    }

    /// Opening something is seen by nobody where things of this kind stay.
    fn is_opening_visible(&self, kind: Kind) -> bool {
        !self.stays(&self.machine.kernel(), kind)
    }

    fn stays(&self, kernel: &Kernel, kind: Kind) -> bool {
        match kind {
            Kind::Directory => kernel.options.directories_stay,
            Kind::File => kernel.options.files_stay,
            _ => false,
        }
    }

    /// Checks that in a scene where things of this kind stay they do.
    fn is_foreseen(&self, kernel: &Kernel, node: &Node) {
        let kind = node.kind();
        assert!(!self.stays(kernel, kind) || !self.machine.is_raced(), "a {kind:?} should not come or go here");
    }

    fn remove(&self, kernel: &mut Kernel, dir: &SimDir, name: &OsStr, is_directory: bool) -> Sys<()> {
        let (at, now) = (kernel.inode(dir.handle)?, kernel.now);
        let inode = kernel.files.remove(at, name, is_directory, now)?;
        self.is_foreseen(kernel, &kernel.files.entry(inode).node);
        kernel.takes_away(self.me, name, inode);
        kernel.changed(inode, true);
        kernel.changed(at, false);
        kernel.forget_unlinked();
        Ok(())
    }

    fn move_name(&self, from: (&SimDir, &OsStr), to: (&SimDir, &OsStr), exclusive: bool) -> Sys<()> {
        let op = if exclusive { "rename_exclusive" } else { "rename" };
        let detail = format_args!(" from {}", from.1.to_string_lossy());
        self.step(op, to.1, detail, troubles![EACCES, ENOSPC, EIO, EROFS], |kernel, _| {
            let (source, target, now) = (kernel.inode(from.0.handle)?, kernel.inode(to.0.handle)?, kernel.now);
            let (moved, replaced) = kernel.files.rename((source, from.1), (target, to.1), exclusive, now)?;
            self.is_foreseen(kernel, &kernel.files.entry(moved).node);
            kernel.changed(moved, true);
            if let Some(replaced) = replaced {
                kernel.takes_away(self.me, to.1, replaced);
                kernel.changed(replaced, true);
            }
            kernel.changed(source, false);
            kernel.changed(target, false);
            kernel.forget_unlinked();
            Ok(())
        })
    }

    fn write_pages(&self, file: &SimFile, offset: u64, bytes: &[u8]) -> Sys<usize> {
        let deviation = self.machine.kernel().options.deviation;
        let is_hidden_flag = |piece: &[u8]| deviation == Some(Deviation::NoEntering) && offset == 0 && piece == b"1 ";
        let mut written = 0;
        loop {
            let at = offset + written as u64;
            let in_page = (PAGE - at % PAGE) as usize;
            let piece = &bytes[written..bytes.len().min(written + in_page)];
            let detail = format_args!("{} at {at}", Text(piece.to_vec()));
            let troubles = troubles![ENOSPC, EIO, EDQUOT; Short];
            let step = self.step("write_at", OsStr::new(""), detail, troubles, |k, is_short| {
                let length = if is_short { piece.len() / 2 } else { piece.len() };
                let (inode, now) = (k.opens[&file.handle].inode, k.now);
                let content = k.files.bytes_mut(inode);
                if length > 0 {
                    let piece = if is_hidden_flag(piece) { b"0 " } else { piece };
                    let end = at as usize + length;
                    content.resize(content.len().max(end), 0);
                    content[at as usize..end].copy_from_slice(&piece[..length]);
                }
                k.files.entry_mut(inode).modified = now;
                k.changed(inode, false);
                Ok(length)
            });
            match step {
                Ok(length) => written += length,
                Err(_) if written > 0 => return Ok(written),
                Err(errno) => return Err(errno),
            }
            if written == bytes.len() || step.is_ok_and(|length| length < piece.len()) {
                return Ok(written);
            }
        }
    }
}

/// An open directory; closed when dropped.
pub struct SimDir {
    sim: Sim,
    handle: Handle,
    is_parked: bool,
}

pub struct SimFile {
    sim: Sim,
    handle: Handle,
}

pub struct SimGuard {
    sim: Sim,
    dir: Inode,
}

pub struct SimWaiter {
    sim: Sim,
    handle: Handle,
    /// For [`Deviation::LateWatch`].
    late: Option<(Inode, Awaited, Option<u32>)>,
}

impl Debug for SimDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory {:x}", self.handle)
    }
}

impl Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {:x}", self.handle)
    }
}

impl Drop for SimDir {
    fn drop(&mut self) {
        if !self.is_parked {
            self.sim.close(self.handle);
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.sim.close(self.handle);
    }
}

impl Drop for SimGuard {
    fn drop(&mut self) {
        let SimGuard { sim, dir } = self;
        sim.step("unguard", OsStr::new(""), format_args!(""), &[], |kernel, _| {
            if kernel.flocks.get(dir) == Some(&sim.me) {
                kernel.release_guard(*dir);
            }
        });
    }
}

impl Drop for SimWaiter {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.sim.machine.kernel().processes[self.sim.me].watchers.remove(&self.handle);
        }
    }
}

impl World for Sim {
    type Dir = SimDir;
    type File = SimFile;
    type Guard<'d> = SimGuard;
    type Waiter = SimWaiter;
    type Critical = ();

    fn process(&self) -> Process {
        self.machine.kernel().processes[self.me].identity
    }

    fn is_alive(&self, pid: u32, start: u64) -> bool {
        self.step("is_alive", OsStr::new(""), format_args!("{pid}"), &[], |kernel, _| {
            kernel.is_alive(pid, start) && kernel.options.deviation != Some(Deviation::MarkIsEverything)
        })
    }

    fn now(&self) -> Time {
        let mut kernel = self.machine.kernel();
        let time = kernel.time();
        kernel.remember(self.me, &time);
        time
    }

    fn random(&self) -> u64 {
        self.machine.kernel().fresh_random(self.me)
    }

    fn critical(&self) {}

    fn keeps(&self, rule: Rule) -> bool {
        self.machine.kernel().options.omitted != Some(rule)
    }

    fn current_dir(&self) -> Sys<PathBuf> {
        Ok("/".into())
    }

    fn open_dir(&self, path: &Path) -> Sys<SimDir> {
        let handle = self.do_step(
            self.is_opening_visible(Kind::Directory),
            "open_dir",
            path.as_os_str(),
            format_args!(""),
            troubles![EACCES, EMFILE, ENOMEM],
            |k, _| {
                let inode = k.files.resolve(path)?;
                k.files.names(inode)?;
                Ok(k.open(self.me, inode, Some(path.to_owned())))
            },
        )?;
        Ok(SimDir { sim: self.clone(), handle, is_parked: false })
    }

    fn open_dir_at(&self, dir: &SimDir, name: &OsStr) -> Sys<SimDir> {
        let handle = self.do_step(
            self.is_opening_visible(Kind::Directory),
            "open_dir_at",
            name,
            format_args!(""),
            troubles![EACCES, EMFILE, ENOMEM],
            |k, _| {
                let inode = k.files.look_up(k.inode(dir.handle)?, name)?;
                match k.files.entry(inode).node {
                    Node::Directory(_) => {}
                    Node::Link(_) => return Err(Errno::ELOOP),
                    Node::File(_) => return Err(Errno::ENOTDIR),
                }
                let path = k.opens[&dir.handle].path.as_ref().map(|path| path.join(name));
                Ok(k.open(self.me, inode, path))
            },
        )?;
        Ok(SimDir { sim: self.clone(), handle, is_parked: false })
    }

    fn make_dir(&self, dir: &SimDir, name: &OsStr) -> Sys<()> {
        self.step("make_dir", name, format_args!(""), troubles![EACCES, ENOSPC, EIO, EROFS], |k, _| {
            self.create(k, dir, name, Node::Directory(Default::default()), 0o755).map(drop)
        })
    }

    fn remove_dir(&self, dir: &SimDir, name: &OsStr) -> Sys<()> {
        self.step("remove_dir", name, format_args!(""), troubles![EACCES, EIO], |k, _| self.remove(k, dir, name, true))
    }

    fn list(&self, dir: &SimDir) -> Sys<Vec<OsString>> {
        self.step("list", OsStr::new(""), format_args!(""), troubles![EIO, EMFILE, ENOMEM], |k, _| {
            Ok(k.files.names(k.inode(dir.handle)?)?.keys().cloned().collect())
        })
    }

    fn stat_dir(&self, dir: &SimDir) -> Sys<Stat> {
        let is_visible = self.is_opening_visible(Kind::Directory);
        self.do_step(is_visible, "stat_dir", OsStr::new(""), format_args!(""), troubles![EIO], |k, _| {
            Ok(Self::stat_of(k, k.inode(dir.handle)?))
        })
    }

    fn symlink(&self, text: &str, dir: &SimDir, name: &OsStr) -> Sys<()> {
        self.step("symlink", name, format_args!(" = {text}"), troubles![EACCES, ENOSPC, EIO, EDQUOT], |k, _| {
            self.create(k, dir, name, Node::Link(text.into()), 0o777).map(drop)
        })
    }

    fn read_link(&self, dir: &SimDir, name: &OsStr) -> Sys<Vec<u8>> {
        let read = self.step("read_link", name, format_args!(""), troubles![EACCES, EIO, ESTALE], |k, _| {
            let inode = k.files.look_up(k.inode(dir.handle)?, name)?;
            match &k.files.entry(inode).node {
                Node::Link(text) => {
                    k.processes[self.me].read = Some(inode);
                    Ok(Text(text.clone()))
                }
                _ => Err(Errno::EINVAL),
            }
        });
        read.map(|text| text.0)
    }

    fn unlink(&self, dir: &SimDir, name: &OsStr) -> Sys<()> {
        let troubles = troubles![EACCES, EPERM, EIO, EROFS];
        self.step("unlink", name, format_args!(""), troubles, |k, _| {
            if k.options.deviation == Some(Deviation::LeftAtSignal) && k.processes[self.me].has_signal {
                return Ok(());
            }
            self.remove(k, dir, name, false)
        })
    }

    fn rename(&self, from: &SimDir, old: &OsStr, to: &SimDir, new: &OsStr) -> Sys<()> {
        if self.machine.kernel().options.deviation == Some(Deviation::RenameInTwoSteps) {
            let _ = self.unlink(to, new);
        }
        self.move_name((from, old), (to, new), false)
    }

    fn rename_exclusive(&self, from: &SimDir, old: &OsStr, to: &SimDir, new: &OsStr) -> Sys<()> {
        if !self.machine.kernel().options.can_rename_exclusively {
            return self.step("rename_exclusive", new, format_args!(""), &[], |_, _| Err(Errno::EINVAL));
        }
        let is_exclusive = self.machine.kernel().options.deviation != Some(Deviation::PlainRename);
        self.move_name((from, old), (to, new), is_exclusive)
    }

    fn stat_at(&self, dir: &SimDir, name: &OsStr) -> Sys<Stat> {
        self.step("stat_at", name, format_args!(""), troubles![EACCES, EIO], |k, _| {
            Ok(Self::stat_of(k, k.files.look_up(k.inode(dir.handle)?, name)?))
        })
    }

    fn open_file(&self, dir: &SimDir, name: &OsStr, access: Access) -> Sys<SimFile> {
        let troubles = troubles![EACCES, EMFILE, ENOSPC, EIO];
        let is_visible = self.is_opening_visible(Kind::File);
        let handle = self.do_step(is_visible, "open_file", name, format_args!(" {access:?}"), troubles, |k, _| {
            let inode = match (k.files.look_up(k.inode(dir.handle)?, name), access) {
                (Ok(_), Access::CreateNew) => return Err(Errno::EEXIST),
                (Ok(inode), _) => inode,
                (Err(Errno::ENOENT), Access::Create | Access::CreateNew) => {
                    self.create(k, dir, name, Node::File(Vec::new()), 0o644)?
                }
                (Err(errno), _) => return Err(errno),
            };
            match k.files.entry(inode).node.kind() {
                Kind::File => Ok(k.open(self.me, inode, None)),
                Kind::Link => Err(Errno::ELOOP),
                _ if access == Access::Read => Err(Errno::EINVAL),
                _ => Err(Errno::EISDIR),
            }
        })?;
        Ok(SimFile { sim: self.clone(), handle })
    }

    fn stat(&self, file: &SimFile) -> Sys<Stat> {
        self.step("stat", OsStr::new(""), format_args!(""), troubles![EIO], |k, _| {
            Ok(Self::stat_of(k, k.opens[&file.handle].inode))
        })
    }

    fn read_at(&self, file: &SimFile, offset: u64, buffer: &mut [u8]) -> Sys<usize> {
        let asked = buffer.len();
        let is_flag = offset == 0 && asked == 1;
        if is_flag && self.machine.kernel().options.deviation == Some(Deviation::NumberBeforeFlag) {
            self.step("read early", OsStr::new(""), format_args!(""), &[], |k, _| {
                let early = k.files.bytes(k.opens[&file.handle].inode).to_vec();
                k.opens.get_mut(&file.handle).expect("open").early = Some(early);
            });
        }
        let detail = format_args!("{asked} bytes at {offset}");
        let read = self.step("read_at", OsStr::new(""), detail, troubles![EIO; Short], |k, is_short| {
            let open = &k.opens[&file.handle];
            let bytes = match &open.early {
                Some(early) if !is_flag => early,
                _ => k.files.bytes(open.inode),
            };
            let from = bytes.len().min(offset as usize);
            let mut length = asked.min(bytes.len() - from);
            if is_short {
                // What lies inside a page is read as a whole.
                length = length.min((PAGE - offset % PAGE) as usize);
            }
            Ok(Text(bytes[from..from + length].to_vec()))
        })?;
        buffer[..read.0.len()].copy_from_slice(&read.0);
        Ok(read.0.len())
    }

    fn write_at(&self, file: &SimFile, offset: u64, bytes: &[u8]) -> Sys<usize> {
        let torn = self.machine.kernel().options.torn_number;
        if let Some(torn) = torn.filter(|_| bytes.len() > 20 && bytes[..20].iter().all(u8::is_ascii_digit)) {
            self.write_pages(file, offset, format!("{torn:020}").as_bytes())?;
        }
        self.write_pages(file, offset, bytes)
    }

    fn truncate(&self, file: &SimFile, length: u64) -> Sys<()> {
        self.step("truncate", OsStr::new(""), format_args!("to {length}"), troubles![EIO, EACCES], |k, _| {
            let (inode, now) = (k.opens[&file.handle].inode, k.now);
            k.files.bytes_mut(inode).resize(length as usize, 0);
            k.files.entry_mut(inode).modified = now;
            k.changed(inode, false);
            Ok(())
        })
    }

    fn copy_mode(&self, from: &SimFile, to: &SimFile) -> Sys<()> {
        self.step("copy_mode", OsStr::new(""), format_args!(""), troubles![EPERM], |k, _| {
            let mode = k.files.entry(k.opens[&from.handle].inode).mode;
            let to = k.opens[&to.handle].inode;
            k.files.entry_mut(to).mode = mode;
            Ok(())
        })
    }

    fn can_mark(&self, _: &SimDir) -> bool {
        let kernel = self.machine.kernel();
        kernel.options.can_mark || kernel.options.deviation == Some(Deviation::MarksAcrossHosts)
    }

    fn mark(&self, dir: &SimDir, nonce: u32) -> Sys<()> {
        self.do_step(false, "mark", OsStr::new(""), format_args!("{nonce}"), troubles![ENOLCK], |k, _| {
            k.opens.get_mut(&dir.handle).expect("open").marks.insert(nonce);
            Ok(())
        })
    }

    fn is_marked(&self, dir: &SimDir, nonce: u32) -> bool {
        self.step("is_marked", OsStr::new(""), format_args!("{nonce}"), troubles![; Refused], |k, is_unknown| {
            let own = &k.opens[&dir.handle];
            let is_blind = k.options.deviation == Some(Deviation::BlindToOwnMarks);
            is_unknown
                || k.opens.iter().any(|(handle, open)| {
                    *handle != dir.handle
                        && open.inode == own.inode
                        && open.host == own.host
                        && open.marks.contains(&nonce)
                        && !(is_blind && open.by.contains(&self.me))
                })
        })
    }

    fn park(&self, mut dir: SimDir, name: &OsStr, nonce: u32, inherit: Inherit) {
        dir.is_parked = true;
        let parked =
            Parked { handle: dir.handle, name: name.to_owned(), nonce, by_programs: inherit == Inherit::Programs };
        self.machine.kernel().processes[self.me].parked.push(parked);
    }

    fn unpark(&self, nonce: u32) {
        if std::thread::panicking() {
            return;
        }
        let found = {
            let parked = &mut self.machine.kernel().processes[self.me].parked;
            parked.iter().position(|mark| mark.nonce == nonce).map(|index| parked.remove(index))
        };
        if let Some(mark) = found {
            self.close(mark.handle);
        }
    }

    fn holds(&self, nonce: u32) -> bool {
        self.machine.kernel().processes[self.me].parked.iter().any(|mark| mark.nonce == nonce)
    }

    fn try_guard(&self, dir: &SimDir) -> Option<SimGuard> {
        let inode = self.machine.kernel().opens[&dir.handle].inode;
        let is_ours =
            self.step("try_guard", OsStr::new(""), format_args!(""), troubles![; Refused], |k, is_refused| {
                !is_refused && k.take_guard(self.me, inode)
            });
        is_ours.then(|| SimGuard { sim: self.clone(), dir: inode })
    }

    fn guard(&self, dir: &SimDir) -> Option<SimGuard> {
        let inode = self.machine.kernel().opens[&dir.handle].inode;
        let until = self.machine.kernel().now + GUARD;
        loop {
            let is_ours =
                self.step("guard", OsStr::new(""), format_args!(""), troubles![; Refused], |k, is_refused| {
                    if is_refused {
                        return true;
                    }
                    let is_ours = k.take_guard(self.me, inode);
                    if !is_ours && k.now < until {
                        k.processes[self.me].state = State::AwaitsGuard { dir: inode, until };
                        k.settle();
                    }
                    is_ours
                });
            let kernel = self.machine.kernel();
            let (holder, now) = (kernel.flocks.get(&inode).copied(), kernel.now);
            let is_free_for_all = kernel.options.deviation == Some(Deviation::NoGuard);
            drop(kernel);
            if is_ours {
                return (is_free_for_all || holder == Some(self.me))
                    .then(|| SimGuard { sim: self.clone(), dir: inode });
            }
            if now >= until || std::thread::panicking() {
                return None;
            }
            self.machine.block(self.me);
        }
    }

    fn waiter(&self) -> SimWaiter {
        let handle = self.machine.kernel().fresh_handle(self.me);
        SimWaiter { sim: self.clone(), handle, late: None }
    }

    fn arm(&self, waiter: &mut SimWaiter, dir: &SimDir, name: &OsStr, awaited: Awaited, holder: Option<u32>) -> Armed {
        let mut late = None;
        let handle = waiter.handle;
        let armed = self.step("arm", name, format_args!(" for {awaited:?}"), &[], |k, _| {
            let Ok(inode) = k.inode(dir.handle).and_then(|dir| k.files.look_up(dir, name)) else {
                k.processes[self.me].watchers.remove(&handle);
                return Armed::Gone;
            };
            if k.options.deviation == Some(Deviation::LateWatch) {
                late = Some((inode, awaited, holder));
            } else {
                k.watch(self.me, handle, inode, awaited, holder);
            }
            Armed::Ready
        });
        waiter.late = late;
        armed
    }

    fn sleep(&self, waiter: &mut SimWaiter, deadline: Deadline) -> Wake {
        let (handle, late) = (waiter.handle, waiter.late.take());
        let at_once = self.step("sleep", OsStr::new(""), format_args!(" until {deadline:?}"), &[], |k, _| {
            if let Some((inode, awaited, holder)) = late {
                k.watch(self.me, handle, inode, awaited, holder);
            }
            let why = k.why_awake(self.me, handle, deadline);
            if why.is_none() {
                let until = deadline.or_at(Time(k.now + RECHECK)).0;
                k.processes[self.me].state = State::Asleep { waiter: handle, until };
                k.settle();
            }
            why
        });
        if let Some(why) = at_once {
            return why;
        }
        if std::thread::panicking() {
            return Wake::Recheck;
        }
        self.machine.block(self.me);
        let mut kernel = self.machine.kernel();
        let why = kernel.why_awake(self.me, handle, deadline).unwrap_or(Wake::Recheck);
        self.machine.record(&mut kernel, self.me, "awake", OsStr::new(""), format_args!(""), &why);
        why
    }
}

impl Kernel {
    fn why_awake(&mut self, who: Who, waiter: Handle, deadline: Deadline) -> Option<Wake> {
        let now = self.time();
        let process = &mut self.processes[who];
        if process.has_signal {
            return Some(Wake::Interrupted);
        }
        if let Some(watcher) = process.watchers.get_mut(&waiter)
            && std::mem::take(&mut watcher.is_heard)
        {
            return Some(Wake::Event);
        }
        deadline.has_passed(now).then_some(Wake::Deadline)
    }
}

/// Bytes that are shown as text.
struct Text(Vec<u8>);

impl Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            long if long.len() > 80 => write!(f, "{}… ({} bytes)", long[..60].escape_ascii(), long.len()),
            short => write!(f, "{}", short.escape_ascii()),
        }
    }
}
