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
    QueueInit,
    QueuePut,
    QueueGet,
    QueuePeek,
    QueueLen,
    QueueForeach,
    QueueDestroy,
    DirlockTrylock,
    DirlockLock,
    DirlockUnlock,
    BakeryTrylock,
    BakeryLock,
    BakeryUnlock,
    MutexRun,
    DirlockRun,
    BakeryRun,
    SemRun,
    Interlock,
    InspectList,
    InspectStat,
    InspectWhy,
    InspectBreak,
    InspectVersion,
    Man,
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
    /// A second way to say it.
    pub long: Option<&'static str>,
    /// The name of its value, if it takes one.
    pub value: Option<&'static str>,
    pub text: &'static str,
}

const fn operands(least: usize, most: usize) -> Operands {
    Operands { least, most }
}

const fn flag(letter: u8, text: &'static str) -> Opt {
    Opt { letter, long: None, value: None, text }
}

const fn with_value(letter: u8, value: &'static str, text: &'static str) -> Opt {
    Opt { letter, long: None, value: Some(value), text }
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

const RUN_TIMEOUT: Opt = with_value(b't', "TIMEOUT", "wait so many seconds at most; 0 tries once");
const RUN_STATUS: Opt = with_value(b'E', "STATUS", "the status if the lock was not got (1)");
const SLOTS: Opt = with_value(b'n', "SLOTS", "make the semaphore with so many tokens if it is missing");
const RUN_STATUSES: &[(&str, &str)] = &[
    ("0", "COMMAND was run; its own status, whatever that is"),
    ("1", "timed out, COMMAND was not run"),
    USAGE,
    ERROR,
];

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
        example: "mutex_lock ./lock 2.5 && { change_things; mutex_unlock ./lock; }",
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
        example: "wmutex_lock ./gate; worker & wmutex_lock ./gate   # worker unlocks it",
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
Peers that use the pure-bash functions can leave -1 behind: no token.",
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
    Builtin {
        name: "queue_init",
        action: Action::QueueInit,
        synopsis: "NAME",
        operands: operands(1, 1),
        options: &[],
        summary: "Make a queue",
        details: "NAME becomes a directory.",
        statuses: &[("0", "made"), ("1", "NAME exists already"), USAGE, ERROR],
        example: "queue_init ./jobs",
    },
    Builtin {
        name: "queue_put",
        action: Action::QueuePut,
        synopsis: "NAME ITEM... | queue_put -f FILE NAME",
        operands: operands(1, usize::MAX),
        options: &[with_value(b'f', "FILE", "put the whole of FILE as one item; - is standard input")],
        summary: "Append items to a queue",
        details: "\
Items are any bytes, and several are appended together. Everything after
NAME is data: queue_put ./jobs -n stores -n.",
        statuses: &[("0", "all are in the queue"), USAGE, ("3", "system error or damaged queue; none is in the queue")],
        example: "find . -name '*.png' | queue_put -f - ./jobs",
    },
    Builtin {
        name: "queue_get",
        action: Action::QueueGet,
        synopsis: "[-v VAR | -a ARRAY -n MAX] NAME [TIMEOUT]",
        operands: operands(1, 2),
        options: &[
            INTO_VARIABLE,
            with_value(b'a', "ARRAY", "store up to MAX items that are there in ARRAY"),
            with_value(b'n', "MAX", "how many items at most"),
        ],
        summary: "Take the oldest item of a queue, waiting while it is empty",
        details: "\
Without -v and -a the item and a newline are printed. An item that cannot be
delivered goes back to the head of the queue.
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.",
        statuses: &[
            ("0", "taken"),
            ("1", "timed out"),
            USAGE,
            ("3", "system error or damaged queue, or not delivered"),
        ],
        example: "while queue_get -v job ./jobs 10; do run_job \"$job\"; done",
    },
    Builtin {
        name: "queue_peek",
        action: Action::QueuePeek,
        synopsis: "[-v VAR | -a ARRAY] NAME",
        operands: operands(1, 1),
        options: &[INTO_VARIABLE, with_value(b'a', "ARRAY", "store all items in ARRAY")],
        summary: "Look at the oldest item of a queue without taking it",
        details: "",
        statuses: &[("0", "told"), ("1", "the queue is empty"), USAGE, ERROR],
        example: "queue_peek -v next ./jobs",
    },
    Builtin {
        name: "queue_len",
        action: Action::QueueLen,
        synopsis: "[-v VAR] NAME",
        operands: operands(1, 1),
        options: &[INTO_VARIABLE],
        summary: "Tell the number of items in a queue",
        details: "",
        statuses: &[("0", "told"), USAGE, ERROR],
        example: "queue_len -v backlog ./jobs",
    },
    Builtin {
        name: "queue_foreach",
        action: Action::QueueForeach,
        synopsis: "NAME COMMAND [ARG...]",
        operands: operands(2, usize::MAX),
        options: &[],
        summary: "Run a command for each item in a queue, taking none",
        details: "\
Runs COMMAND ITEM ARG... for the items that are there at the beginning,
oldest first, in this shell and without a lock: COMMAND may use the queue.
A status other than 0 ends the loop.",
        statuses: &[("0", "COMMAND succeeded for all items"), ("1", "COMMAND failed"), USAGE, ERROR],
        example: "queue_foreach ./jobs printf '%s\\n'",
    },
    Builtin {
        name: "queue_destroy",
        action: Action::QueueDestroy,
        synopsis: "[-f] NAME",
        operands: operands(1, 1),
        options: &[FORCE_DESTROY],
        summary: "Remove a queue and the items in it",
        details: "Only the script that made it may; waiters end with status 3.",
        statuses: &[("0", "removed"), NOT_OWNER, ERROR],
        example: "queue_destroy ./jobs",
    },
    Builtin {
        name: "dirlock_trylock",
        action: Action::DirlockTrylock,
        synopsis: "[-c] NAME",
        operands: operands(1, 1),
        options: &[CLOSE],
        summary: "Lock a lock directory if it is free",
        details: "\
The lock excludes scripts that lock with mkdir NAME. It is held while this
process, or a program it starts meanwhile, lives; a dead holder's lock
counts as free, a directory made by mkdir alone does not.",
        statuses: &[("0", "locked"), ("1", "somebody holds it"), USAGE, ERROR],
        example: "dirlock_trylock /run/lock/backup.d || return",
    },
    Builtin {
        name: "dirlock_lock",
        action: Action::DirlockLock,
        synopsis: "[-c] NAME [TIMEOUT]",
        operands: operands(1, 2),
        options: &[CLOSE],
        summary: "Lock a lock directory, waiting while somebody holds it",
        details: "\
The lock excludes scripts that lock with mkdir NAME. It is held while this
process, or a program it starts meanwhile, lives; a dead holder's lock is
taken over, a directory made by mkdir alone is not.
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.",
        statuses: &[("0", "locked"), ("1", "timed out"), USAGE, ERROR],
        example: "dirlock_lock /run/lock/backup.d 60 || return",
    },
    Builtin {
        name: "dirlock_unlock",
        action: Action::DirlockUnlock,
        synopsis: "[-f] NAME",
        operands: operands(1, 1),
        options: &[FORCE_UNLOCK],
        summary: "Unlock a lock directory",
        details: "\
Any subshell of the script that locked it may unlock it. The lock of a dead
holder is removed, too. By force so is an empty directory, which a plain
script has made; never one with somebody's files in it.",
        statuses: &[("0", "unlocked"), ("1", "it was not locked"), NOT_OWNER, ERROR],
        example: "dirlock_unlock /run/lock/backup.d",
    },
    Builtin {
        name: "bakery_trylock",
        action: Action::BakeryTrylock,
        synopsis: "DIR",
        operands: operands(1, 1),
        options: &[],
        summary: "Enter a bakery if nobody is before us",
        details: "DIR is the directory of the tickets; it is made if it is missing.",
        statuses: &[("0", "entered"), ("1", "somebody is before us"), USAGE, ERROR],
        example: "bakery_trylock ./bakery || return",
    },
    Builtin {
        name: "bakery_lock",
        action: Action::BakeryLock,
        synopsis: "DIR [TIMEOUT]",
        operands: operands(1, 2),
        options: &[],
        summary: "Enter a bakery: first come, first served",
        details: "\
Lamport's bakery is a fair lock. DIR is the directory of the tickets; it is
made if it is missing. A trap that runs meanwhile costs the place in line.
TIMEOUT is in seconds, decimals allowed: omitted or negative waits for ever,
0 tries once. Traps run while it waits.",
        statuses: &[("0", "entered"), ("1", "timed out"), USAGE, ERROR],
        example: "bakery_lock ./bakery && { serve; bakery_unlock ./bakery; }",
    },
    Builtin {
        name: "bakery_unlock",
        action: Action::BakeryUnlock,
        synopsis: "DIR",
        operands: operands(1, 1),
        options: &[],
        summary: "Leave a bakery",
        details: "Any subshell of the script that entered it may leave it.",
        statuses: &[("0", "left"), ("1", "nobody was inside"), NOT_OWNER, ERROR],
        example: "bakery_unlock ./bakery",
    },
    Builtin {
        name: "mutex_run",
        action: Action::MutexRun,
        synopsis: "[-c] [-t TIMEOUT] [-E STATUS] NAME COMMAND [ARG...]",
        operands: operands(2, usize::MAX),
        options: &[CLOSE, RUN_TIMEOUT, RUN_STATUS],
        summary: "Run a command while holding a mutex",
        details: "\
As mutex_lock NAME, COMMAND, mutex_unlock NAME.
COMMAND is a function, builtin or program, run in this shell. Its status is
passed through, and the lock is given back on every way out: return, exit,
set -e, Ctrl-C, Ctrl-Z. Under set -e a function (or eval) that fails
ends the script, even where if or || looks at the run.",
        statuses: RUN_STATUSES,
        example: "mutex_run -t 5 /run/lock/backup backup --all",
    },
    Builtin {
        name: "dirlock_run",
        action: Action::DirlockRun,
        synopsis: "[-c] [-t TIMEOUT] [-E STATUS] NAME COMMAND [ARG...]",
        operands: operands(2, usize::MAX),
        options: &[CLOSE, RUN_TIMEOUT, RUN_STATUS],
        summary: "Run a command while holding a lock directory",
        details: "\
As dirlock_lock NAME, COMMAND, dirlock_unlock NAME.
COMMAND is a function, builtin or program, run in this shell. Its status is
passed through, and the lock is given back on every way out: return, exit,
set -e, Ctrl-C, Ctrl-Z. Under set -e a function (or eval) that fails
ends the script, even where if or || looks at the run.",
        statuses: RUN_STATUSES,
        example: "dirlock_run -t 5 /run/lock/backup.d backup --all",
    },
    Builtin {
        name: "bakery_run",
        action: Action::BakeryRun,
        synopsis: "[-t TIMEOUT] [-E STATUS] DIR COMMAND [ARG...]",
        operands: operands(2, usize::MAX),
        options: &[RUN_TIMEOUT, RUN_STATUS],
        summary: "Run a command inside a bakery: first come, first served",
        details: "\
As bakery_lock DIR, COMMAND, bakery_unlock DIR.
COMMAND is a function, builtin or program, run in this shell. Its status is
passed through, and the lock is given back on every way out: return, exit,
set -e, Ctrl-C, Ctrl-Z. Under set -e a function (or eval) that fails
ends the script, even where if or || looks at the run.",
        statuses: RUN_STATUSES,
        example: "bakery_run ./bakery serve",
    },
    Builtin {
        name: "sem_run",
        action: Action::SemRun,
        synopsis: "[-n SLOTS] [-t TIMEOUT] [-E STATUS] NAME COMMAND [ARG...]",
        operands: operands(2, usize::MAX),
        options: &[SLOTS, RUN_TIMEOUT, RUN_STATUS],
        summary: "Run a command while holding a token of a semaphore",
        details: "\
As sem_wait NAME, COMMAND, sem_post NAME.
COMMAND is a function, builtin or program, run in this shell. Its status is
passed through, and the token is given back on every way out: return, exit,
set -e, Ctrl-C and Ctrl-Z at a prompt. The token of a shell that dies of a
signal meanwhile is lost; trap 'exit 130' INT saves it from Ctrl-C.
Under set -e a function (or eval) that fails ends the script, even where if
or || looks at the run.",
        statuses: RUN_STATUSES,
        example: "sem_run -n 4 /run/lock/jobs convert picture.png",
    },
    Builtin {
        name: "interlock",
        action: Action::Interlock,
        synopsis: "ls|stat|why|break|version|man [ARG ...]",
        operands: operands(1, usize::MAX),
        options: &[],
        summary: "Look at locks, semaphores and queues, and at who holds and awaits them",
        details: "\
ls [-0|--json] [DIR ...]  the objects below the directories
stat NAME                 all about one, and what would free it
why NAME                  who waits for whom, and whether it is a deadlock
break [-y] NAME           remove a lock, whoever holds it
version [DIR]             versions, and how waiting works in DIR
man                       this and all other help as a manual page
Every verb has --help. Processes that may not be looked into are said to be
unknown.",
        statuses: &[("0", "shown, or removed"), ("1", "not removed"), USAGE, ERROR],
        example: "interlock ls /run/lock",
    },
];

