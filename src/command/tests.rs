//! Whole calls, on the real file system, in a shell that can be told to refuse, to fail and to interrupt.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use super::*;
use crate::base::Error;
use crate::sys::scratch::Scratch;
use crate::sys::{Errno, Local, Sys};

/// What the next write or read does.
#[derive(Debug, Clone, Copy)]
enum Next {
    Move(usize),
    Interrupt,
    Fail(Errno),
}

#[derive(Default)]
struct Fake {
    variables: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// A name, and how many looks it takes until it is refused.
    refused: Option<(&'static [u8], usize)>,
    looks: std::cell::Cell<usize>,
    /// When it is empty everything succeeds.
    script: VecDeque<Next>,
    output: Vec<u8>,
    input: Vec<u8>,
    warnings: Vec<String>,
    rescued: Vec<Vec<u8>>,
    /// A signal at this look for one.
    news_at: std::cell::Cell<Option<usize>>,
    is_terminal: bool,
    /// What happens while somebody thinks about an answer.
    before_answer: Option<Box<dyn FnOnce()>>,
}

impl Fake {
    fn next(&mut self, length: usize) -> Sys<Moved> {
        match self.script.pop_front() {
            None => Ok(Moved::Bytes(length)),
            Some(Next::Move(count)) => Ok(Moved::Bytes(count.min(length))),
            Some(Next::Interrupt) => Ok(Moved::Interrupted),
            Some(Next::Fail(errno)) => Err(errno),
        }
    }
}

impl Shell for Fake {
    fn refuses(&self, target: Target<'_>) -> Option<&'static str> {
        let (name, patience) = self.refused?;
        self.looks.set(self.looks.get() + 1);
        (target.name() == name && self.looks.get() > patience).then_some("readonly variable")
    }

    fn assign(&mut self, target: Target<'_>, values: &[Vec<u8>]) -> Result<()> {
        self.variables.insert(target.name().to_vec(), values.to_vec());
        Ok(())
    }

    fn unset(&mut self, target: Target<'_>) {
        self.variables.remove(target.name());
    }

    fn write(&mut self, bytes: &[u8]) -> Sys<Moved> {
        let moved = self.next(bytes.len());
        if let Ok(Moved::Bytes(count)) = moved {
            self.output.extend_from_slice(&bytes[..count]);
        }
        moved
    }

    fn is_function(&self, _: &[u8]) -> bool {
        false
    }

    fn has_news(&self) -> bool {
        let left = self.news_at.take();
        self.news_at.set(left.filter(|&left| left > 0).map(|left| left - 1));
        left == Some(0)
    }

    fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    fn version(&self) -> Vec<u8> {
        b"5.2".to_vec()
    }

    fn open(&mut self, _: &OsStr) -> Sys<OwnedFd> {
        Ok(std::fs::File::open("/dev/null").unwrap().into())
    }

    fn read(&mut self, _: Option<&OwnedFd>, buffer: &mut [u8]) -> Sys<Moved> {
        if let Some(happens) = self.before_answer.take() {
            happens();
        }
        let moved = self.next(buffer.len().min(self.input.len()));
        match moved {
            Ok(Moved::Bytes(count)) => {
                let count = count.min(self.input.len());
                for (place, byte) in buffer.iter_mut().zip(self.input.drain(..count)) {
                    *place = byte;
                }
                Ok(Moved::Bytes(count))
            }
            moved => moved,
        }
    }

    fn program(&self) -> Vec<u8> {
        b"test".to_vec()
    }

    fn warn(&mut self, line: &[u8]) {
        self.warnings.push(String::from_utf8_lossy(line).into_owned());
    }

    fn rescue(&mut self, item: &[u8]) {
        self.rescued.push(item.to_vec());
    }
}

/// A shell in a directory of its own.
struct Stage {
    world: Local,
    shell: Fake,
    scratch: Scratch,
}

impl Stage {
    fn new() -> Stage {
        Stage { world: Local::new(std::process::id()), shell: Fake::default(), scratch: Scratch::in_memory() }
    }

    /// With an empty queue `q`.
    fn with_queue() -> Stage {
        let mut stage = Stage::new();
        assert_eq!(stage.run("queue_init @q"), Ok(Outcome::Done));
        stage
    }

