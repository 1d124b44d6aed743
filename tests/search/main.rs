//! Searches of all schedules, crashes and faults: the shipped algorithms in the simulated world. See `tests/README.md`.

mod explore;
mod mutex;
#[path = "../world/mod.rs"]
mod world;
