//! The core below the shell: what a builtin does between bash's call and its return. `cargo bench`.

use std::fs;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};
use interlock::base::{Deadline, LinkText, Name, Owner};
use interlock::primitive::{mutex, queue, semaphore, wmutex};
use interlock::sys::{Inherit, Local, World};

/// A directory on tmpfs, removed when dropped.
struct Ground(PathBuf);

impl Ground {
    fn new() -> Ground {
        let path = Path::new("/dev/shm").join(format!("interlock-bench-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Ground(path)
    }

    fn name(&self, last: &str) -> Name {
        Name::of_link(self.0.join(last).as_os_str().as_bytes()).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn locks(criterion: &mut Criterion) {
    let (ground, world) = (Ground::new(), Local::new(std::process::id()));
    let name = ground.name("m");
    criterion.bench_function("mutex: lock and unlock", |bencher| {
        bencher.iter(|| {
            mutex::lock(&world, &name, Deadline::Never, Inherit::Programs).unwrap();
            mutex::unlock(&world, &name, false).unwrap();
        });
    });
    criterion.bench_function("weak mutex: lock and unlock", |bencher| {
        bencher.iter(|| {
            wmutex::lock(&world, &name, Deadline::Never).unwrap();
            wmutex::unlock(&world, &name).unwrap();
        });
    });
}

fn semaphores(criterion: &mut Criterion) {
    let (ground, world) = (Ground::new(), Local::new(std::process::id()));
    for (name, value) in [(ground.name("tokens"), 1000), (ground.name("gate"), 0)] {
        semaphore::init(&world, &name, value).unwrap();
        criterion.bench_function(&format!("semaphore: post and wait, {value} tokens"), |bencher| {
            bencher.iter(|| {
                semaphore::post(&world, &name, 1).unwrap();
                semaphore::wait(&world, &name, Deadline::Never).unwrap();
            });
        });
    }
}

fn queues(criterion: &mut Criterion) {
    let (ground, world) = (Ground::new(), Local::new(std::process::id()));
    for depth in [10, 1_000_000] {
        let name = ground.name(&format!("q{depth}"));
        queue::init(&world, &name).unwrap();
        for _ in 0..depth / 10 {
            queue::put(&world, &name, &vec![vec![b'x'; 40]; 10], &mut Vec::new()).unwrap();
        }
        for many in [1, 500] {
            let items = vec![vec![b'x'; 40]; many];
            criterion.bench_function(&format!("queue: put and get {many}, {depth} deep"), |bencher| {
                bencher.iter(|| {
                    queue::put(&world, &name, &items, &mut Vec::new()).unwrap();
                    black_box(queue::get(&world, &name, many, Deadline::Never, &mut Vec::new()).unwrap());
                });
            });
        }
    }
}

fn texts(criterion: &mut Criterion) {
    let owner = Owner::new(&Local::new(std::process::id()).process(), 2_000_000_000);
    criterion.bench_function("owner: write and parse", |bencher| {
        bencher.iter(|| LinkText::parse(black_box(owner).to_string().as_bytes()));
    });
}

criterion_group! {
    name = core;
    config = Criterion::default().without_plots();
    targets = locks, semaphores, queues, texts
}
criterion_main!(core);