    /// `@q` is a path in the directory; `%` is a space.
    fn step(&mut self, call: &mut Call, line: &str) -> Result<Outcome> {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| self.expand(word)).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let name = std::str::from_utf8(words[0]).unwrap();
        run(&self.world, &mut self.shell, call, find(name), &words[1..])
    }

    fn expand(&self, word: &str) -> Vec<u8> {
        match word.strip_prefix('@') {
            Some(part) => self.scratch.path(part).into_os_string().into_encoded_bytes(),
            None => word.replace('%', " ").into_bytes(),
        }
    }

    /// A call to its end, with the shell coming back from every interruption.
    fn run(&mut self, line: &str) -> Result<Outcome> {
        let mut call = Call::default();
        loop {
            match self.step(&mut call, line) {
                Ok(Outcome::Interrupted) => {}
                end => return end,
            }
        }
    }

    fn items(&mut self) -> Vec<String> {
        let mut items = Vec::new();
        while self.run("queue_get -v item @q 0") == Ok(Outcome::Done) {
            items.push(self.variable("item"));
        }
        items
    }

    fn variable(&self, name: &str) -> String {
        let values = &self.shell.variables[name.as_bytes()];
        let values: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
        values.join("|")
    }

    fn is_set(&self, name: &str) -> bool {
        self.shell.variables.contains_key(name.as_bytes())
    }
}

fn status(end: Result<Outcome>) -> u8 {
    match end {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::No) => 1,
        Ok(other) => panic!("not an end: {other:?}"),
        Err(error) => error.status(),
    }
}

#[test]
fn the_table_is_consistent() {
    let mut names: Vec<&str> = TABLE.iter().map(|builtin| builtin.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len(), "a name twice");
    for builtin in TABLE {
        let name = builtin.name;
        assert!(builtin.operands.least <= builtin.operands.most, "{name}");
        for option in builtin.options {
            let shown = option
                .value
                .map_or(format!("-{}", option.letter as char), |value| format!("-{} {value}", option.letter as char));
            assert!(builtin.synopsis.contains(&shown), "{name}: the usage lacks {shown}");
        }
        let options = builtin.synopsis.matches(['-']).count();
        assert_eq!(options, builtin.options.len(), "{name}: the usage shows an option that is not in the table");
        assert!(builtin.statuses.iter().map(|row| row.0).is_sorted(), "{name}");
        for status in ["0", "2", "3"] {
            assert!(builtin.statuses.iter().any(|row| row.0 == status), "{name}: status {status} is not explained");
        }
        assert!(builtin.example.contains(name), "{name}: the example does not use it");
    }
}

#[test]
fn the_help_is_as_bash_wants_it() {
    for builtin in TABLE.iter().chain(VERBS) {
        let (name, text) = (builtin.name, builtin.long_doc());
        assert!(text.is_ascii(), "{name}: must be readable in every locale");
        assert!(text.starts_with(builtin.summary), "{name}: `help -d` shows the first line");
        assert!(!text.starts_with('/'), "{name}: bash would open that file");
        for line in text.lines() {
            assert!(line.len() <= 80 && line.trim_end() == line, "{name}: {line:?}");
        }
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            assert!(line.starts_with("    "), "{name}: {line:?}");
        }
    }
}

#[test]
fn help_is_printed_and_nothing_is_done() {
    let mut stage = Stage::new();
    assert_eq!(stage.run("mutex_lock --help @m"), Ok(Outcome::Done));
    let text = String::from_utf8(std::mem::take(&mut stage.shell.output)).unwrap();
    assert!(text.starts_with("mutex_lock: mutex_lock [-c] NAME [TIMEOUT]\n    Lock a mutex"), "{text}");
    assert!(!stage.scratch.path("m").is_symlink());
}

