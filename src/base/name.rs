//! The path that names an object, split into the directory it stands in and its last component.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Error, Result};

/// Names that begin so are ours: half-made objects on their way to becoming visible.
const TEMPORARY: &[u8] = b".interlock";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    path: Vec<u8>,
    /// Where the last component begins in `path`.
    split: usize,
}

impl Name {
    /// The name of a link: mutex or weak mutex. A trailing slash is not forgiven, as `ln -s x m/` is not.
    pub fn of_link(path: &[u8]) -> Result<Name> {
        Name::new(path)
    }

    /// The name of a directory: semaphore, queue, lock directory, bakery. Completion leaves slashes at its end.
    pub fn of_directory(path: &[u8]) -> Result<Name> {
        // Before the slashes go: `word://` is all slashes at its end.
        refuse_remote(path)?;
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(path.len().min(1), |last| last + 1);
        Name::new(&path[..end])
    }

    fn new(path: &[u8]) -> Result<Name> {
        refuse_remote(path)?;
        let split = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        if path[split..].starts_with(TEMPORARY) {
            return Err(Error::Usage("names that begin with .interlock are reserved".into()));
        }
        Ok(Name { path: path.to_vec(), split })
    }

    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// The directory that holds the object; `.` if the name has no slash.
    pub fn parent(&self) -> &Path {
        match self.split {
            0 => Path::new("."),
            split => Path::new(OsStr::from_bytes(&self.path[..split])),
        }
    }

    /// The last component, maybe empty (`m/`, the empty name): the system then says ENOENT, as it does to everybody.
    pub fn last(&self) -> &OsStr {
        OsStr::from_bytes(&self.path[self.split..])
    }

    /// The same name, seen from elsewhere: a relative one stands in `dir`.
    pub fn below(&self, dir: &Path) -> Name {
        if self.path.starts_with(b"/") {
            return self.clone();
        }
        let mut path = dir.as_os_str().as_bytes().to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        let split = path.len() + self.split;
        path.extend_from_slice(&self.path);
        Name { path, split }
    }

    /// The path of something inside the object, for messages.
    pub fn inside(&self, part: &str) -> PathBuf {
        self.path().join(part)
    }
}

fn refuse_remote(path: &[u8]) -> Result<()> {
    match is_remote(path) {
        true => {
            Err(Error::Usage(format!("{}: objects on other hosts are not supported", String::from_utf8_lossy(path))))
        }
        false => Ok(()),
    }
}

/// `word://…`: reserved.
fn is_remote(path: &[u8]) -> bool {
    let word = path.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    word > 0 && path[word..].starts_with(b"://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(path: &str) -> (String, String) {
        let name = Name::of_link(path.as_bytes()).unwrap();
        (name.parent().display().to_string(), name.last().to_string_lossy().into_owned())
    }

    #[test]
    fn the_parent_and_the_last_component() {
        for (path, parent, last) in [
            ("m", ".", "m"),
            ("a/m", "a/", "m"),
            ("/m", "/", "m"),
            ("a//m", "a//", "m"),
            ("m/", "m/", ""),
            ("", ".", ""),
        ] {
            assert_eq!(split(path), (parent.into(), last.into()), "{path:?}");
        }
    }

    #[test]
    fn a_relative_name_seen_from_elsewhere() {
        for (path, dir, seen) in
            [("m", "/d", "/d/m"), ("a/m", "/", "/a/m"), ("/m", "/d", "/m"), ("../m", "/d", "/d/../m")]
        {
            let name = Name::of_link(path.as_bytes()).unwrap().below(Path::new(dir));
            assert_eq!((name.path(), name.last()), (Path::new(seen), OsStr::new("m")));
            assert_eq!(name.parent().join("m"), Path::new(seen));
        }
    }

    #[test]
    fn a_directory_may_end_in_slashes() {
        assert_eq!(Name::of_directory(b"a/q//").unwrap().last(), "q");
        assert_eq!(Name::of_directory(b"/").unwrap().path(), Path::new("/"));
        assert_eq!(Name::of_directory(b"").unwrap().path(), Path::new(""));
    }

    #[test]
    fn other_hosts_and_our_temporaries_are_reserved() {
        for path in [&b"ipc://x"[..], b"redis://h/q", b".interlock", b"d/.interlock-7"] {
            assert!(matches!(Name::of_link(path), Err(Error::Usage(_))), "{path:?}");
        }
        assert!(matches!(Name::of_directory(b"redis://"), Err(Error::Usage(_))));
        for path in [&b"://x"[..], b"a b://x", b"./ipc://x", b"interlock"] {
            assert!(Name::of_link(path).is_ok(), "{path:?}");
        }
    }
}
