//! Running a scene of several processes under every schedule, or under many.
//!
//! A search goes depth first through the choices *who does the next step*. Two ways to the same state (same files, same
//! descriptors, same answers to each process) are followed once. With a bound on pre-emptions it is exhaustive within
//! that bound. Beyond, shuttle's random and PCT schedulers walk at random.
//!
//! A kill, a signal and the passing of time are steps of helper processes, so every moment for them is searched, too.

use std::collections::{BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, Runner};

use crate::world::{Fault, Kernel, Killed, Machine, Options, Sim, State, Tally, Trouble, Who};

/// More steps than any scene has; a search that gets there goes round in circles.
const ENDLESS: usize = 5_000;

pub fn is_deep() -> bool {
    std::env::var_os("INTERLOCK_DEEP").is_some_and(|value| value != "0")
}

/// In this scene directories and files come and go, so that opening them is a step that others see.
pub fn everything_changes(options: &mut Options) {
    options.directories_stay = false;
    options.files_stay = false;
}

/// Sets up and describes one execution. Not generic: the search is compiled once for all of them.
type Play = Arc<dyn Fn(&mut Scene) + Send + Sync>;

type Body = Box<dyn FnOnce(&Sim) + Send>;

/// The processes of one execution, set up anew for each.
pub struct Scene {
    machine: Arc<Machine>,
    /// Process 0: lives throughout and takes no part in the races.
    before: Sim,
    bodies: Vec<(Who, Body)>,
    checks: Vec<Body>,
    /// Only violations that say this count: what else goes wrong in a broken world is not what is looked for.
    expected: Option<&'static str>,
}

impl Scene {
    fn new(machine: &Arc<Machine>, expected: Option<&'static str>) -> Scene {
        let before = Sim::new(machine.clone(), machine.kernel().add_helper());
        Scene { machine: machine.clone(), before, bodies: Vec::new(), checks: Vec::new(), expected }
    }

    /// What is done before the race begins, by a process that lives throughout.
    pub fn before<R>(&mut self, body: impl FnOnce(&Sim) -> R) -> R {
        body(&self.before)
    }

    pub fn script(&mut self, body: impl FnOnce(&Sim) + Send + 'static) -> Who {
        let who = self.machine.kernel().add_script();
        self.bodies.push((who, Box::new(body)));
        who
    }

    /// A subshell of `parent`, which must fork it.
    pub fn subshell(&mut self, parent: Who, body: impl FnOnce(&Sim) + Send + 'static) -> Who {
        let who = self.machine.kernel().add_subshell(parent);
        self.bodies.push((who, Box::new(body)));
        who
    }

    fn helper(&mut self, body: impl FnOnce(&Sim) + Send + 'static) {
        let who = self.machine.kernel().add_helper();
        self.bodies.push((who, Box::new(body)));
    }

    /// Kills the process, at any moment.
    pub fn kill(&mut self, victim: Who) {
        self.helper(move |sim| sim.kill(victim));
    }

    /// Sends a signal that bash has to look at, at any moment.
    pub fn signal(&mut self, whom: Who) {
        self.helper(move |sim| sim.signal(whom));
    }

    /// Lets the next sleeper wake up, at any moment, though others are busy: they are slow.
    pub fn slow(&mut self, times: usize) {
        self.helper(move |sim| (0..times).for_each(|_| sim.skip_time()));
    }

    pub fn always(&self, check: impl Fn(&Kernel) + Send + Sync + 'static) {
        self.machine.always(check);
    }

    /// When all processes have ended, by process 0.
    pub fn at_rest(&mut self, check: impl FnOnce(&Sim) + Send + 'static) {
        self.checks.push(Box::new(check));
    }

    fn play(self) {
        let Scene { machine, before, bodies, checks, expected } = self;
        machine.kernel().crashes.clear();
        machine.race(true);
        let threads: Vec<_> = bodies
            .into_iter()
            .map(|(who, body)| {
                let sim = Sim::new(machine.clone(), who);
                shuttle::thread::spawn(move || live(&sim, body, expected))
            })
            .collect();
        for thread in threads {
            thread.join().expect("a process ends by itself or is killed");
        }
        machine.race(false);
        if machine.is_abandoned() {
            return;
        }
        machine.kernel().fault = None;
        only_expected(expected, || checks.into_iter().for_each(|check| check(&before)));
    }
}

