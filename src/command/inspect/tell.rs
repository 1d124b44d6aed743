//! `interlock stat`: all about one object, in words.

use std::os::unix::ffi::OsStrExt;

use super::list::{age, short};
use super::{Seen, kind_name};
use crate::base::{LinkText, Name};
use crate::command::words::printable;
use crate::primitive::survey::{Holder, ObjectKind, State, Verdict};
use crate::sys::World;
use crate::sys::observe::{Sight, command_line};

pub fn tell<W: World>(world: &W, name: &Name, seen: &Seen) -> String {
    let path = printable(name.path().as_os_str().as_bytes());
    let mut lines = vec![format!("{path}: {}", kind_name(seen.object.kind))];
    match &seen.object.state {
        State::Held(holder) => tell_holder(world, &path, seen, holder, &mut lines),
        State::Inside { holder, waiting } => {
            tell_holder(world, &path, seen, holder, &mut lines);
            lines.push(format!("in line: {waiting}"));
        }
        State::Open { waiting } => lines.push(format!("nobody is inside; in line: {waiting}")),
        State::Tokens(count) => lines.push(format!("tokens: {count}")),
        State::Items(count) => lines.push(format!("items: {count}")),
        State::Unreadable(why) => lines.push(format!("damaged: {why}")),
    }
    let observed = &seen.observed;
    let waiters: Vec<&Sight> =
        observed.sights.iter().filter(|sight| seen.object.is_awaited_by(observed, sight)).collect();
    lines.extend(waiters.iter().map(|sight| format!("waiting: {}", process(sight.pid))));
    if waiters.is_empty() {
        lines.push("waiting: nobody that can be seen".into());
    }
    if seen.observed.unseen > 0 {
        lines.push(format!("unknown: {} processes may not be looked into", seen.observed.unseen));
    }
    lines.join("\n  ") + "\n"
}

fn tell_holder<W: World>(world: &W, path: &str, seen: &Seen, holder: &Holder, lines: &mut Vec<String>) {
    let since = seen.object.since.map(|since| format!(", for {}", short(age(since)))).unwrap_or_default();
    let by_hand = match seen.object.kind {
        ObjectKind::WeakMutex => "anybody unlocks it".to_owned(),
        _ => format!("its script unlocks it, or by `interlock break {path}`"),
    };
    match &holder.by {
        LinkText::Ours(owner) if owner.place == world.process().place => {
            lines.push(format!("held by {} of script {}{since}", process(owner.holder), owner.script));
        }
        LinkText::Ours(owner) => {
            lines.push(format!("held by process {} of another container or host{since}", owner.holder));
        }
        LinkText::Plain(number) => lines.push(format!("held; the link says {number}{since}")),
        LinkText::Foreign => lines.push(format!("held by another program{since}")),
    }
    if let LinkText::Ours(owner) = holder.by {
        lines.extend(
            seen.observed.holders(owner.nonce).map(|sight| format!("its mark is kept by {}", process(sight.pid))),
        );
    }
    let (is_stale, frees) = match holder.verdict {
        Verdict::Marked => {
            ("no: somebody keeps its mark", format!("{by_hand}, or when all who keep its mark have ended"))
        }
        Verdict::HolderLives => {
            ("no: its mark is lost, but the holder lives", format!("{by_hand}, or when the holder has ended"))
        }
        Verdict::Unmarked => ("never: it was made without a mark", by_hand),
        Verdict::Unjudged => ("unknown: marks cannot be judged on this file system", by_hand),
        Verdict::Stale => (
            "yes: the holder and all that it started meanwhile are gone",
            "whoever locks it next takes it over, at once".to_owned(),
        ),
    };
    lines.push(format!("stale: {is_stale}"));
    lines.push(format!("freed when {frees}"));
}

/// `123 (bash worker.sh)`
pub fn process(pid: u32) -> String {
    let command = command_line(pid).map(|command| printable(command.as_bytes()));
    format!("{pid} ({})", command.as_deref().unwrap_or("gone, or hidden"))
}
