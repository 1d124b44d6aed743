//! The articles' own functions as lists of steps: what a script does that works on the same objects without the plugin.

use std::ffi::OsStr;
use std::path::Path;

use interlock::sys::{Access, Errno, World};

use super::sim::{Sim, SimDir};

/// So many sleeps where the articles have no timeout; then a person ends a peer that waits for a dead process of ours.
const FOR_EVER: u32 = 50;

/// A bash process with the articles' library, in the directory of an object.
pub struct Peer<'s> {
    sim: &'s Sim,
    dir: SimDir,
}

impl<'s> Peer<'s> {
    pub fn at(sim: &'s Sim, object: &str) -> Peer<'s> {
        Peer { sim, dir: sim.open_dir(Path::new(object)).unwrap() }
    }

    /// `ln -s "$$" NAME`, and `sleep 1` until it works, at most so often.
    pub fn mutex_lock(&self, name: &str, mut sleeps: u32) -> bool {
        loop {
            match self.sim.symlink(&self.sim.process().script.to_string(), &self.dir, OsStr::new(name)) {
                Ok(()) => return true,
                Err(Errno::EEXIST) if sleeps > 0 => self.sim.nap(),
                Err(_) => return false,
            }
            sleeps -= 1;
        }
    }

    /// `rm NAME`, whoever holds it.
    pub fn mutex_unlock(&self, name: &str) {
        let _ = self.sim.unlink(&self.dir, OsStr::new(name));
    }

    /// `value=$(< FILE)`, as a number; NULs and what follows a newline do not count.
    fn read_number(&self, file: &str) -> i64 {
        let text = self.read(file);
        String::from_utf8_lossy(&text).trim_end().parse().unwrap_or(0)
    }

    /// `$(< FILE)`: bash drops NULs.
    pub fn read(&self, file: &str) -> Vec<u8> {
        let Ok(file) = self.sim.open_file(&self.dir, OsStr::new(file), Access::Read) else { return Vec::new() };
        let mut bytes = vec![0; 64 * 1024];
        let length = self.sim.read_at(&file, 0, &mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes.retain(|&byte| byte != 0);
        bytes
    }

    /// `echo TEXT > FILE`: first emptied, then written.
    pub fn write(&self, file: &str, text: &[u8]) {
        let file = self.sim.open_file(&self.dir, OsStr::new(file), Access::Create).unwrap();
        self.sim.truncate(&file, 0).unwrap();
        self.sim.write_at(&file, 0, text).unwrap();
    }

    /// `echo TEXT >> FILE`.
    fn append(&self, file: &str, text: &[u8]) {
        let file = self.sim.open_file(&self.dir, OsStr::new(file), Access::Create).unwrap();
        self.sim.append(&file, text).unwrap();
    }

    /// `mkdir NAME`, and `sleep 1` until it works; a plain script's lock.
    pub fn mkdir(&self, name: &str, mut sleeps: u32) -> bool {
        loop {
            match self.sim.make_dir(&self.dir, OsStr::new(name)) {
                Ok(()) => return true,
                Err(Errno::EEXIST) if sleeps > 0 => self.sim.nap(),
                Err(_) => return false,
            }
            sleeps -= 1;
        }
    }

    pub fn rmdir(&self, name: &str) -> bool {
        self.sim.remove_dir(&self.dir, OsStr::new(name)).is_ok()
    }

    pub fn sem_init(sim: &Sim, path: &str, value: u64) {
        let root = sim.open_dir(Path::new("/")).unwrap();
        sim.make_dir(&root, OsStr::new(path.trim_start_matches('/'))).unwrap();
        let peer = Peer::at(sim, path);
        if value == 0 {
            assert!(peer.mutex_lock("waitlock", 0));
        }
        peer.write("counter", format!("{value}\n").as_bytes());
    }

    /// Closes the gate, counts down, opens it again if something is left.
    pub fn sem_wait(&self, sleeps: u32) -> bool {
        if !self.mutex_lock("waitlock", sleeps) {
            return false;
        }
        if !self.mutex_lock("countlock", FOR_EVER) {
            return false;
        }
        let counter = self.read_number("counter") - 1;
        self.write("counter", format!("{counter}\n").as_bytes());
        if counter > 0 {
            self.mutex_unlock("waitlock");
        }
        self.mutex_unlock("countlock");
        true
    }

    /// Counts up, and opens the gate only after the count is free again: too late, maybe.
    pub fn sem_post(&self) {
        if !self.mutex_lock("countlock", FOR_EVER) {
            return;
        }
        let counter = self.read_number("counter") + 1;
        self.write("counter", format!("{counter}\n").as_bytes());
        self.mutex_unlock("countlock");
        self.mutex_unlock("waitlock");
    }

    /// `echo "$line" >> data` inside `mutex`, then a post. `self` is at the queue, `sem` at its semaphore.
    pub fn queue_put(&self, sem: &Peer, line: &[u8], sleeps: u32) -> bool {
        if !self.mutex_lock("mutex", sleeps) {
            return false;
        }
        self.append("data", &[line, b"\n"].concat());
        self.mutex_unlock("mutex");
        sem.sem_post();
        true
    }

    /// `head -n 1 data`, then `sed -i 1d data`, which makes a new file and renames it.
    pub fn queue_get(&self, sem: &Peer, sleeps: u32) -> Option<Vec<u8>> {
        if !sem.sem_wait(sleeps) {
            return None;
        }
        if !self.mutex_lock("mutex", FOR_EVER) {
            return None;
        }
        let head = first_line(&self.read("data")).0;
        let rest = first_line(&self.read_with_nuls("data")).1;
        let new = self.sim.open_file(&self.dir, OsStr::new("sedX1"), Access::CreateNew).unwrap();
        if !rest.is_empty() {
            self.sim.write_at(&new, 0, &rest).unwrap();
        }
        self.sim.rename(&self.dir, OsStr::new("sedX1"), &self.dir, OsStr::new("data")).unwrap();
        self.mutex_unlock("mutex");
        Some(head)
    }

    fn read_with_nuls(&self, file: &str) -> Vec<u8> {
        let Ok(file) = self.sim.open_file(&self.dir, OsStr::new(file), Access::Read) else { return Vec::new() };
        let mut bytes = vec![0; 64 * 1024];
        let length = self.sim.read_at(&file, 0, &mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes
    }
}

/// The first line without its newline, and what follows.
fn first_line(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (bytes[..end].to_vec(), bytes[end + 1..].to_vec()),
        None => (bytes.to_vec(), Vec::new()),
    }
}