fn live(sim: &Sim, body: Body, expected: Option<&'static str>) {
    let machine = sim.machine();
    machine.run(|| {
        if machine.kernel().processes[sim.who()].state == State::Unborn {
            machine.block(sim.who());
        }
        only_expected(expected, || body(sim));
        sim.exit();
    });
}

fn only_expected(expected: Option<&'static str>, body: impl FnOnce()) {
    let Some(expected) = expected else { return body() };
    match catch_unwind(AssertUnwindSafe(body)) {
        Err(payload) if payload.is::<Killed>() || message_of(&*payload).contains(expected) => resume_unwind(payload),
        _ => {}
    }
}

/// What a search was and what it has seen.
#[derive(Debug, Default, Clone)]
pub struct Report {
    pub schedules: u64,
    pub states: u64,
    /// How they were chosen.
    pub kind: String,
    pub faults: u64,
    pub crashes: BTreeSet<(Who, usize)>,
    pub seen: Tally,
    pub time: Duration,
    /// What can go wrong at the calls of each process.
    troubles: Vec<Vec<Vec<Trouble>>>,
}

impl Report {
    /// *sometimes*: the step happened with this end, in at least one schedule.
    #[track_caller]
    pub fn saw(&self, step: &str) -> &Self {
        assert!(self.seen.contains_key(step), "never saw «{step}», but {:#?}", self.seen);
        self
    }

    fn add(&mut self, other: &Report) {
        self.schedules += other.schedules;
        self.states += other.states;
        self.faults += other.faults;
        self.time += other.time;
        self.crashes.extend(&other.crashes);
        for (step, count) in &other.seen {
            *self.seen.entry(step.clone()).or_default() += count;
        }
    }
}

/// A schedule that broke a property.
#[derive(Debug)]
pub struct Violation {
    pub message: String,
    pub steps: Vec<String>,
    pub schedule: String,
}

#[derive(Clone, Copy, Debug)]
enum Walk {
    /// Depth first, with at most so many pre-emptions.
    All {
        preemptions: u32,
    },
    Random {
        schedules: usize,
    },
    Pct {
        schedules: usize,
    },
}

pub struct Search {
    name: String,
    walk: Walk,
    options: Options,
    fault: Option<Fault>,
    expected: Option<&'static str>,
}

impl Search {
    pub fn all(name: &str) -> Search {
        Search {
            name: name.into(),
            walk: Walk::All { preemptions: u32::MAX },
            options: Options::default(),
            fault: None,
            expected: None,
        }
    }

    /// Leaves out schedules in which more than so many processes are made to wait in the middle of their work.
    pub fn preemptions(mut self, bound: u32) -> Search {
        self.walk = Walk::All { preemptions: bound };
        self
    }

    pub fn random(mut self, schedules: usize) -> Search {
        self.walk = Walk::Random { schedules };
        self
    }

    pub fn pct(mut self, schedules: usize) -> Search {
        self.walk = Walk::Pct { schedules };
        self
    }

    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Search {
        change(&mut self.options);
        self
    }

    /// Searches, and prints what was visited. A violation fails the test with the list of its steps.
    pub fn holds(self, scene: impl Fn(&mut Scene) + Send + Sync + 'static) -> Report {
        let name = self.name.clone();
        let report = self.search(Arc::new(scene)).unwrap_or_else(|violation| fail(&name, &violation));
        print(&name, &report);
        report
    }

    /// Searches for a violation of this property, which must be there, since a rule is missing.
    // A sentence of a test: it is caught.
    #[allow(clippy::wrong_self_convention)]
    pub fn is_caught(mut self, property: &'static str, scene: impl Fn(&mut Scene) + Send + Sync + 'static) {
        self.expected = Some(property);
        match self.search(Arc::new(scene)) {
            Ok(report) => panic!("{}: not caught in {} schedules", self.name, report.schedules),
            Err(violation) if !violation.message.contains(property) => fail(&self.name, &violation),
            Err(violation) => {
                println!("search: {}: caught: {}", self.name, violation.message.lines().next().unwrap_or_default());
                if std::env::var_os("INTERLOCK_SHOW").is_some() {
                    violation.steps.iter().for_each(|step| println!("    {step}"));
                }
            }
        }
    }

