//! The queue on real file systems, one process at a time.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::primitive::queue::*;
use crate::sys::{Local, Scratch};

struct Queue {
    world: Local,
    name: Name,
    notes: Notes,
}

impl Queue {
    fn new(scratch: &Scratch) -> Queue {
        let world = Local::new(std::process::id());
        let name = Name::of_directory(scratch.path("q").as_os_str().as_bytes()).unwrap();
        assert_eq!(init(&world, &name), Ok(Created::Made));
        Queue { world, name, notes: Notes::new() }
    }

    fn put(&mut self, items: &[&str]) {
        assert_eq!(put(&self.world, &self.name, items, &mut self.notes), Ok(Waited::Done(())));
    }

    /// Up to `most` items; none if none can be had at once.
    fn get(&mut self, most: usize) -> Vec<String> {
        let now = Deadline::At(self.world.now());
        match get(&self.world, &self.name, most, now, &mut self.notes).unwrap() {
            Waited::Done(items) => items.into_iter().map(|item| String::from_utf8(item).unwrap()).collect(),
            Waited::TimedOut => Vec::new(),
            Waited::Interrupted => panic!("interrupted"),
        }
    }

    fn len(&mut self) -> u64 {
        match len(&self.world, &self.name, &mut self.notes) {
            Ok(Waited::Done(length)) => length,
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, part: &str) -> Vec<u8> {
        fs::read(self.name.inside(part)).unwrap()
    }

    fn write(&self, part: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.name.inside(part), bytes).unwrap();
    }

    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = fs::read_dir(self.name.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        parts.sort();
        parts
    }

    fn peer(&self, script: &str) -> String {
        let ran = Command::new("bash").args(["-c", script, "peer"]).current_dir(self.name.path()).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }
}

fn each(check: impl Fn(Queue)) {
    for scratch in Scratch::each() {
        check(Queue::new(&scratch));
    }
}

#[test]
fn first_in_first_out() {
    each(|mut queue| {
        queue.put(&["a", "b"]);
        queue.put(&["c"]);
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.get(1), ["a"]);
        assert_eq!(queue.get(5), ["b", "c"]);
        assert_eq!(queue.get(1), [""; 0]);
        assert_eq!(queue.read("data"), b"");
        assert_eq!(queue.read("sem/counter"), b"0\n");
        assert_eq!(queue.parts(), ["data", "sem"]);
        assert_eq!(queue.notes, []);
    });
}

#[test]
fn init_of_an_existing_object_is_a_no() {
    each(|queue| assert_eq!(init(&queue.world, &queue.name), Ok(Created::Exists)));
}

