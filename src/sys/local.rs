//! The real world, on nix and libc.
pub struct Local;