    /// One fault of each kind at each call of `who`, with the searched schedules around it.
    pub fn faults(self, who: Who, scene: impl Fn(&mut Scene) + Send + Sync + 'static) -> Report {
        let scene: Play = Arc::new(scene);
        let Search { name, walk, options, .. } = self;
        let with = |fault| Search { name: name.clone(), walk, options: options.clone(), fault, expected: None };
        let run = |fault| with(fault).search(scene.clone()).unwrap_or_else(|v| fail(&format!("{name} {fault:?}"), &v));
        let mut total = run(None);
        for (call, troubles) in std::mem::take(&mut total.troubles[who]).into_iter().enumerate() {
            for trouble in troubles {
                total.add(&run(Some(Fault { who, call, trouble })));
                total.faults += 1;
            }
        }
        print(&name, &total);
        total
    }

    fn search(&self, scene: Play) -> Result<Report, Violation> {
        if let Ok(schedule) = std::env::var("INTERLOCK_REPLAY") {
            self.replay(&schedule, &scene)?;
        }
        let stage = Arc::new(Mutex::new(Stage::default()));
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| match self.walk {
            Walk::All { preemptions } => self.run(&stage, DepthFirst::new(stage.clone(), preemptions), &scene),
            Walk::Random { schedules } => self.run(&stage, RandomScheduler::new_from_seed(seed(), schedules), &scene),
            Walk::Pct { schedules } => self.run(&stage, PctScheduler::new_from_seed(seed(), 4, schedules), &scene),
        }));
        let mut stage = stage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match outcome {
            Ok(schedules) => {
                stage.collect();
                let mut report = std::mem::take(&mut stage.report);
                report.schedules = schedules as u64;
                report.time = start.elapsed();
                report.kind = match self.walk {
                    Walk::All { preemptions: u32::MAX } => "all".into(),
                    Walk::All { preemptions } => format!("all with {preemptions} pre-emptions"),
                    Walk::Random { .. } => "random".into(),
                    Walk::Pct { .. } => "PCT".into(),
                };
                Ok(report)
            }
            Err(payload) => {
                let schedule = stage.chosen.iter().map(|who| who.to_string()).collect::<Vec<_>>().join(".");
                drop(stage);
                let message = message_of(&*payload);
                // Once more with all steps in words.
                match self.replay(&schedule, &scene) {
                    Err(violation) => Err(violation),
                    Ok(()) => Err(Violation {
                        message: format!("{message} (and not when replayed: the scene is not deterministic)"),
                        steps: Vec::new(),
                        schedule,
                    }),
                }
            }
        }
    }

    fn replay(&self, schedule: &str, scene: &Play) -> Result<(), Violation> {
        let stage = Arc::new(Mutex::new(Stage { is_traced: true, ..Stage::default() }));
        let choices: Vec<usize> = schedule.split('.').filter_map(|who| who.parse().ok()).collect();
        let outcome =
            catch_unwind(AssertUnwindSafe(|| self.run(&stage, Replay { choices: Some(choices), next: 0 }, scene)));
        let stage = stage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let steps = stage.machine.as_ref().map_or_else(Vec::new, |machine| machine.steps());
        match outcome {
            Ok(_) => Ok(()),
            Err(payload) => Err(Violation { message: message_of(&*payload), steps, schedule: schedule.into() }),
        }
    }

    fn run<S: Scheduler + 'static>(&self, stage: &Arc<Mutex<Stage>>, scheduler: S, scene: &Play) -> usize {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.silence_warnings = true;
        config.ungraceful_shutdown_config.immediately_return_on_panic = true;
        let (options, fault, expected, scene) = (self.options.clone(), self.fault, self.expected, scene.clone());
        let gate = Gate { stage: stage.clone(), inner: scheduler };
        let stage = stage.clone();
        Runner::new(gate, config).run(move || {
            let is_traced = stage.lock().unwrap().is_traced;
            let machine = Machine::new(options.clone(), is_traced);
            machine.kernel().fault = fault;
            let mut prepared = Scene::new(&machine, expected);
            scene(&mut prepared);
            let racers = prepared.bodies.iter().map(|(who, _)| *who).collect();
            stage.lock().unwrap().enter(machine, racers);
            prepared.play();
        })
    }
}

