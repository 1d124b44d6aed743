//! The algorithms, generic over the seam. Start with [`mutex`], the simplest that has everything: a link, a mark, a guard.

pub mod link;
pub mod mutex;
mod short;
pub mod wait;
pub mod wmutex;
