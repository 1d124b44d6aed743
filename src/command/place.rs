//! Where relative names stand. A trap or a command may change the directory while a call goes on; its names mean what they
//! meant when it began.

use std::path::{Path, PathBuf};

use crate::base::Name;
use crate::sys::World;

/// The directory of a call, from the moment when the shell may leave it.
#[derive(Default)]
pub struct Place(Option<Here>);

struct Here {
    path: PathBuf,
    /// It may be renamed, too.
    identity: (u64, u64),
}

impl Place {
    /// To be called before the shell gets a chance to leave it.
    pub fn remember<W: World>(&mut self, world: &W) {
        if self.0.is_none()
            && let (Ok(path), Some(identity)) = (world.current_dir(), identity_here(world))
        {
            self.0 = Some(Here { path, identity });
        }
    }

    /// The name as it was meant.
    pub fn find<W: World>(&self, world: &W, name: Name) -> Name {
        match &self.0 {
            Some(here) if identity_here(world) != Some(here.identity) => name.below(&here.path),
            _ => name,
        }
    }
}

fn identity_here<W: World>(world: &W) -> Option<(u64, u64)> {
    let stat = world.open_dir(Path::new(".")).and_then(|dir| world.stat_dir(&dir));
    stat.ok().map(|stat| stat.identity())
}