fn seed() -> u64 {
    std::env::var("INTERLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_229)
}

fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

fn fail(name: &str, violation: &Violation) -> ! {
    let mut text = format!("{name}: {}\n", violation.message);
    for step in &violation.steps {
        text += &format!("    {step}\n");
    }
    text += &format!("replay with INTERLOCK_REPLAY={}", violation.schedule);
    panic!("{text}");
}

fn print(name: &str, report: &Report) {
    let Report { schedules, kind, states, faults, crashes, time, .. } = report;
    let (crashes, seconds) = (crashes.len(), time.as_secs_f32());
    println!(
        "search: {name}: {schedules} schedules ({kind}), {states} states, {crashes} crash points, {faults} faults, \
         {seconds:.1} s"
    );
    // Who runs all tests adds these up for each primitive.
    if let Some(path) = std::env::var_os("INTERLOCK_COUNTS") {
        let primitive = name.split(',').next().unwrap_or(name);
        let line = format!("{primitive}\t{schedules}\t{states}\t{crashes}\t{faults}\n");
        let appended = OpenOptions::new().append(true).create(true).open(path).and_then(|mut file| {
            // One write: the tests run in several threads.
            file.write_all(line.as_bytes())
        });
        appended.expect("INTERLOCK_COUNTS names a file");
    }
}

/// What the scheduler sees of the execution.
#[derive(Default)]
struct Stage {
    machine: Option<Arc<Machine>>,
    /// The processes in the order of their threads.
    racers: Vec<Who>,
    is_traced: bool,
    /// The choices made, for a replay.
    chosen: Vec<usize>,
    steps: usize,
    /// The process that did the last step.
    last: Option<Who>,
    report: Report,
}

impl Stage {
    fn enter(&mut self, machine: Arc<Machine>, racers: Vec<Who>) {
        self.collect();
        self.machine = Some(machine);
        self.racers = racers;
        self.chosen.clear();
        self.steps = 0;
        self.last = None;
    }

    /// Takes over what the last execution has counted.
    fn collect(&mut self) {
        let Some(machine) = self.machine.take() else { return };
        for (step, count) in machine.take_tally() {
            *self.report.seen.entry(step).or_default() += count;
        }
        let mut kernel = machine.kernel();
        self.report.crashes.extend(std::mem::take(&mut kernel.crashes));
        let troubles = &mut self.report.troubles;
        troubles.resize_with(kernel.processes.len(), Vec::new);
        for (known, process) in troubles.iter_mut().zip(&kernel.processes) {
            known.resize_with(known.len().max(process.troubles.len()), Vec::new);
            for (known, &new) in known.iter_mut().zip(&process.troubles) {
                known.extend(new.iter().filter(|trouble| !known.contains(trouble)).copied().collect::<Vec<_>>());
            }
        }
    }

    fn machine(&self) -> &Arc<Machine> {
        self.machine.as_ref().expect("the scene is set")
    }

    fn who(&self, task: &Task) -> Who {
        self.racers[usize::from(task.id()) - 1]
    }
}

/// Shows the scheduler behind it only the real choices: processes that stand before a step and are not blocked.
struct Gate<S> {
    stage: Arc<Mutex<Stage>>,
    inner: S,
}

impl<S: Scheduler> Scheduler for Gate<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.inner.new_execution()
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _is_yielding: bool) -> Option<TaskId> {
        // The test's own thread sets up and checks; it does not race.
        if let Some(main) = runnable.iter().find(|task| usize::from(task.id()) == 0) {
            return Some(main.id());
        }
        let mut real = Vec::with_capacity(runnable.len());
        {
            let stage = self.stage.lock().unwrap();
            let kernel = stage.machine().kernel();
            for task in runnable {
                let process = &kernel.processes[stage.who(task)];
                match process.state {
                    State::Running | State::Unborn if !process.at_step => return Some(task.id()),
                    State::Running => real.push(*task),
                    State::Dead => return Some(task.id()),
                    State::Unborn | State::Asleep { .. } | State::AwaitsGuard { .. } => {}
                }
            }
        }
        assert!(!real.is_empty(), "deadlock: nobody can go on");
        let is_choice = real.len() > 1;
        let chosen = if is_choice { self.inner.next_task(&real, current, false) } else { Some(real[0].id()) };
        let mut stage = self.stage.lock().unwrap();
        let Some(next) = chosen else {
            // Everything from here on is known. To stop in the middle would leave all that the processes have in memory.
            stage.machine().abandon();
            return Some(real[0].id());
        };
        if is_choice {
            stage.chosen.push(usize::from(next));
        }
        stage.steps += 1;
        assert!(stage.steps < ENDLESS, "no end after {ENDLESS} steps");
        let who = stage.racers[usize::from(next) - 1];
        if !stage.machine().kernel().processes[who].is_helper {
            stage.last = Some(who);
        }
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

/// Depth first through all choices.
struct DepthFirst {
    stage: Arc<Mutex<Stage>>,
    preemptions: u32,
    levels: Vec<Level>,
    depth: usize,
    has_begun: bool,
    /// State → the most pre-emptions that were left when it was seen.
    visited: HashMap<(u64, Option<Who>), u32>,
}

/// A choice on the way that is followed now.
struct Level {
    /// Who can go on, and how many pre-emptions are left then.
    choices: Vec<(TaskId, u32)>,
    at: usize,
}

impl DepthFirst {
    fn new(stage: Arc<Mutex<Stage>>, preemptions: u32) -> Self {
        DepthFirst { stage, preemptions, levels: Vec::new(), depth: 0, has_begun: false, visited: HashMap::new() }
    }

    /// Not before seen choices, or `None` where everything from here on is known.
    fn look(&mut self, real: &[&Task], left: u32) -> Option<Level> {
        let mut stage = self.stage.lock().unwrap();
        let kernel = stage.machine().kernel();
        let is_bounded = self.preemptions != u32::MAX;
        let key = (kernel.fingerprint(), stage.last.filter(|_| is_bounded));
        match self.visited.get(&key) {
            Some(&before) if before >= left => return None,
            _ => self.visited.insert(key, left),
        };
        let goes_on = |task: &Task| Some(stage.who(task)) == stage.last;
        let is_pre_emptable = real.iter().any(|task| goes_on(task));
        let cost = |task: &Task| {
            let pre_empts = is_pre_emptable && !goes_on(task) && !kernel.processes[stage.who(task)].is_helper;
            u32::from(is_bounded && pre_empts)
        };
        let mut choices: Vec<_> =
            real.iter().filter(|task| cost(task) <= left).map(|task| (task.id(), left - cost(task))).collect();
        // First the schedule without a switch: the shortest counter-example.
        choices.sort_by_key(|(task, after)| (left - after, Some(stage.racers[usize::from(*task) - 1]) != stage.last));
        drop(kernel);
        stage.report.states += 1;
        Some(Level { choices, at: 0 })
    }
}

impl Scheduler for DepthFirst {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.has_begun {
            while self.levels.pop_if(|level| level.at + 1 == level.choices.len()).is_some() {}
            self.levels.last_mut()?.at += 1;
        }
        self.has_begun = true;
        self.depth = 0;
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, real: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        if self.depth == self.levels.len() {
            let left = self.levels.last().map_or(self.preemptions, |level| level.choices[level.at].1);
            let level = self.look(real, left)?;
            self.levels.push(level);
        }
        let level = &self.levels[self.depth];
        self.depth += 1;
        Some(level.choices[level.at].0)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("randomness comes from the simulated world")
    }
}

/// One given schedule.
struct Replay {
    choices: Option<Vec<usize>>,
    next: usize,
}

impl Scheduler for Replay {
    fn new_execution(&mut self) -> Option<Schedule> {
        (self.next == 0 && self.choices.is_some()).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, real: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let choice = self.choices.as_ref()?.get(self.next).copied();
        self.next += 1;
        // After its end the schedule goes on as it likes.
        choice
            .and_then(|who| real.iter().find(|task| usize::from(task.id()) == who))
            .or(real.first())
            .map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("randomness comes from the simulated world")
    }
}
