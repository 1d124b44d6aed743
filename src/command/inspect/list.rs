//! `interlock ls`: one row for each object below the directories.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::vec;

use serde_json::{Value, json};

use super::kind_name;
use crate::base::{Error, LinkText, Name, Result};
use crate::command::words::{Words, printable};
use crate::primitive::survey::{State, Surveyed, Verdict, survey};
use crate::sys::observe::{Observed, command_line};
use crate::sys::{Errno, Kind, World};

/// Deeper than anybody keeps locks; links are not followed, so there are no circles.
const DEPTH: usize = 32;

/// After so many entries of a directory it is time to see whether there is a signal to look at.
const TURN: usize = 256;

struct Row {
    path: PathBuf,
    kind: &'static str,
    state: &'static str,
    pid: Option<u64>,
    command: Option<String>,
    held: Option<Duration>,
    waiters: usize,
    count: Option<i64>,
}

/// Where the listing has got to: a large tree takes its time, and signals must be heard meanwhile.
pub struct Walk {
    left: Vec<Place>,
    rows: Vec<Row>,
    unseen: usize,
}

/// A directory to be looked into, or what is left of it.
struct Place {
    path: PathBuf,
    depth: usize,
    entries: Option<vec::IntoIter<OsString>>,
}

impl Walk {
    pub fn new<W: World>(world: &W, words: &Words) -> Result<Walk> {
        let here: &[&[u8]] = &[b"."];
        let mut walk = Walk { left: Vec::new(), rows: Vec::new(), unseen: 0 };
        for directory in if words.operands.is_empty() { here } else { words.operands } {
            let path = Path::new(OsStr::from_bytes(directory));
            world.open_dir(path).map_err(|errno| Error::system(path, errno))?;
            walk.left.push(Place { path: path.to_owned(), depth: DEPTH, entries: None });
        }
        Ok(walk)
    }

