//! From the words of a call to its outcome: parsed against the table, validated before the first side effect, carried
//! out by a primitive, delivered.
//!
//! A call that is interrupted by a signal ends with [`Outcome::Interrupted`]; the shell looks after its signals and calls
//! [`run`] again with the same [`Call`], whose start time and carried work go on. If the shell does not come back, since a
//! trap ended the script, [`abandon`] cleans up.

mod deliver;
mod help;
mod input;
mod inspect;
mod line;
mod locks;
mod man;
mod place;
mod queues;
mod running;
mod semaphores;
mod shell;
mod table;
mod words;

use crate::base::{Deadline, Name, Result, Time, Timeout};
use crate::primitive::wait::Waited;
use crate::primitive::{Created, queue};
use crate::sys::World;
pub use shell::{Moved, Shell, Target};
pub use table::{Action, Builtin, Opt, TABLE, VERBS};
use words::{Asked, Words};

/// How a step of a call ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Status 0.
    Done,
    /// Status 1: an honest no.
    No,
    /// Nothing is held; look after the signals, then run again.
    Interrupted,
    /// Run the commands of [`Call::next_command`], end with the status that says.
    Evaluate { is_shell_code: bool },
    /// Run [`Call::next_command`], end with its status.
    Run { is_shell_code: bool },
    /// A status of the user's choice.
    Status(u8),
}

/// What lives as long as a call, interruptions included.
#[derive(Default)]
pub struct Call {
    start: Option<Time>,
    place: place::Place,
    carried: Carried,
}

/// Work that an interruption must not lose.
#[derive(Default)]
enum Carried {
    #[default]
    Nothing,
    Reading(input::Reading),
    Delivering(deliver::Delivery),
    Foreach(queues::Foreach),
    Running(running::Running),
    Listing(inspect::list::Walk),
}

impl Call {
    /// When the first step began: timeouts count from there.
    fn start<W: World>(&mut self, world: &W) -> Time {
        *self.start.get_or_insert_with(|| world.now())
    }

    /// After [`Outcome::Evaluate`]: the next command, a line for the shell.
    pub fn next_command(&mut self) -> Result<Option<Vec<u8>>> {
        match &mut self.carried {
            Carried::Foreach(foreach) => foreach.next_command(),
            Carried::Running(running) => Ok(running.command()),
            _ => Ok(None),
        }
    }
}

/// One step of a call.
pub fn run<W: World, S: Shell>(
    world: &W,
    shell: &mut S,
    call: &mut Call,
    builtin: &'static Builtin,
    words: &[&[u8]],
) -> Result<Outcome> {
    let words = match words::parse(builtin, words)? {
        Asked::Help => return deliver::print(shell, call, builtin.help().into_bytes()),
        Asked::Call(words) => words,
    };
    let start = call.start(world);
    let mut context = Context { world, shell, call, builtin, words, start, notes: Vec::new() };
    let end = context.act();
    for note in std::mem::take(&mut context.notes) {
        context.shell.warn(&note.message());
    }
    if matches!(end, Ok(Outcome::Interrupted | Outcome::Evaluate { .. } | Outcome::Run { .. })) {
        call.place.remember(world);
    }
    end
}

/// A trap's `break` has ended the call with status 1, before [`abandon`].
pub fn broken_off<W: World, S: Shell>(
    world: &W,
    shell: &mut S,
    call: &mut Call,
    builtin: &'static Builtin,
    words: &[&[u8]],
) {
    let Ok(Asked::Call(words)) = words::parse(builtin, words) else { return };
    let start = call.start(world);
    let mut context = Context { world, shell, call, builtin, words, start, notes: Vec::new() };
    if let Ok(target) = context.any_target() {
        let _ = context.unset_unless_done(target, Ok(Outcome::No));
    }
}