#[test]
fn wrong_usage_does_nothing() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q kept").unwrap();
    stage.run("sem_init @s 3").unwrap();
    stage.shell.refused = Some((b"ro", 0));
    for line in [
        "mutex_lock @m 5s",
        "mutex_lock @m 1 2",
        "mutex_lock -f @m",
        "mutex_lock word://m",
        "wmutex_lock @m 1e3",
        "dirlock_lock @m nan",
        "bakery_lock @m --",
        "sem_init @new -1",
        "sem_init @new 1.5",
        "sem_init @new 9223372036854775808",
        "sem_init @new ",
        "sem_post @s -1",
        "sem_post @s x",
        "sem_wait @s x",
        "sem_peek -v ro @s",
        "queue_put @q",
        "queue_put -f - @q item",
        "queue_get -v ro @q",
        "queue_get -a ro -n 1 @q",
        "queue_get -v a -a b -n 1 @q",
        "queue_get -a b @q",
        "queue_get -n 1 @q",
        "queue_get -a b -n 0 @q",
        "queue_get -a b -n -1 @q",
        "queue_get -v x @q soon",
        "queue_foreach @q",
    ] {
        let end = stage.run(line);
        assert!(matches!(end, Err(Error::Usage(_))), "{line}: {end:?}");
    }
    assert!(!stage.scratch.path("m").is_symlink() && !stage.scratch.path("m").exists());
    assert!(!stage.scratch.path("new").exists());
    assert_eq!(stage.run("sem_peek -v count @s"), Ok(Outcome::Done));
    assert_eq!(stage.variable("count"), "3");
    assert_eq!(stage.items(), ["kept"]);
}

#[test]
fn the_statuses_of_locks_and_semaphores() {
    let mut stage = Stage::new();
    for (line, expected) in [
        ("mutex_lock @m", 0),
        ("mutex_trylock @m", 1),
        ("mutex_lock @m 0", 1),
        ("mutex_lock @m ", 1),
        ("mutex_lock -c @m 0.01", 1),
        ("mutex_unlock @m", 0),
        ("mutex_unlock @m", 1),
        ("mutex_lock @none/m 5", 3),
        ("mutex_unlock @none/m", 3),
        ("wmutex_trylock @m", 0),
        ("wmutex_lock @m 0.01", 1),
        ("mutex_unlock @m", 2),
        ("mutex_unlock -f @m", 0),
        ("wmutex_lock @m", 0),
        ("wmutex_unlock @m", 0),
        ("wmutex_unlock @m", 1),
        ("dirlock_lock @d/", 0),
        ("dirlock_trylock @d", 1),
        ("dirlock_lock @d 0.01", 1),
        ("dirlock_unlock @d", 0),
        ("dirlock_unlock @d", 1),
        ("bakery_lock @b", 0),
        ("bakery_trylock @b", 1),
        ("bakery_lock @b 0.01", 1),
        ("bakery_unlock @b", 0),
        ("bakery_unlock @b", 1),
        ("sem_init @s", 0),
        ("sem_init @s 5", 1),
        ("sem_trywait @s", 1),
        ("sem_wait @s 0.01", 1),
        ("sem_post @s 2", 0),
        ("sem_post @s 9223372036854775807", 3),
        ("sem_wait @s", 0),
        ("sem_trywait @s", 0),
        ("sem_trywait @s", 1),
        ("sem_destroy @s", 0),
        ("sem_destroy @s", 3),
        ("sem_wait @s 5", 3),
    ] {
        assert_eq!(status(stage.run(line)), expected, "{line}");
    }
}

#[test]
fn results_go_to_the_variable_or_to_standard_output() {
    let mut stage = Stage::with_queue();
    for line in ["queue_put @q a -n --", "queue_len @q", "queue_peek @q", "queue_get @q", "queue_peek -a all @q"] {
        assert_eq!(stage.run(line), Ok(Outcome::Done), "{line}");
    }
    assert_eq!(stage.shell.output, b"3\na\na\n");
    assert_eq!(stage.variable("all"), "-n|--");
    assert_eq!(stage.run("queue_get -a some -n 9 @q"), Ok(Outcome::Done));
    assert_eq!(stage.variable("some"), "-n|--");
}

#[test]
fn a_failed_call_leaves_its_variable_unset() {
    let mut stage = Stage::with_queue();
    for line in ["queue_get -v x @q 0", "queue_peek -v x @q", "queue_peek -a x @q", "queue_len -v x @q/none"] {
        stage.shell.variables.insert(b"x".to_vec(), vec![b"old".to_vec()]);
        assert_ne!(status(stage.run(line)), 0, "{line}");
        assert!(!stage.is_set("x"), "{line}");
    }
}

