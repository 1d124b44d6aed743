//! The one table of builtins: names, usage, options, help. From it come the structures bash looks up, `help`, the
//! completion, the manual page and the README's section. The build script reads this file too, so it names nothing
//! else of the crate.

/// What a builtin does when called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    MutexTrylock,
    MutexLock,
    MutexUnlock,
    WmutexTrylock,
    WmutexLock,
    WmutexUnlock,
    SemInit,
    SemWait,
    SemTrywait,
    SemPost,
    SemPeek,
    SemDestroy,
}

pub struct Builtin {
    pub name: &'static str,
    pub action: Action,
    /// Options and arguments as the usage line shows them.
    pub synopsis: &'static str,
    pub operands: Operands,
    pub options: &'static [Opt],
    /// One line without a full stop: the first of the help text.
    pub summary: &'static str,
    /// What the summary leaves out; lines broken as they are shown.
    pub details: &'static str,
    pub statuses: &'static [(&'static str, &'static str)],
    pub example: &'static str,
}

/// How many words follow the options.
pub struct Operands {
    pub least: usize,
    /// `usize::MAX`: any number.
    pub most: usize,
}

pub struct Opt {
    pub letter: u8,
    /// The name of its value, if it takes one.
    pub value: Option<&'static str>,
    pub text: &'static str,
}

const fn operands(least: usize, most: usize) -> Operands {
    Operands { least, most }
}

const fn flag(letter: u8, text: &'static str) -> Opt {
    Opt { letter, value: None, text }
}

const fn with_value(letter: u8, value: &'static str, text: &'static str) -> Opt {
    Opt { letter, value: Some(value), text }
}

const CLOSE: Opt = flag(b'c', "programs started while it is held do not keep it");
const FORCE_UNLOCK: Opt = flag(b'f', "remove it whoever holds it");
const KEEPS_NOTHING: Opt = flag(b'c', "as in mutex_lock; a weak mutex is never kept by programs");
const ANYBODY_ANYWAY: Opt = flag(b'f', "as in mutex_unlock; a weak mutex needs no force");
const FORCE_DESTROY: Opt = flag(b'f', "destroy it whoever made it");
const INTO_VARIABLE: Opt = with_value(b'v', "VAR", "store the result in VAR instead of printing it");

const TIMEOUT: &str = "\
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.";

const USAGE: (&str, &str) = ("2", "wrong usage; nothing was done");
const NOT_OWNER: (&str, &str) = ("2", "wrong usage, or not the owner; nothing was done");
const ERROR: (&str, &str) = ("3", "system error, or a damaged object");

