//! The algorithms, generic over the seam. Start with [`mutex`], the simplest that has everything: a link, a mark, a guard.

pub mod bakery;
mod counter;
pub mod dirlock;
mod hidden;
pub mod link;
pub mod mutex;
pub mod queue;
pub mod semaphore;
mod short;
pub mod survey;
pub mod wait;
pub mod wmutex;

/// The end of an `*_init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    Made,
    /// Something of this name is there: an honest no.
    Exists,
}
