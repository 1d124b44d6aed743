//! Plain values: no system call, no bash, nothing that can block.

mod deadline;
mod error;
mod name;
mod owner;

pub use deadline::{Deadline, Time, Timeout};
pub use error::{Error, Result};
pub use name::Name;
pub use owner::{LinkText, Owner, Process, parse_decimal};