pub static TABLE: &[Builtin] = &[
    Builtin {
        name: "mutex_trylock",
        action: Action::MutexTrylock,
        synopsis: "[-c] NAME",
        operands: operands(1, 1),
        options: &[CLOSE],
        summary: "Lock a mutex if it is free",
        details: "\
NAME is the path of the lock. The lock is held while this process, or a
program it starts meanwhile, lives; a dead holder's lock counts as free.",
        statuses: &[("0", "locked"), ("1", "somebody holds it"), USAGE, ERROR],
        example: "mutex_trylock /run/lock/backup || return",
    },
    Builtin {
        name: "mutex_lock",
        action: Action::MutexLock,
        synopsis: "[-c] NAME [TIMEOUT]",
        operands: operands(1, 2),
        options: &[CLOSE],
        summary: "Lock a mutex, waiting while somebody holds it",
        details: "\
NAME is the path of the lock. The lock is held while this process, or a
program it starts meanwhile, lives; a dead holder's lock is taken over.
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.",
        statuses: &[("0", "locked"), ("1", "timed out"), USAGE, ERROR],
        example: "mutex_lock /run/lock/backup 2.5 && { backup; mutex_unlock /run/lock/backup; }",
    },
    Builtin {
        name: "mutex_unlock",
        action: Action::MutexUnlock,
        synopsis: "[-f] NAME",
        operands: operands(1, 1),
        options: &[FORCE_UNLOCK],
        summary: "Unlock a mutex",
        details: "\
Any subshell of the script that locked it may unlock it. The lock of a dead
holder is removed, too.",
        statuses: &[("0", "unlocked"), ("1", "it was not locked"), NOT_OWNER, ERROR],
        example: "mutex_unlock /run/lock/backup",
    },
    Builtin {
        name: "wmutex_trylock",
        action: Action::WmutexTrylock,
        synopsis: "[-c] NAME",
        operands: operands(1, 1),
        options: &[KEEPS_NOTHING],
        summary: "Lock a weak mutex if it is free",
        details: "\
A weak mutex has no owner: anyone may unlock it, and it outlives its script.",
        statuses: &[("0", "locked"), ("1", "it is locked already"), USAGE, ERROR],
        example: "wmutex_trylock ./started || printf 'started before\\n'",
    },
    Builtin {
        name: "wmutex_lock",
        action: Action::WmutexLock,
        synopsis: "[-c] NAME [TIMEOUT]",
        operands: operands(1, 2),
        options: &[KEEPS_NOTHING],
        summary: "Lock a weak mutex, waiting while it is locked",
        details: "\
A weak mutex has no owner: anyone may unlock it, and it outlives its script.
Used backwards it is a signal: one locks it twice, another unlocks it.
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.",
        statuses: &[("0", "locked"), ("1", "timed out"), USAGE, ERROR],
        example: "wmutex_lock ./gate; worker & wmutex_lock ./gate   # until worker unlocks it",
    },
    Builtin {
        name: "wmutex_unlock",
        action: Action::WmutexUnlock,
        synopsis: "[-f] NAME",
        operands: operands(1, 1),
        options: &[ANYBODY_ANYWAY],
        summary: "Unlock a weak mutex, whoever locked it",
        details: "",
        statuses: &[("0", "unlocked"), ("1", "it was not locked"), USAGE, ERROR],
        example: "wmutex_unlock ./gate",
    },
    Builtin {
        name: "sem_init",
        action: Action::SemInit,
        synopsis: "NAME [VALUE]",
        operands: operands(1, 2),
        options: &[],
        summary: "Make a counting semaphore",
        details: "NAME becomes a directory. VALUE is its count, 0 if omitted.",
        statuses: &[("0", "made"), ("1", "NAME exists already"), USAGE, ERROR],
        example: "sem_init ./slots 4",
    },
    Builtin {
        name: "sem_wait",
        action: Action::SemWait,
        synopsis: "NAME [TIMEOUT]",
        operands: operands(1, 2),
        options: &[],
        summary: "Take a token of a semaphore, waiting while there is none",
        details: TIMEOUT,
        statuses: &[("0", "taken"), ("1", "timed out"), USAGE, ERROR],
        example: "sem_wait ./slots 10 || return",
    },
    Builtin {
        name: "sem_trywait",
        action: Action::SemTrywait,
        synopsis: "NAME",
        operands: operands(1, 1),
        options: &[],
        summary: "Take a token of a semaphore if there is one",
        details: "",
        statuses: &[("0", "taken"), ("1", "there is none"), USAGE, ERROR],
        example: "sem_trywait ./slots && start_job",
    },
    Builtin {
        name: "sem_post",
        action: Action::SemPost,
        synopsis: "NAME [COUNT]",
        operands: operands(1, 2),
        options: &[],
        summary: "Give tokens to a semaphore",
        details: "COUNT tokens, 1 if omitted.",
        statuses: &[("0", "given"), USAGE, ERROR],
        example: "sem_post ./slots",
    },
    Builtin {
        name: "sem_peek",
        action: Action::SemPeek,
        synopsis: "[-v VAR] NAME",
        operands: operands(1, 1),
        options: &[INTO_VARIABLE],
        summary: "Tell the count of a semaphore",
        details: "\
Peers that use the pure-bash functions can leave -1 behind; it means no token.",
        statuses: &[("0", "told"), USAGE, ERROR],
        example: "sem_peek -v free ./slots",
    },
    Builtin {
        name: "sem_destroy",
        action: Action::SemDestroy,
        synopsis: "[-f] NAME",
        operands: operands(1, 1),
        options: &[FORCE_DESTROY],
        summary: "Remove a semaphore",
        details: "Only the script that made it may; waiters end with status 3.",
        statuses: &[("0", "removed"), NOT_OWNER, ERROR],
        example: "sem_destroy ./slots",
    },
];