#[test]
fn a_peer_takes_behind_what_we_consumed_and_puts() {
    each(|mut queue| {
        queue.put(&["a", "b", "c", "d"]);
        assert_eq!(queue.get(1), ["a"]);
        assert_eq!(queue.peer(r#"first=$(head -n 1 data); sed -i 1d data; base64 -d <<< "$first""#), "b\n");
        queue.write("sem/counter", "2\n");
        queue.peer(r#"base64 -w 0 <<< e >> data; echo >> data"#);
        queue.write("sem/counter", "3\n");
        assert_eq!(queue.get(9), ["c", "d", "e"]);
        assert_eq!(queue.notes, []);
    });
}

#[test]
fn long_items_go_through_both_passes() {
    each(|mut queue| {
        let long = "x".repeat(300_000);
        queue.put(&["a", &long, "b"]);
        queue.put(&["c"]);
        assert_eq!(queue.get(1), ["a"]);
        assert_eq!(queue.get(1), [long]);
        let data = queue.read("data");
        assert_eq!(data.iter().position(|&byte| byte != 0), Some(data.len() - 10));
        assert_eq!(queue.get(9), ["b", "c"]);
        assert_eq!(queue.read("data"), b"");
    });
}

#[test]
fn peek_and_snapshot_change_nothing() {
    each(|mut queue| {
        let now = |queue: &Queue| (queue.read("data"), queue.read("sem/counter"));
        assert_eq!(peek(&queue.world, &queue.name, &mut queue.notes), Ok(Waited::Done(None)));
        queue.put(&["a", "b", "c"]);
        queue.get(1);
        let before = now(&queue);
        assert_eq!(peek(&queue.world, &queue.name, &mut queue.notes), Ok(Waited::Done(Some(b"b".to_vec()))));
        let all = snapshot(&queue.world, &queue.name, &mut queue.notes);
        assert_eq!(all, Ok(Waited::Done(vec![b"b".to_vec(), b"c".to_vec()])));
        assert_eq!(now(&queue), before);
    });
}

#[test]
fn what_is_put_back_comes_first() {
    each(|mut queue| {
        queue.put(&["a", "b", "c"]);
        assert_eq!(queue.get(2), ["a", "b"]);
        assert_eq!(put_back(&queue.world, &queue.name, &["a", "b"], &mut queue.notes), Ok(()));
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.get(9), ["a", "b", "c"]);
        assert_eq!(put_back(&queue.world, &queue.name, &["c"], &mut queue.notes), Ok(()));
        assert_eq!(queue.get(9), ["c"]);
        assert_eq!(queue.parts(), ["data", "sem"]);
    });
}

#[test]
fn what_is_no_item_is_rejected_and_the_queue_goes_on() {
    each(|mut queue| {
        queue.put(&["a"]);
        let mut data = queue.read("data");
        data.extend_from_slice(b"no base64!\nYgo=\n");
        queue.write("data", data);
        queue.write("sem/counter", "3\n");
        assert_eq!(queue.get(9), ["a", "b"]);
        assert_eq!(queue.read("rejected"), b"no base64!\n");
        assert_eq!(queue.notes.len(), 1);
        queue.write("data", "###\n?\n\nYwo=\n");
        queue.write("sem/counter", "2\n");
        assert_eq!(peek(&queue.world, &queue.name, &mut queue.notes), Ok(Waited::Done(Some(b"c".to_vec()))));
        assert_eq!(queue.get(1), ["c"], "alone behind one");
        assert_eq!(queue.read("rejected"), b"no base64!\n?\n");
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn a_token_without_an_item_is_dropped() {
    each(|mut queue| {
        queue.write("sem/counter", "7\n");
        fs::remove_file(queue.name.inside("sem/waitlock")).unwrap();
        assert_eq!(queue.get(1), [""; 0]);
        assert_eq!(queue.len(), 0);
        queue.put(&["a"]);
        assert_eq!(queue.get(1), ["a"]);
    });
}

#[test]
fn a_peers_queue_without_data_is_empty() {
    each(|mut queue| {
        fs::remove_file(queue.name.inside("data")).unwrap();
        assert_eq!(queue.get(1), [""; 0]);
        fs::remove_file(queue.name.inside("data")).unwrap();
        queue.put(&["a"]);
        assert_eq!(queue.get(1), ["a"]);
    });
}

#[test]
fn nothing_is_made_in_what_is_no_queue() {
    each(|queue| {
        let (world, mut notes) = (&queue.world, Notes::new());
        let other = Name::of_directory(queue.name.inside("sem").as_os_str().as_bytes()).unwrap();
        assert!(matches!(put(world, &other, &["a"], &mut notes), Err(Error::Damaged { .. })));
        assert!(matches!(destroy(world, &other, true), Err(Error::Damaged { .. })));
        let none = Name::of_directory(queue.name.inside("none").as_os_str().as_bytes()).unwrap();
        assert_eq!(len(world, &none, &mut notes), Err(Error::system(none.path(), Errno::ENOENT)));
        assert_eq!(queue.parts(), ["data", "sem"]);
    });
}

#[test]
fn consumed_space_is_given_back() {
    each(|mut queue| {
        let item = "y".repeat(100_000);
        queue.put(&[item.as_str(); 24]);
        let whole = queue.read("data").len();
        for _ in 0..12 {
            assert_eq!(queue.get(1), [item.as_str()]);
        }
        assert_eq!(queue.read("data").len(), whole, "the live part is as large");
        assert_eq!(queue.get(4).len(), 4);
        let data = queue.read("data");
        assert_eq!((data.len(), data[0]), (whole / 24 * 8, b'e'), "past the next MiB and larger");
        assert_eq!(queue.parts(), ["data", "sem"]);
        assert_eq!(queue.get(9).len(), 8);
    });
}

#[test]
fn a_search_over_a_long_consumed_part_finds_the_head() {
    each(|mut queue| {
        let live = item::encode(&["z"]).unwrap();
        for consumed in [1, 4095, 4096, 4097, 50_000, 1_000_003] {
            for lines in [1, 30_000] {
                let mut data = vec![0; consumed];
                data.extend_from_slice(&live.repeat(lines));
                queue.write("data", data);
                queue.write("sem/counter", "2\n");
                assert_eq!(queue.get(1), ["z"]);
                assert_eq!(queue.read("data").iter().filter(|&&byte| byte == b'\n').count(), lines - 1);
            }
        }
    });
}

#[test]
fn destroy_removes_a_queue_and_nothing_else() {
    each(|mut queue| {
        queue.put(&["a"]);
        queue.write("rejected", "?\n");
        queue.write("notes.txt", "mine");
        let refused = destroy(&queue.world, &queue.name, true);
        assert!(matches!(&refused, Err(Error::Damaged { what, .. }) if what.contains("notes.txt")), "{refused:?}");
        fs::rename(queue.name.inside("notes.txt"), queue.name.inside("sem/notes.txt")).unwrap();
        assert!(matches!(destroy(&queue.world, &queue.name, true), Err(Error::Damaged { .. })));
        assert_eq!(queue.read("sem/notes.txt"), b"mine");
        assert_eq!(queue.get(1), ["a"]);
        fs::remove_file(queue.name.inside("sem/notes.txt")).unwrap();
        assert_eq!(destroy(&queue.world, &queue.name, false), Ok(Waited::Done(())));
        let parent = queue.name.path().parent().unwrap();
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
    });
}

/// Every kind of file that a killed process can leave.
#[test]
fn left_overs() {
    each(|queue| {
        for part in ["data.new", ".interlock", ".interlock-5", "sedAb3xYz", "rejected", "sem/.interlock"] {
            queue.write(part, "");
        }
        std::os::unix::fs::symlink("4711", Path::new(&queue.name.inside("sem/countlock"))).unwrap();
        assert_eq!(destroy(&queue.world, &queue.name, false), Ok(Waited::Done(())));
        assert!(!queue.name.path().exists());
    });
}

#[test]
fn another_scripts_queue_is_destroyed_with_force_only() {
    each(|queue| {
        let owner = queue.name.inside("sem/owner");
        fs::remove_file(&owner).unwrap();
        std::os::unix::fs::symlink("1,0,2,3,4,5", &owner).unwrap();
        assert!(matches!(destroy(&queue.world, &queue.name, false), Err(Error::NotOwner { .. })));
        assert_eq!(destroy(&queue.world, &queue.name, true), Ok(Waited::Done(())));
    });
}

#[test]
fn data_that_is_no_file_is_damage() {
    each(|queue| {
        fs::remove_file(queue.name.inside("data")).unwrap();
        assert!(Command::new("mkfifo").arg(queue.name.inside("data")).status().unwrap().success());
        let ended = put(&queue.world, &queue.name, &["a"], &mut Notes::new());
        assert!(matches!(ended, Err(Error::Damaged { .. })), "{ended:?}");
        assert_eq!(queue.parts(), ["data", "sem"]);
    });
}

#[test]
fn a_new_file_has_the_mode_of_the_old() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    each(|mut queue| {
        queue.put(&["a"]);
        let data = queue.name.inside("data");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o662)).unwrap();
        let before = fs::metadata(&data).unwrap();
        assert_eq!(put_back(&queue.world, &queue.name, &["z"], &mut queue.notes), Ok(()));
        let after = fs::metadata(&data).unwrap();
        assert_ne!(after.ino(), before.ino());
        assert_eq!((after.mode(), after.gid()), (before.mode(), before.gid()));
        assert_eq!(queue.get(9), ["z", "a"]);
    });
}

#[test]
fn planted_links_harm_no_victim() {
    use std::os::unix::fs::symlink;
    each(|mut queue| {
        let victim = queue.name.path().with_file_name("victim");
        fs::write(&victim, "precious").unwrap();
        queue.put(&["a"]);
        symlink(&victim, queue.name.inside("data.new")).unwrap();
        assert_eq!(put_back(&queue.world, &queue.name, &["z"], &mut queue.notes), Ok(()));
        assert_eq!(queue.get(9), ["z", "a"]);

        symlink(&victim, queue.name.inside("rejected")).unwrap();
        queue.put(&["b"]);
        queue.write("data", [&b"?\n"[..], &queue.read("data")].concat());
        queue.write("sem/counter", "2\n");
        let now = Deadline::At(queue.world.now());
        let refused = get(&queue.world, &queue.name, 1, now, &mut queue.notes);
        assert_eq!(refused, Err(Error::system(queue.name.inside("rejected"), Errno::ELOOP)));
        fs::remove_file(queue.name.inside("rejected")).unwrap();
        assert_eq!(queue.get(9), ["b"], "nothing was consumed");

        fs::remove_file(queue.name.inside("data")).unwrap();
        symlink(&victim, queue.name.inside("data")).unwrap();
        let refused = put(&queue.world, &queue.name, &["c"], &mut queue.notes);
        assert_eq!(refused, Err(Error::system(queue.name.inside("data"), Errno::ELOOP)));
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    });
}