/// The verbs of `interlock`.
pub static VERBS: &[Builtin] = &[
    Builtin {
        name: "interlock ls",
        action: Action::InspectList,
        synopsis: "[-0|--json] [DIR ...]",
        operands: operands(0, usize::MAX),
        options: &[
            flag(b'0', "records ended by NUL, fields parted by tabs, the name last"),
            Opt { letter: b'j', long: Some("json"), value: None, text: "the same as JSON" },
        ],
        summary: "List the objects below directories",
        details: "\
One row each: the holder's process, how long it has been held, how many
wait, tokens of a semaphore or items of a queue. Without DIR below the
current directory.
The fields of -0 are kind, state, pid, seconds, waiters, count, command and
name.",
        statuses: &[("0", "listed"), USAGE, ERROR],
        example: "interlock ls --json /run/lock",
    },
    Builtin {
        name: "interlock stat",
        action: Action::InspectStat,
        synopsis: "NAME",
        operands: operands(1, 1),
        options: &[],
        summary: "Tell all about one object, in words",
        details: "Who holds it, why it is or is not stale, what would free it, who waits.",
        statuses: &[("0", "told"), USAGE, ERROR],
        example: "interlock stat /run/lock/backup",
    },
    Builtin {
        name: "interlock why",
        action: Action::InspectWhy,
        synopsis: "NAME",
        operands: operands(1, 1),
        options: &[],
        summary: "Tell who waits for whom, from one object on",
        details: "The last line says `deadlock` when the chain closes.",
        statuses: &[("0", "told"), USAGE, ERROR],
        example: "interlock why /run/lock/backup",
    },
    Builtin {
        name: "interlock break",
        action: Action::InspectBreak,
        synopsis: "[-y] NAME",
        operands: operands(1, 1),
        options: &[flag(b'y', "do not ask")],
        summary: "Remove a lock after showing whose it is",
        details: "Asks at a terminal; elsewhere -y is needed.",
        statuses: &[("0", "removed"), ("1", "not removed"), USAGE, ERROR],
        example: "interlock break -y /run/lock/backup",
    },
    Builtin {
        name: "interlock version",
        action: Action::InspectVersion,
        synopsis: "[DIR]",
        operands: operands(0, 1),
        options: &[],
        summary: "Print versions, and how waiting works in a directory",
        details: "",
        statuses: &[("0", "printed"), USAGE, ERROR],
        example: "interlock version /run/lock",
    },
    Builtin {
        name: "interlock man",
        action: Action::Man,
        synopsis: "",
        operands: operands(0, 0),
        options: &[],
        summary: "Print the manual page",
        details: "In the form that man(1) reads.",
        statuses: &[("0", "printed"), USAGE, ERROR],
        example: "interlock man | man -l -",
    },
];
