//! Noticing that this process has been forked, without a system call: a page that the kernel empties in the child.
//!
//! Subshells are forks that go on with all our memory. What is remembered of the process itself (its number, its inotify
//! instance) must not survive into them, and asking for the number at each step would cost more than the step.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const SAME_PROCESS: u32 = 1;
/// The kernel rounds it up to a page.
const LENGTH: usize = size_of::<AtomicU32>();

#[derive(Debug)]
pub struct ForkWitness {
    /// `None` where the kernel cannot do it (before 4.14): then nothing is remembered.
    page: Option<NonNull<AtomicU32>>,
}

impl ForkWitness {
    pub fn new() -> ForkWitness {
        ForkWitness { page: map_wiped_on_fork() }
    }

    /// Has [`ForkWitness::swear`] been called in this very process?
    pub fn is_same_process(&self) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Relaxed) == SAME_PROCESS)
    }

    pub fn swear(&self) {
        if let Some(word) = self.word() {
            word.store(SAME_PROCESS, Ordering::Relaxed);
        }
    }

    fn word(&self) -> Option<&AtomicU32> {
        // SAFETY: mapped and zeroed by the kernel, page-aligned, readable and writable until `drop`.
        self.page.map(|page| unsafe { page.as_ref() })
    }
}

impl Drop for ForkWitness {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: mapped by `map_wiped_on_fork` with this length, and no reference lives longer than `self`.
            unsafe { libc::munmap(page.as_ptr().cast(), LENGTH) };
        }
    }
}

fn map_wiped_on_fork() -> Option<NonNull<AtomicU32>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page just mapped, private and anonymous as this advice requires.
    if unsafe { libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as mapped above, not yet known to anybody.
        unsafe { libc::munmap(page, LENGTH) };
        return None;
    }
    NonNull::new(page.cast())
}

#[cfg(test)]
mod tests {
    use super::super::forked::{Forked, without_forks};
    use super::*;

    #[test]
    fn children_and_their_children_are_noticed() {
        let alone = without_forks();
        let in_child = |work: &dyn Fn() -> String| Forked::start_among(&alone, work).finish();
        let witness = ForkWitness::new();
        assert!(!witness.is_same_process());
        witness.swear();
        let child = || {
            let at_start = witness.is_same_process();
            witness.swear();
            let grandchild = in_child(&|| witness.is_same_process().to_string());
            format!("{at_start} {} {grandchild}", witness.is_same_process())
        };
        assert_eq!(in_child(&child), "false true false");
        assert!(witness.is_same_process());
    }

    #[test]
    fn where_the_kernel_cannot_every_question_is_asked_anew() {
        let witness = ForkWitness { page: None };
        witness.swear();
        assert!(!witness.is_same_process());
    }
}
