//! The file system of the simulated world: inodes and names, nothing else. Every method is one step.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use interlock::sys::{Errno, Kind, Sys};

pub type Inode = u64;
pub const ROOT: Inode = 1;

#[derive(Debug, Clone, Hash)]
pub enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, Inode>),
    Link(Vec<u8>),
}

impl Node {
    pub fn kind(&self) -> Kind {
        match self {
            Node::File(_) => Kind::File,
            Node::Directory(_) => Kind::Directory,
            Node::Link(_) => Kind::Link,
        }
    }

    pub fn length(&self) -> u64 {
        match self {
            Node::File(bytes) | Node::Link(bytes) => bytes.len() as u64,
            Node::Directory(names) => names.len() as u64,
        }
    }
}

#[derive(Debug, Clone, Hash)]
pub struct Entry {
    pub node: Node,
    pub mode: u32,
    pub modified: u64,
    /// A directory that was removed takes no new names.
    pub is_linked: bool,
}

#[derive(Debug, Clone)]
pub struct Files {
    pub entries: BTreeMap<Inode, Entry>,
}

impl Default for Files {
    fn default() -> Self {
        let root = Entry { node: Node::Directory(BTreeMap::new()), mode: 0o755, modified: 0, is_linked: true };
        Files { entries: BTreeMap::from([(ROOT, root)]) }
    }
}

impl Files {
    pub fn entry(&self, inode: Inode) -> &Entry {
        &self.entries[&inode]
    }

    pub fn entry_mut(&mut self, inode: Inode) -> &mut Entry {
        self.entries.get_mut(&inode).expect("an open inode is kept")
    }

    pub fn names(&self, dir: Inode) -> Sys<&BTreeMap<OsString, Inode>> {
        match &self.entry(dir).node {
            Node::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn names_mut(&mut self, dir: Inode) -> Sys<&mut BTreeMap<OsString, Inode>> {
        match &mut self.entry_mut(dir).node {
            Node::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn bytes(&self, file: Inode) -> &[u8] {
        match &self.entry(file).node {
            Node::File(bytes) => bytes,
            other => panic!("a file handle of {other:?}"),
        }
    }

    pub fn bytes_mut(&mut self, file: Inode) -> &mut Vec<u8> {
        match &mut self.entry_mut(file).node {
            Node::File(bytes) => bytes,
            other => panic!("a file handle of {other:?}"),
        }
    }

    pub fn look_up(&self, dir: Inode, name: &OsStr) -> Sys<Inode> {
        match name.as_bytes() {
            b"" => return Err(Errno::ENOENT),
            b"." => return Ok(dir),
            long if long.len() > 255 => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        self.names(dir)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// Follows links, in the last component, too. The current directory is the root.
    pub fn resolve(&self, path: &Path) -> Sys<Inode> {
        self.resolve_from(ROOT, path, 0)
    }

    fn resolve_from(&self, start: Inode, path: &Path, depth: u32) -> Sys<Inode> {
        if depth > 8 {
            return Err(Errno::ELOOP);
        }
        if path.as_os_str().is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut at = start;
        for component in path.components() {
            at = match component {
                Component::RootDir => ROOT,
                Component::CurDir => at,
                Component::Normal(name) => {
                    let found = self.look_up(at, name)?;
                    match &self.entry(found).node {
                        Node::Link(text) => self.resolve_from(at, Path::new(OsStr::from_bytes(text)), depth + 1)?,
                        _ => found,
                    }
                }
                other => unimplemented!("{other:?} in a simulated path"),
            };
        }
        Ok(at)
    }

    pub fn insert(&mut self, dir: Inode, name: &OsStr, inode: Inode, node: Node, mode: u32, now: u64) -> Sys<()> {
        match self.look_up(dir, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) if !name.is_empty() && self.entry(dir).is_linked => {}
            Err(errno) => return Err(errno),
        }
        self.names_mut(dir)?.insert(name.to_owned(), inode);
        self.entry_mut(dir).modified = now;
        self.entries.insert(inode, Entry { node, mode, modified: now, is_linked: true });
        Ok(())
    }

    /// Takes the name away and gives back what it named.
    pub fn remove(&mut self, dir: Inode, name: &OsStr, kind_is_directory: bool, now: u64) -> Sys<Inode> {
        let inode = self.look_up(dir, name)?;
        match (&self.entry(inode).node, kind_is_directory) {
            (Node::Directory(_), false) => return Err(Errno::EISDIR),
            (Node::Directory(names), true) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            (Node::Directory(_), true) => {}
            (_, true) => return Err(Errno::ENOTDIR),
            (_, false) => {}
        }
        self.names_mut(dir)?.remove(name);
        self.entry_mut(dir).modified = now;
        self.entry_mut(inode).is_linked = false;
        Ok(inode)
    }

    /// Gives back what was moved and what it replaced.
    pub fn rename(
        &mut self,
        (from, old): (Inode, &OsStr),
        (to, new): (Inode, &OsStr),
        exclusive: bool,
        now: u64,
    ) -> Sys<(Inode, Option<Inode>)> {
        let moved = self.look_up(from, old)?;
        if !self.entry(to).is_linked || new.is_empty() {
            return Err(Errno::ENOENT);
        }
        let replaced = match self.look_up(to, new) {
            Ok(_) if exclusive => return Err(Errno::EEXIST),
            Ok(same) if same == moved => return Ok((moved, None)),
            Ok(target) => {
                match (&self.entry(moved).node, &self.entry(target).node) {
                    (Node::Directory(_), Node::Directory(names)) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
                    (Node::Directory(_), Node::Directory(_)) => {}
                    (Node::Directory(_), _) => return Err(Errno::ENOTDIR),
                    (_, Node::Directory(_)) => return Err(Errno::EISDIR),
                    _ => {}
                }
                Some(target)
            }
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(errno),
        };
        self.names_mut(from)?.remove(old);
        self.names_mut(to)?.insert(new.to_owned(), moved);
        self.entry_mut(from).modified = now;
        self.entry_mut(to).modified = now;
        if let Some(target) = replaced {
            self.entry_mut(target).is_linked = false;
        }
        Ok((moved, replaced))
    }

    /// Everything below a directory: path, and what is there. For checks and messages.
    pub fn tree(&self) -> Vec<(String, &Node)> {
        let mut found = Vec::new();
        self.walk(ROOT, "", &mut found);
        found
    }

    fn walk<'a>(&'a self, dir: Inode, prefix: &str, found: &mut Vec<(String, &'a Node)>) {
        for (name, &inode) in self.names(dir).expect("a directory") {
            let path = format!("{prefix}/{}", name.to_string_lossy());
            let node = &self.entry(inode).node;
            found.push((path.clone(), node));
            if let Node::Directory(_) = node {
                self.walk(inode, &path, found);
            }
        }
    }
}

impl Hash for Files {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
    }
}