#[test]
fn an_item_that_cannot_be_delivered_stays_the_head() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q first second").unwrap();
    for next in [Next::Fail(Errno::EPIPE), Next::Fail(Errno::EBADF), Next::Move(0)] {
        stage.shell.script = [Next::Move(3), next].into();
        assert_eq!(status(stage.run("queue_get @q")), 3, "{next:?}");
    }
    // Refused at the look before delivery: a trap has made it readonly.
    stage.shell.refused = Some((b"x", 1));
    assert_eq!(status(stage.run("queue_get -v x @q")), 3);
    stage.shell.looks.set(0);
    assert_eq!(status(stage.run("queue_get -a x -n 2 @q")), 3);
    assert!(!stage.is_set("x"));
    stage.shell.refused = None;
    assert_eq!(stage.items(), ["first", "second"]);
    assert!(stage.shell.warnings.is_empty() && stage.shell.rescued.is_empty());
}

#[test]
fn a_nul_byte_fits_into_no_variable() {
    let mut stage = Stage::with_queue();
    stage.shell.input = b"x\0y".to_vec();
    assert_eq!(stage.run("queue_put -f - @q"), Ok(Outcome::Done));
    for line in ["queue_get -v x @q", "queue_get -a x -n 1 @q", "queue_peek -v x @q", "queue_foreach @q true"] {
        assert_eq!(status(stage.run(line)), 3, "{line}");
    }
    assert!(!stage.is_set("x"));
    assert_eq!(stage.run("queue_get @q 0"), Ok(Outcome::Done));
    assert_eq!(stage.shell.output, b"x\0y\n");
}

#[test]
fn what_cannot_even_be_put_back_is_rescued() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q only").unwrap();
    let mut call = Call::default();
    stage.shell.script = [Next::Interrupt].into();
    assert_eq!(stage.step(&mut call, "queue_get @q"), Ok(Outcome::Interrupted));
    assert_eq!(stage.run("queue_destroy @q"), Ok(Outcome::Done));
    stage.shell.script = [Next::Fail(Errno::EPIPE)].into();
    assert_eq!(status(stage.step(&mut call, "queue_get @q")), 3);
    assert_eq!(stage.shell.rescued, [b"only"]);
    assert_eq!(stage.shell.warnings.len(), 1, "{:?}", stage.shell.warnings);
}

#[test]
fn an_interrupted_write_goes_on_where_it_was() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q message").unwrap();
    stage.shell.script = [Next::Interrupt, Next::Move(3), Next::Interrupt, Next::Move(1)].into();
    assert_eq!(stage.run("queue_get @q"), Ok(Outcome::Done));
    assert_eq!(stage.shell.output, b"message\n");
    assert!(stage.items().is_empty());
}

#[test]
fn a_large_item_is_written_in_pieces_and_ends_in_one_newline() {
    let mut stage = Stage::with_queue();
    let item = "x".repeat(10_000);
    for script in [
        vec![],
        vec![Next::Move(9_999), Next::Interrupt],
        vec![Next::Move(10_000), Next::Interrupt],
        vec![Next::Move(4_096), Next::Move(4_096), Next::Interrupt, Next::Move(1)],
    ] {
        stage.run(&format!("queue_put @q {item}")).unwrap();
        stage.shell.script = script.into();
        assert_eq!(stage.run("queue_get @q"), Ok(Outcome::Done));
        assert!(std::mem::take(&mut stage.shell.output) == format!("{item}\n").into_bytes());
    }
}

#[test]
fn a_call_that_a_trap_abandons_gives_its_item_back() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q message next").unwrap();
    let mut call = Call::default();
    stage.shell.script = [Next::Move(3), Next::Interrupt].into();
    assert_eq!(stage.step(&mut call, "queue_get @q"), Ok(Outcome::Interrupted));
    abandon(&stage.world, &mut call).unwrap();
    assert_eq!(stage.items(), ["message", "next"]);
}

#[test]
fn an_abandoned_peek_puts_nothing_back() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q message").unwrap();
    let mut call = Call::default();
    stage.shell.script = [Next::Move(3), Next::Interrupt].into();
    assert_eq!(stage.step(&mut call, "queue_peek @q"), Ok(Outcome::Interrupted));
    abandon(&stage.world, &mut call).unwrap();
    assert_eq!(stage.items(), ["message"]);
}

