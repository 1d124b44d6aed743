//! Searches of all schedules, crashes and faults: the shipped algorithms in the simulated world. See `tests/README.md`.

// Not a guest of bash's: clippy.toml is about the plugin.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]
// A scene that says drop() does not care how a call ends.
#![allow(dropping_copy_types)]

mod bakery;
mod dirlock;
mod explore;
mod mutex;
mod queue;
mod scenes;
mod semaphore;
#[path = "../world/mod.rs"]
mod world;
