//! From the words of a call to its outcome: parsed against the table, validated before the first side effect, carried
//! out by a primitive, delivered.
//!
//! A call that is interrupted by a signal ends with [`Outcome::Interrupted`]; the shell looks after its signals and calls
//! [`run`] again with the same [`Call`], whose start time and carried work go on. If the shell does not come back, since a
//! trap ended the script, [`abandon`] cleans up.

mod deliver;
mod help;
mod locks;
mod semaphores;
mod shell;
mod table;
mod words;

use crate::base::{Deadline, Name, Result, Time, Timeout};
use crate::primitive::Created;
use crate::primitive::wait::Waited;
use crate::sys::World;
pub use shell::{Moved, Shell, Target};
pub use table::{Action, Builtin, Opt, TABLE};
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
    Evaluate,
}

/// What lives as long as a call, interruptions included.
#[derive(Default)]
pub struct Call {
    start: Option<Time>,
    carried: Carried,
}

/// Work that an interruption must not lose.
#[derive(Default)]
enum Carried {
    #[default]
    Nothing,
    Delivering(deliver::Delivery),
}

impl Call {
    /// When the first step began: timeouts count from there.
    fn start<W: World>(&mut self, world: &W) -> Time {
        *self.start.get_or_insert_with(|| world.now())
    }

    /// After [`Outcome::Evaluate`]: the next command, a line for the shell.
    pub fn next_command(&mut self) -> Option<Vec<u8>> {
        None
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
    let mut context = Context { world, shell, call, builtin, words, start };
    match builtin.action {
        Action::MutexTrylock => context.mutex_lock(Some(Timeout::Once)),
        Action::MutexLock => context.mutex_lock(None),
        Action::MutexUnlock => context.mutex_unlock(),
        Action::WmutexTrylock => context.wmutex_lock(Some(Timeout::Once)),
        Action::WmutexLock => context.wmutex_lock(None),
        Action::WmutexUnlock => context.wmutex_unlock(),
        Action::SemInit => context.sem_init(),
        Action::SemWait => context.sem_wait(None),
        Action::SemTrywait => context.sem_wait(Some(Timeout::Once)),
        Action::SemPost => context.sem_post(),
        Action::SemPeek => context.sem_peek(),
        Action::SemDestroy => context.sem_destroy(),
    }
}

/// The shell leaves the call for good: what was taken and not delivered goes back.
pub fn abandon<W: World>(_world: &W, _call: Call) {}

/// What the commands of all families work with.
struct Context<'a, W, S> {
    world: &'a W,
    shell: &'a mut S,
    call: &'a mut Call,
    builtin: &'static Builtin,
    words: Words<'a>,
    start: Time,
}

impl<W: World, S: Shell> Context<'_, W, S> {
    fn directory(&self) -> Result<Name> {
        Name::of_directory(self.words.operands[0])
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
