//! For tests: a directory of one's own that goes away.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Scratch(PathBuf);

impl Scratch {
    pub fn on_disk() -> Scratch {
        Scratch::under(&std::env::temp_dir())
    }

    pub fn in_memory() -> Scratch {
        Scratch::under(Path::new("/dev/shm"))
    }

    /// One of each, for what file systems do differently.
    pub fn each() -> [Scratch; 2] {
        [Scratch::on_disk(), Scratch::in_memory()]
    }

    fn under(parent: &Path) -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("interlock-test-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    /// The path of a part; of itself for an empty one.
    pub fn path(&self, part: &str) -> PathBuf {
        self.0.join(part)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
