use std::os::unix::net::{UnixListener, UnixStream};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{pipe, read, write};

use super::*;
use crate::sys::forked::{Forked, WithoutForks, without_forks};
use crate::sys::scratch::Scratch;

struct Ground {
    _scratch: Scratch,
    dir: Dir,
    alone: WithoutForks,
}

impl Ground {
    fn new() -> Ground {
        let scratch = Scratch::on_disk();
        let dir = Dir::open(&scratch.path("")).unwrap();
        Ground { _scratch: scratch, dir, alone: without_forks() }
    }

    fn join(&self, line: &mut Line) -> bool {
        line.join(&self.dir, OsStr::new("m"), Awaited::Removal)
    }

    fn joined(&self) -> Line {
        let mut line = Line::default();
        self.join(&mut line);
        line
    }

    fn address(&self) -> UnixAddr {
        Object::new(&self.dir, OsStr::new("m"), Awaited::Removal).unwrap().address().unwrap()
    }

    /// Somebody else's socket of that name, not listening.
    fn squat(&self) -> OwnedFd {
        let squatter = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(squatter.as_raw_fd(), &self.address()).unwrap();
        squatter
    }

    fn squat_and_listen(&self) -> UnixListener {
        let squatter = self.squat();
        listen(&squatter, Backlog::MAXCONN).unwrap();
        UnixListener::from(squatter)
    }
}

fn is_front(line: &Line) -> bool {
    matches!(line.place, Place::Front(_))
}

fn is_alone(line: &Line) -> bool {
    matches!(line.place, Place::Alone)
}

