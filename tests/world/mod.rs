//! The simulated world: a kernel and a file system in memory behind the seam, for searching all schedules, for crashes
//! and faults at the k-th step, and for simulated time.
//!
//! Start with [`Machine`]: `Machine::alone` for a test that calls one process after the other; `tests/search` runs
//! several processes under shuttle. [`Sim`] is one process and implements `World`. What is assumed of the file system
//! is written in `tests/README.md`.

// Both the unit tests of the library and the searches include this; neither uses all of it.
#![allow(dead_code, unused_imports)]

pub mod files;
pub mod kernel;
pub mod machine;
pub mod peer;
pub mod sim;

pub use files::Node;
pub use kernel::{Deviation, Fault, Kernel, Options, START, State, Trouble, Who};
pub use machine::{Killed, Machine, Tally};
pub use peer::Peer;
pub use sim::Sim;
