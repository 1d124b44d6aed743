//! `interlock why`: who waits for whom, from one object on, until somebody waits for nothing of ours or the chain closes.
//!
//! The kernel shows watched inodes and the names of waiting lines, not paths. An object that somebody waits for has, as a
//! rule, a holder, whose mark is on the directory it stands in: these directories are searched.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::tell::process;
use super::{Seen, kind_name, look_at};
use crate::base::{LinkText, Name, Result};
use crate::command::words::printable;
use crate::primitive::survey::{Surveyed, survey};
use crate::sys::World;
use crate::sys::observe::{Observed, Sight};

/// A chain that is longer is told so far.
const LONGEST: usize = 64;

pub fn chain<W: World>(world: &W, name: &Name) -> Result<String> {
    let Seen { object, observed } = look_at(world, name)?;
    let start = name.path().to_owned();
    let waiters: Vec<u32> =
        observed.sights.iter().filter(|sight| object.is_awaited_by(&observed, sight)).map(|sight| sight.pid).collect();
    let mut text = format!("{}: {}", shown(&start), kind_name(object.kind));
    match waiters[..] {
        [] => text.push_str(", nobody is seen to wait for it\n"),
        _ => text.push_str(&format!(
            ", awaited by {}\n",
            waiters.iter().map(|&pid| process(pid)).collect::<Vec<_>>().join(", ")
        )),
    }
    let mut candidates = candidates(world, &observed, &start);
    candidates.push((start.clone(), object));
    follow(world, &observed, &candidates, start, &mut text);
    if observed.unseen > 0 {
        text.push_str(&format!("unknown: {} processes may not be looked into\n", observed.unseen));
    }
    Ok(text)
}

fn follow<W: World>(
    world: &W,
    observed: &Observed,
    candidates: &[(PathBuf, Surveyed)],
    start: PathBuf,
    text: &mut String,
) {
    let mut visited = BTreeSet::new();
    let mut path = start;
    for _ in 0..LONGEST {
        let Some((_, object)) = candidates.iter().find(|(candidate, _)| *candidate == path) else { return };
        if !visited.insert(path.clone()) {
            text.push_str(&format!("deadlock: the chain closes at {}\n", shown(&path)));
            return;
        }
        let holders = holders(world, observed, object);
        if holders.is_empty() {
            text.push_str(&format!("{} has no holder that can be seen\n", shown(&path)));
            return;
        }
        let next = holders.iter().find_map(|&pid| {
            let sight = observed.sights.iter().find(|sight| sight.pid == pid)?;
            Some((pid, awaited(candidates, observed, sight)?))
        });
        for &pid in &holders {
            text.push_str(&format!("{} is held by {}\n", shown(&path), process(pid)));
        }
        let Some((pid, next)) = next else {
            text.push_str("which waits for nothing of interlock's\n");
            return;
        };
        text.push_str(&format!("{pid} waits for {}\n", shown(&next)));
        path = next;
    }
}

fn awaited(candidates: &[(PathBuf, Surveyed)], observed: &Observed, sight: &Sight) -> Option<PathBuf> {
    candidates.iter().find(|(_, object)| object.is_awaited_by(observed, sight)).map(|(path, _)| path.clone())
}

/// The process that locked. What it started keeps the mark too, and may well wait for the lock itself: that closes no
/// chain while the holder can still unlock. Only after its death those that keep the mark are the holders.
fn holders<W: World>(world: &W, observed: &Observed, object: &Surveyed) -> Vec<u32> {
    match object.holder().map(|holder| &holder.by) {
        Some(LinkText::Ours(owner)) => match owner.holder_here(&world.process()) {
            Some(holder) if world.is_alive(holder, owner.holder_start) => vec![holder],
            _ => observed.holders(owner.nonce).map(|sight| sight.pid).collect(),
        },
        Some(LinkText::Plain(number)) => u32::try_from(*number).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The objects in all directories that carry a mark, and in that of `start`.
fn candidates<W: World>(world: &W, observed: &Observed, start: &Path) -> Vec<(PathBuf, Surveyed)> {
    let marked = observed.sights.iter().flat_map(|sight| &sight.marks).filter_map(|mark| mark.directory.clone());
    let mut directories: BTreeSet<PathBuf> = marked.collect();
    let own = start.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directories.remove(&own.canonicalize().unwrap_or_default());
    directories.insert(own.to_owned());
    let mut found = Vec::new();
    for directory in directories {
        let Ok(dir) = world.open_dir(&directory) else { continue };
        for entry in world.list(&dir).unwrap_or_default() {
            let path = if directory == Path::new(".") { PathBuf::from(&entry) } else { directory.join(&entry) };
            let Ok(name) = Name::of_link(path.as_os_str().as_bytes()) else { continue };
            if let Ok(Some(object)) = survey(world, &dir, &name) {
                found.push((path, object));
            }
        }
    }
    found
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}
