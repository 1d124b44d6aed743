//! Plain values: no system call, no bash, nothing that can block.

mod deadline;
mod error;
mod memory;
mod name;
mod owner;

pub use deadline::{Deadline, Time, Timeout};
pub use error::{Error, Result};
pub use memory::make_room;
pub use name::Name;
pub use owner::{LinkText, Owner, Process, parse_decimal};