    /// To the end, or until there is a signal to look at: then false.
    pub fn go_on<W: World>(&mut self, world: &W, has_news: impl Fn() -> bool) -> Result<bool> {
        let observed = world.observe();
        self.unseen = observed.unseen;
        while let Some(place) = self.left.pop() {
            self.look_into(world, &observed, place, &has_news)?;
            // Afterwards, so that each turn gets on.
            if !self.left.is_empty() && has_news() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn look_into<W: World>(
        &mut self,
        world: &W,
        observed: &Observed,
        Place { path, depth, entries }: Place,
        has_news: impl Fn() -> bool,
    ) -> Result<()> {
        let opened = world.open_dir(&path).and_then(|dir| match entries {
            Some(entries) => Ok((entries, dir)),
            None => Ok((world.list(&dir)?.into_iter(), dir)),
        });
        let (mut entries, dir) = match opened {
            Ok(opened) => opened,
            // Not for us to see, or removed meanwhile.
            Err(errno) if depth < DEPTH || matches!(errno, Errno::EACCES | Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(Error::system(path, errno)),
        };
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let below = if path == Path::new(".") { PathBuf::from(&entry) } else { path.join(&entry) };
            // Half-made objects have reserved names.
            if let Ok(name) = Name::of_link(below.as_os_str().as_bytes()) {
                if let Ok(Some(object)) = survey(world, &dir, &name) {
                    self.rows.push(row(observed, below, &object));
                } else if depth > 0 && world.stat_at(&dir, &entry).is_ok_and(|stat| stat.kind == Kind::Directory) {
                    self.left.push(Place { path: below, depth: depth - 1, entries: None });
                }
            }
            count += 1;
            if count % TURN == 0 && has_news() {
                self.left.push(Place { path, depth, entries: Some(entries) });
                return Ok(());
            }
        }
        Ok(())
    }

    pub fn text(mut self, words: &Words) -> Vec<u8> {
        let unseen = self.unseen;
        self.rows.sort_by(|a, b| a.path.cmp(&b.path));
        match () {
            () if words.has(b'j') => as_json(&self.rows, unseen),
            () if words.has(b'0') => as_records(&self.rows),
            () => as_table(&self.rows, unseen),
        }
    }
}

fn row(observed: &Observed, path: PathBuf, object: &Surveyed) -> Row {
    let waiters = observed.sights.iter().filter(|sight| object.is_awaited_by(observed, sight)).count();
    let pid = object.holder().and_then(|holder| match holder.by {
        LinkText::Ours(owner) => Some(u64::from(owner.holder)),
        LinkText::Plain(number) => Some(number),
        LinkText::Foreign => None,
    });
    let (state, count) = match &object.state {
        State::Held(holder) | State::Inside { holder, .. } if holder.verdict == Verdict::Stale => ("stale", None),
        State::Held(_) | State::Inside { .. } => ("held", None),
        State::Open { .. } => ("open", None),
        State::Tokens(count) | State::Items(count) => (if *count > 0 { "ready" } else { "empty" }, Some(*count)),
        State::Unreadable(_) => ("damaged", None),
    };
    let waiters = match object.state {
        State::Inside { waiting, .. } | State::Open { waiting } => waiting,
        _ => waiters,
    };
    Row {
        path,
        kind: kind_name(object.kind),
        state,
        pid,
        command: pid.and_then(|pid| command_line(u32::try_from(pid).ok()?)),
        held: object.since.map(age),
        waiters,
        count,
    }
}

/// How long ago; the clock of the file system and ours may differ a little.
pub fn age(since: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
    Duration::from_nanos(u64::try_from(now.saturating_sub(since)).unwrap_or(0))
}

/// `3.2s`, `5m`, `2h`, `9d`
pub fn short(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

// The malloc of bash 4.4 and 5.0 aligns to 8 bytes.
const _: () = assert!(align_of::<Row>() <= 8 && align_of::<Surveyed>() <= 8);

impl Row {
    fn cells(&self) -> [String; 8] {
        [
            printable(self.path.as_os_str().as_bytes()),
            self.kind.into(),
            self.state.into(),
            or_dash(self.pid.map(|pid| pid.to_string())),
            or_dash(self.held.map(short)),
            self.waiters.to_string(),
            or_dash(self.count.map(|count| count.to_string())),
            or_dash(self.command.as_ref().map(|command| printable(command.as_bytes()))),
        ]
    }
}

fn as_table(rows: &[Row], unseen: usize) -> Vec<u8> {
    let mut cells = vec![["NAME", "KIND", "STATE", "PID", "HELD", "WAITERS", "COUNT", "COMMAND"].map(String::from)];
    cells.extend(rows.iter().map(Row::cells));
    let widths =
        [0, 1, 2, 3, 4, 5, 6].map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &cells {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(&row[7]);
        text.push('\n');
    }
    if unseen > 0 {
        text.push_str(&format!("({unseen} processes may not be looked into: waiters among them are not counted)\n"));
    }
    text.into_bytes()
}

/// Fields parted by tabs, `-` for none, since a shell takes two tabs for one; the name last, since it may hold anything.
fn as_records(rows: &[Row]) -> Vec<u8> {
    let mut records = Vec::new();
    for row in rows {
        let [_, kind, state, pid, _, waiters, count, command] = row.cells();
        let held = or_dash(row.held.map(|held| held.as_secs().to_string()));
        records.extend_from_slice([kind, state, pid, held, waiters, count, command].join("\t").as_bytes());
        records.push(b'\t');
        records.extend_from_slice(row.path.as_os_str().as_bytes());
        records.push(0);
    }
    records
}

fn as_json(rows: &[Row], unseen: usize) -> Vec<u8> {
    let objects: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.path.to_string_lossy(),
                "kind": row.kind,
                "state": row.state,
                "pid": row.pid,
                "command": row.command,
                "held_seconds": row.held.map(|held| held.as_secs_f64()),
                "waiters": row.waiters,
                "count": row.count,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "objects": objects, "processes_unseen": unseen })).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::super::{find, words};
    use super::*;
    use crate::command::words::Asked;
    use crate::sys::{Local, Scratch};

    #[test]
    fn a_signal_is_heard_in_the_middle_of_a_directory_and_nothing_is_listed_twice_or_missed() {
        let scratch = Scratch::on_disk();
        for number in 0..3 * TURN {
            symlink("1", scratch.path("").join(number.to_string())).unwrap();
        }
        std::fs::create_dir(scratch.path("below")).unwrap();
        symlink("1", scratch.path("below/last")).unwrap();
        let world = Local::new(std::process::id());
        let top = scratch.path("");
        let operands = [top.as_os_str().as_bytes()];
        let Ok(Asked::Call(words)) = words::parse(find("interlock"), &operands) else { panic!("no words") };
        let mut walk = Walk::new(&world, &words).unwrap();
        let mut turns = 1;
        while !walk.go_on(&world, || true).unwrap() {
            turns += 1;
        }
        assert!(turns > 3, "{turns}");
        let mut paths: Vec<_> = walk.rows.iter().map(|row| row.path.clone()).collect();
        paths.sort();
        paths.dedup();
        assert_eq!((walk.rows.len(), paths.len()), (3 * TURN + 1, 3 * TURN + 1));
    }
}