#[test]
fn interrupted_reading_keeps_what_it_has_read() {
    let mut stage = Stage::with_queue();
    let text = "0123456789".repeat(20_000);
    stage.shell.input = text.clone().into_bytes();
    stage.shell.script = [Next::Move(10), Next::Interrupt, Next::Interrupt, Next::Move(7)].into();
    assert_eq!(stage.run("queue_put -f - @q"), Ok(Outcome::Done));
    assert_eq!(stage.items(), [text]);
}

#[test]
fn an_input_that_fails_puts_nothing() {
    let mut stage = Stage::with_queue();
    stage.shell.input = b"half".to_vec();
    stage.shell.script = [Next::Move(4), Next::Fail(Errno::EIO)].into();
    let end = stage.run("queue_put -f - @q");
    assert_eq!(end, Err(Error::system("standard input", Errno::EIO)));
    assert!(stage.items().is_empty());
}

#[test]
fn a_missing_queue_is_told_before_input_is_read() {
    let mut stage = Stage::new();
    stage.shell.input = b"precious".to_vec();
    assert_eq!(status(stage.run("queue_put -f - @none")), 3);
    assert_eq!(stage.shell.input, b"precious");
}

#[test]
fn the_commands_of_foreach_are_quoted_words() {
    let mut stage = Stage::with_queue();
    stage.run("queue_put @q it's%$(x)  *").unwrap();
    let mut call = Call::default();
    assert_eq!(stage.step(&mut call, "queue_foreach @q f -a 'b"), Ok(Outcome::Evaluate { is_shell_code: false }));
    let mut commands = std::iter::from_fn(|| call.next_command().unwrap()).map(|line| String::from_utf8(line).unwrap());
    assert_eq!(commands.next().unwrap(), r"'f' 'it'\''s $(x)' '-a' ''\''b' ");
    assert_eq!(commands.next().unwrap(), r"'f' '' '-a' ''\''b' ");
    assert_eq!(commands.next().unwrap(), r"'f' '*' '-a' ''\''b' ");
    assert_eq!(commands.next(), None);
}

#[test]
fn timeouts_count_from_the_first_step() {
    let mut stage = Stage::with_queue();
    stage.run("mutex_lock @m").unwrap();
    for line in ["queue_get @q 5", "mutex_lock @m 5"] {
        // It began when the machine did.
        let mut call = Call { start: Some(Time(0)), ..Call::default() };
        assert_eq!(stage.step(&mut call, line), Ok(Outcome::No), "{line}");
    }
}

#[test]
fn a_signal_interrupts_a_long_listing_which_goes_on_where_it_was() {
    let mut stage = Stage::new();
    for (directory, mutex) in [("a", "a/m"), ("b", "b/m"), ("c", "c/m")] {
        std::fs::create_dir(stage.scratch.path(directory)).unwrap();
        assert_eq!(stage.run(&format!("mutex_lock @{mutex}")), Ok(Outcome::Done));
    }
    stage.shell.news_at.set(Some(2));
    let mut call = Call::default();
    assert_eq!(stage.step(&mut call, "interlock ls -0 @"), Ok(Outcome::Interrupted));
    assert_eq!(stage.step(&mut call, "interlock ls -0 @"), Ok(Outcome::Done));
    assert_eq!(stage.shell.output.split(|&byte| byte == 0).filter(|record| record.ends_with(b"/m")).count(), 3);
}

#[test]
fn a_lock_that_changes_hands_while_the_question_stands_is_not_broken() {
    let mut stage = Stage::new();
    assert_eq!(stage.run("wmutex_lock @m"), Ok(Outcome::Done));
    let link = stage.scratch.path("m");
    stage.shell.is_terminal = true;
    stage.shell.input = b"y\ny\n".to_vec();
    stage.shell.script = VecDeque::from([Next::Move(2), Next::Move(2)]);
    stage.shell.before_answer = Some(Box::new({
        let link = link.clone();
        move || {
            std::fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink("1", &link).unwrap();
        }
    }));
    assert_eq!(stage.run("interlock break @m"), Ok(Outcome::No));
    assert_eq!(std::fs::read_link(&link).unwrap(), std::path::Path::new("1"), "nobody was asked about this one");
    assert_eq!(stage.run("interlock break @m"), Ok(Outcome::Done));
    assert!(std::fs::symlink_metadata(&link).is_err());
}
