//! Interlock: real inter-process locks, semaphores and queues for bash, as loadable builtins.
//!
//! Start here: [`base::Owner`] (what a lock's link says) → [`primitive::mutex`] (the simplest primitive) → its search
//! test in `tests/` → its bats file. The layers, arrows point down only:
//! `bash` → [`command`] → [`primitive`] → [`sys`] → [`base`].

// Tests are no guests of bash's.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros))]

pub mod base;
// The tests run without bash.
#[cfg(not(test))]
#[allow(unsafe_code)]
pub mod bash;
pub mod command;
pub mod primitive;
#[allow(unsafe_code)]
pub mod sys;

// The simulated world names this crate as the searches in `tests/` do.
#[cfg(test)]
extern crate self as interlock;
#[cfg(test)]
#[path = "../tests/world/mod.rs"]
mod world;