/// The shell leaves the call for good, or the command of a *_run has ended: what was taken and not delivered goes back, what
/// was locked is unlocked.
pub fn abandon<W: World>(world: &W, call: &mut Call) -> Result<()> {
    match std::mem::take(&mut call.carried) {
        Carried::Delivering(delivery) => {
            delivery.at(world, &call.place).put_back(world, &mut Vec::new()).map_err(|(_, error)| error)
        }
        Carried::Running(running) => running.release(world, &call.place),
        _ => Ok(()),
    }
}

/// The shell may not come back, and then nobody calls [`abandon`]: what was taken and not delivered goes back. If it does
/// come back the call takes it again.
pub fn give_back<W: World>(world: &W, call: &mut Call) -> Result<()> {
    match call.carried {
        Carried::Delivering(_) => abandon(world, call),
        _ => Ok(()),
    }
}

/// What the commands of all families work with.
struct Context<'a, W, S> {
    world: &'a W,
    shell: &'a mut S,
    call: &'a mut Call,
    builtin: &'static Builtin,
    words: Words<'a>,
    start: Time,
    /// What the user has to know although the call went on.
    notes: queue::Notes,
}

impl<W: World, S: Shell> Context<'_, W, S> {
    fn act(&mut self) -> Result<Outcome> {
        match self.builtin.action {
            Action::MutexTrylock => self.mutex_lock(Some(Timeout::Once)),
            Action::MutexLock => self.mutex_lock(None),
            Action::MutexUnlock => self.mutex_unlock(),
            Action::WmutexTrylock => self.wmutex_lock(Some(Timeout::Once)),
            Action::WmutexLock => self.wmutex_lock(None),
            Action::WmutexUnlock => self.wmutex_unlock(),
            Action::SemInit => self.sem_init(),
            Action::SemWait => self.sem_wait(None),
            Action::SemTrywait => self.sem_wait(Some(Timeout::Once)),
            Action::SemPost => self.sem_post(),
            Action::SemPeek => self.sem_peek(),
            Action::SemDestroy => self.sem_destroy(),
            Action::QueueInit => self.queue_init(),
            Action::QueuePut => self.queue_put(),
            Action::QueueGet => self.queue_get(),
            Action::QueuePeek => self.queue_peek(),
            Action::QueueLen => self.queue_len(),
            Action::QueueForeach => self.queue_foreach(),
            Action::QueueDestroy => self.queue_destroy(),
            Action::DirlockTrylock => self.dirlock_lock(Some(Timeout::Once)),
            Action::DirlockLock => self.dirlock_lock(None),
            Action::DirlockUnlock => self.dirlock_unlock(),
            Action::BakeryTrylock => self.bakery_lock(Some(Timeout::Once)),
            Action::BakeryLock => self.bakery_lock(None),
            Action::BakeryUnlock => self.bakery_unlock(),
            Action::MutexRun | Action::DirlockRun | Action::BakeryRun | Action::SemRun => self.run_holding(),
            Action::Interlock => self.interlock(),
            Action::InspectList
            | Action::InspectStat
            | Action::InspectWhy
            | Action::InspectBreak
            | Action::InspectVersion
            | Action::Man => self.inspect(),
        }
    }

    fn directory(&self) -> Result<Name> {
        Name::of_directory(self.words.operands[0]).map(|name| self.call.place.find(self.world, name))
    }

    /// From `timeout`, else from the second operand.
    fn deadline(&self, timeout: Option<Timeout>) -> Result<Deadline> {
        let timeout = timeout.map_or_else(|| self.words.timeout(self.builtin), Ok)?;
        Ok(timeout.from(self.start))
    }
}

fn outcome(end: Waited<()>) -> Outcome {
    match end {
        Waited::Done(()) => Outcome::Done,
        Waited::TimedOut => Outcome::No,
        Waited::Interrupted => Outcome::Interrupted,
    }
}

fn created(end: Created) -> Outcome {
    match end {
        Created::Made => Outcome::Done,
        Created::Exists => Outcome::No,
    }
}

/// The row of a name; for tests.
#[cfg(test)]
fn find(name: &str) -> &'static Builtin {
    TABLE.iter().find(|builtin| builtin.name == name).expect("a builtin of the table")
}

#[cfg(test)]
mod tests;