/// Waits for news, as a sleep does.
fn await_news(line: &mut Line) {
    poll(&mut [PollFd::new(line.socket().unwrap(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    assert!(line.hear());
}

#[test]
fn first_come_first_in_front() {
    let ground = Ground::new();
    let mut lines: Vec<Line> = (0..5).map(|_| ground.joined()).collect();
    while !lines.is_empty() {
        assert!(is_front(&lines[0]));
        assert!(lines[1..].iter_mut().all(|line| line.is_behind() && !line.hear()));
        drop(lines.remove(0));
        if let Some(next) = lines.first_mut() {
            assert!(next.hear(), "one leaving wakes the next");
        }
    }
    assert!(is_front(&ground.joined()), "the name is free again");
}

/// What a sleeping front does.
fn see_to_deputy(front: &mut Line) {
    poll(&mut [PollFd::new(front.socket().unwrap(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    assert!(!front.hear(), "no reason to look");
}

fn has_nothing_to_hear(line: &Line) -> bool {
    poll(&mut [PollFd::new(line.socket().unwrap(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 0
}

#[test]
fn a_deputy_watches_and_follows_when_the_front_leaves() {
    let ground = Ground::new();
    let mut front = ground.joined();
    let (mut deputy, third) = (ground.joined(), ground.joined());
    see_to_deputy(&mut front);
    assert!(deputy.hear() && deputy.is_behind(), "it is to watch, too");
    assert!(!ground.join(&mut deputy) && !deputy.hear());
    assert!(has_nothing_to_hear(&front) && has_nothing_to_hear(&deputy) && has_nothing_to_hear(&third));
    drop(front);
    assert!(has_nothing_to_hear(&third), "one wakes one");
    await_news(&mut deputy);
    assert!(is_front(&deputy));
}

/// The deputy leaves, then the front: the one behind them follows.
fn deputy_gives_up(in_between: fn(&mut Line)) {
    let ground = Ground::new();
    let mut front = ground.joined();
    let deputy = ground.joined();
    see_to_deputy(&mut front);
    let mut next = ground.joined();
    drop(deputy);
    in_between(&mut front);
    drop(front);
    await_news(&mut next);
    assert!(is_front(&next));
}

#[test]
fn a_deputy_that_gives_up_is_replaced() {
    deputy_gives_up(see_to_deputy);
}

#[test]
fn a_deputy_that_gives_up_with_the_front_is_skipped() {
    deputy_gives_up(|_| ());
}

#[test]
fn a_killed_front_is_followed_by_its_deputy() {
    let ground = Ground::new();
    let front = start_in_line(&ground);
    let mut deputy = ground.joined();
    let next = ground.joined();
    kill(front.pid, Signal::SIGCONT).unwrap();
    poll(&mut [PollFd::new(deputy.socket().unwrap(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    assert!(deputy.hear() && deputy.is_behind());
    drop(front);
    await_news(&mut deputy);
    assert!(is_front(&deputy) && has_nothing_to_hear(&next));
}

#[test]
fn each_object_has_its_own() {
    let ground = Ground::new();
    let mut line = ground.joined();
    let mut other = Line::default();
    assert!(!other.join(&ground.dir, OsStr::new("n"), Awaited::Removal));
    assert!(!Line::default().join(&ground.dir, OsStr::new("m"), Awaited::Change));
    let mut next = ground.joined();
    assert!(is_front(&line) && is_front(&other) && next.is_behind());
    assert!(!line.join(&ground.dir, OsStr::new("elsewhere"), Awaited::Removal));
    assert!(next.hear() && is_front(&next), "who turns to another object leaves the line of the first");
}

#[test]
fn who_gave_up_is_skipped() {
    let ground = Ground::new();
    let front = ground.joined();
    drop(ground.joined());
    let mut waiting = ground.joined();
    drop(front);
    assert!(waiting.hear() && is_front(&waiting));
}

#[test]
fn who_gives_up_just_when_it_is_its_turn_passes_the_line_on() {
    let ground = Ground::new();
    let (front, gives_up, mut waiting) = (ground.joined(), ground.joined(), ground.joined());
    drop(front);
    assert!(!waiting.hear());
    drop(gives_up);
    assert!(waiting.hear() && is_front(&waiting));
}

#[test]
fn the_turn_may_come_while_looking_at_the_object() {
    let ground = Ground::new();
    let (front, mut waiting) = (ground.joined(), ground.joined());
    drop(front);
    assert!(!ground.join(&mut waiting) && is_front(&waiting));
}

/// A process that stands in the line, and says so.
fn start_in_line(ground: &Ground) -> Forked {
    let (reader, writer) = pipe().unwrap();
    let forked = Forked::start_among(&ground.alone, || {
        let mut line = ground.joined();
        // Continued, it sees to its deputy.
        let mut continued = SigSet::empty();
        continued.add(Signal::SIGCONT);
        continued.thread_block().unwrap();
        write(&writer, b".").unwrap();
        loop {
            continued.wait().unwrap();
            line.hear();
        }
    });
    read(&reader, &mut [0]).unwrap();
    forked
}

#[test]
fn a_killed_front_wakes_all_and_one_follows() {
    let ground = Ground::new();
    let front = start_in_line(&ground);
    let mut lines: Vec<Line> = (0..4).map(|_| ground.joined()).collect();
    assert!(lines.iter().all(Line::is_behind));
    kill(front.pid, Signal::SIGKILL).unwrap();
    lines.iter_mut().for_each(await_news);
    let behind: Vec<bool> = lines.iter_mut().map(|line| ground.join(line)).collect();
    assert_eq!(behind, [false, true, true, true]);
}

#[test]
fn hand_over_dies() {
    let ground = Ground::new();
    let front = ground.joined();
    let next = start_in_line(&ground);
    let mut last = ground.joined();
    kill(next.pid, Signal::SIGSTOP).unwrap();
    drop(front);
    assert!(!last.hear(), "the socket is on its way to the stopped one");
    kill(next.pid, Signal::SIGKILL).unwrap();
    await_news(&mut last);
    assert!(!ground.join(&mut last) && is_front(&last));
}

#[test]
fn bind_without_listen() {
    let ground = Ground::new();
    let stopped = ground.squat();
    let mut line = Line::default();
    assert!(!ground.join(&mut line) && is_alone(&line));
    drop(stopped);
    assert!(!ground.join(&mut line) && is_front(&line), "found at the next look");
}

#[test]
fn no_descriptor() {
    let ground = Ground::new();
    let squatter = ground.squat_and_listen();
    let mut line = ground.joined();
    let (mut connection, _) = squatter.accept().unwrap();
    std::io::Write::write_all(&mut connection, b".").unwrap();
    assert!(line.hear() && is_alone(&line));
}

#[test]
fn a_socket_that_does_not_listen_is_not_a_line() {
    let ground = Ground::new();
    let squatter = ground.squat_and_listen();
    let mut line = ground.joined();
    let (connection, _) = squatter.accept().unwrap();
    let (useless, _) = UnixStream::pair().unwrap();
    let rights = [useless.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&rights)];
    sendmsg::<UnixAddr>(connection.as_raw_fd(), &[IoSlice::new(b".")], &message, MsgFlags::empty(), None).unwrap();
    assert!(line.hear() && is_alone(&line));
}

#[test]
fn a_full_line_is_no_line() {
    let ground = Ground::new();
    let front = ground.squat();
    listen(&front, Backlog::new(0).unwrap()).unwrap();
    let lines: Vec<Line> = (0..3).map(|_| ground.joined()).collect();
    assert!(lines[0].is_behind() && is_alone(lines.last().unwrap()));
}

#[test]
fn a_squatter_that_hangs_up_is_left_alone_in_the_end() {
    let ground = Ground::new();
    let squatter = ground.squat_and_listen();
    let mut line = Line::default();
    let mut rounds = 0;
    while ground.join(&mut line) {
        drop(squatter.accept().unwrap());
        await_news(&mut line);
        rounds += 1;
    }
    assert_eq!(rounds, PATIENCE);
}

#[test]
fn who_is_not_called_by_a_stopped_front_waits_alone_for_a_while() {
    let ground = Ground::new();
    let stopped = ground.joined();
    let fronts = Rc::new(Fronts::default());
    let join = || {
        let mut line = Line::new(fronts.clone());
        ground.join(&mut line);
        line
    };
    let mut behind = join();
    behind.has_woken(true);
    drop(behind);
    let mut behind = join();
    assert!(behind.is_behind(), "it may have been quicker than the front");
    behind.has_woken(false);
    drop(behind);
    for _ in 0..2 {
        let mut behind = join();
        assert!(behind.is_behind(), "a front may be slow, or gone when the time was over");
        behind.has_woken(true);
        drop(behind);
    }
    assert!(is_alone(&join()));
    assert!(ground.joined().is_behind(), "others find out for themselves");
    let (object, since) = fronts.stopped.get().unwrap();
    fronts.stopped.set(Some((object, Time(since.0.saturating_sub(DISTRUST.as_nanos() as u64)))));
    assert!(join().is_behind());
    drop(stopped);
}

#[test]
fn who_was_called_just_when_it_looked_blames_nobody() {
    let ground = Ground::new();
    let front = ground.joined();
    let fronts = Rc::new(Fronts::default());
    let mut behind = Line::new(fronts.clone());
    assert!(ground.join(&mut behind));
    behind.has_woken(true);
    drop(front);
    drop(behind);
    assert_eq!(fronts.stopped.get(), None);
}

#[test]
fn to_stand_behind_others_there_must_be_others() {
    let ground = Ground::new();
    let behind = || Line::behind(Rc::default(), &ground.dir, OsStr::new("m"), Awaited::Removal);
    assert!(behind().is_none());
    let front = ground.joined();
    let mut line = behind().unwrap();
    assert!(line.is_behind());
    drop(front);
    assert!(line.hear() && is_front(&line));
    assert!(!ground.join(&mut line) && is_front(&line), "it is the same line");
}
