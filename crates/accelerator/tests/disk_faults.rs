//! Tests that a directory that is full, removed, read-only or broken only costs copies: the responses that
//! are returned are right, purged ones stay purged, each cause is reported once and counted, and copies are
//! made again after it has ended.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::store::{NewObject, Object, PurgeScope, Tier, hash_of};
use touchstone_handler::handler::Level;

/// Much larger than the file system of the directory.
const LIMIT_BYTES: u64 = 64 << 20;

const KEYS: usize = 1000;

/// A file system that is mounted on a directory until this is dropped.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// Mounts a file system; `None`, with a visible message, if that is not permitted.
fn mount<'p>(arguments: &[&str], path: &'p Path) -> Option<Mounted<'p>> {
    let output = Command::new("mount").args(arguments).arg(path).output();
    if output.is_ok_and(|output| output.status.success()) {
        return Some(Mounted(path));
    }
    // Not `eprintln!`, which the harness captures and drops when the test passes.
    let said =
        writeln!(std::io::stderr(), "SKIPPED: a cache on a faulty file system (only root can mount one)");
    said.expect("standard error is open");
    None
}

/// The messages that were reported.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn open(&self, directory: &Path) -> Disk {
        let told = self.clone();
        let report = move |level: Level, message: &str| {
            if matches!(level, Level::Warning) {
                told.0.lock().unwrap().push(message.to_string());
            }
        };
        Disk::open(directory, LIMIT_BYTES, report).unwrap()
    }

    /// The number of warnings with these words.
    fn count(&self, words: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|message| message.contains(words)).count()
    }
}

fn key(index: usize) -> String {
    format!("key {index}")
}

fn body(index: usize) -> Vec<u8> {
    format!("{index} ").bytes().cycle().take(20_000).collect()
}

fn object(index: usize) -> Arc<Object> {
    let key = key(index);
    Arc::new(Object::new(NewObject {
        hash: hash_of(key.as_bytes()),
        key: key.as_bytes(),
        selector: b"",
        status: 200,
        terms: Terms { lifetime: 600, ..Terms::default() },
        fields: b"X-A: b\r\n",
        part: None,
        trailers: b"",
        body: &[Bytes::from(body(index))],
    }))
}

/// Keeps these responses, and waits until they are written.
fn keep(disk: &Disk, indices: std::ops::Range<usize>) {
    for index in indices {
        disk.keep(&object(index));
        if index % 50 == 0 {
            disk.flush();
        }
    }
    disk.flush();
}

/// Whether a response is found. If it is, it must be right.
fn is_there(disk: &Disk, index: usize) -> bool {
    let key = key(index);
    let found = disk.load(hash_of(key.as_bytes()), key.as_bytes());
    assert!(found.iter().all(|object| object.body() == body(index)), "{index}: another body");
    !found.is_empty()
}

fn those_there(disk: &Disk) -> Vec<usize> {
    (0..KEYS).filter(|index| is_there(disk, *index)).collect()
}

#[test]
fn a_full_disk_costs_copies_and_nothing_else() {
    const NO_ROOM: &str = "No space left";
    let place = tempfile::tempdir().unwrap();
    let Some(_mounted) = mount(&["-t", "tmpfs", "-o", "size=5m", "tmpfs"], place.path()) else { return };
    let told = Told::default();
    let disk = told.open(place.path());
    keep(&disk, 0..KEYS);
    // Many writes have found the disk full, but that was reported only once.
    let counters = disk.counters();
    assert!(counters.faults.full > 1 && counters.corrupt == 0, "{counters:?}");
    assert_eq!(told.count(NO_ROOM), 1);
    let found = those_there(&disk);
    assert!(!found.is_empty() && found.len() < 300, "{} are there", found.len());
    // Older responses have made room for newer ones.
    assert!(found[0] > 100, "{found:?}");
    // A response that is purged on a full disk stays purged.
    disk.purge(&PurgeScope::Key(key(found[0]).into_bytes()));
    assert!(!is_there(&disk, found[0]));
    drop(disk);
    let disk = told.open(place.path());
    disk.flush();
    assert!(!is_there(&disk, found[0]), "it came back");
    assert!(those_there(&disk).len() < found.len());
    // The disk is enlarged, and more responses are kept than before. When it is full again, that is reported
    // again.
    let before = told.count(NO_ROOM);
    keep(&disk, 0..KEYS);
    let enlarged = Command::new("mount").args(["-o", "remount,size=10m"]).arg(place.path()).status().unwrap();
    assert!(enlarged.success());
    keep(&disk, 0..KEYS / 3);
    assert!(those_there(&disk).len() > found.len() + 50);
    keep(&disk, 0..KEYS);
    assert_eq!(told.count(NO_ROOM), before + 2);
}

#[test]
fn a_directory_that_is_taken_away_is_made_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("cache");
    let told = Told::default();
    let disk = told.open(&directory);
    keep(&disk, 0..20);
    for round in 1..3 {
        fs::remove_dir_all(&directory).unwrap();
        keep(&disk, 20..40);
        assert_eq!((told.count("removed it"), disk.counters().faults.missing), (round, round as u64));
        let found = those_there(&disk);
        assert_eq!(found, (20..40).collect::<Vec<_>>());
    }
    // A response that is purged while there is no directory does not return with the next directory.
    fs::remove_dir_all(&directory).unwrap();
    disk.purge(&PurgeScope::Key(key(30).into_bytes()));
    disk.keep(&object(41));
    disk.purge(&PurgeScope::Key(key(41).into_bytes()));
    keep(&disk, 42..44);
    drop(disk);
    let disk = told.open(&directory);
    disk.flush();
    assert_eq!(those_there(&disk), [42, 43]);
    assert_eq!(disk.counters().corrupt, 0);
}

#[test]
fn a_place_where_no_directory_can_be_is_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let (above, aside) = (place.path().join("above"), place.path().join("aside"));
    let directory = above.join("cache");
    let told = Told::default();
    let disk = told.open(&directory);
    keep(&disk, 0..20);
    fs::rename(&above, &aside).unwrap();
    fs::write(&above, "no directory").unwrap();
    // Responses in files that were moved away can be read as long as the files are open.
    keep(&disk, 20..200);
    assert!(disk.counters().unwritten > 0);
    assert!((0..200).all(|index| index >= 20 || !is_there(&disk, index)));
    let told_so_far = told.0.lock().unwrap().len();
    assert!((1..=2).contains(&told_so_far), "{:?}", told.0);
    fs::remove_file(&above).unwrap();
    let mut tries = 0;
    while !is_there(&disk, 500) {
        keep(&disk, 500..501);
        std::thread::sleep(std::time::Duration::from_millis(20));
        tries += 1;
        assert!(tries < 3000, "{:?}", told.0);
    }
    assert!(directory.join("lock").exists());
    assert_eq!(told.0.lock().unwrap().len(), told_so_far);
}

#[test]
fn a_list_of_purges_that_is_taken_away_takes_everything_with_it() {
    let place = tempfile::tempdir().unwrap();
    let told = Told::default();
    let disk = told.open(place.path());
    keep(&disk, 0..20);
    disk.purge(&PurgeScope::Key(key(5).into_bytes()));
    fs::remove_file(place.path().join("purges")).unwrap();
    drop(disk);
    let disk = told.open(place.path());
    disk.flush();
    assert_eq!(those_there(&disk), [0; 0]);
    assert_eq!(told.count("some purges are unknown"), 1);
    // The list is removed while the disk is used, so a purge cannot be written to it.
    keep(&disk, 0..20);
    fs::remove_file(place.path().join("purges")).unwrap();
    disk.purge(&PurgeScope::Key(key(6).into_bytes()));
    disk.flush();
    assert_eq!(those_there(&disk), [0; 0]);
    keep(&disk, 0..4);
    drop(disk);
    let disk = told.open(place.path());
    disk.flush();
    assert_eq!(those_there(&disk), [0, 1, 2, 3]);
}

#[test]
fn a_directory_that_becomes_read_only_costs_what_cannot_be_written() {
    let place = tempfile::tempdir().unwrap();
    let told = Told::default();
    let disk = told.open(place.path());
    keep(&disk, 0..20);
    {
        let Some(_mounted) = mount(&["-t", "tmpfs", "-o", "ro", "tmpfs"], place.path()) else { return };
        // The open file still takes some responses, but no new file can be made.
        keep(&disk, 20..400);
        let counters = disk.counters();
        assert!(counters.unwritten > 250 && counters.faults.read_only > 250, "{counters:?}");
        assert_eq!(told.count("Read-only"), 1);
        assert!((0..40).all(|index| is_there(&disk, index)));
        disk.purge(&PurgeScope::Key(key(7).into_bytes()));
        assert!(!is_there(&disk, 7));
    }
    keep(&disk, 400..500);
    assert!((0..500).filter(|index| is_there(&disk, *index)).count() >= 139);
    assert_eq!(told.0.lock().unwrap().len(), 1, "{:?}", told.0);
    drop(disk);
    let disk = told.open(place.path());
    disk.flush();
    assert!(!is_there(&disk, 7) && is_there(&disk, 8) && is_there(&disk, 499));
}

/// The next user of the directory can lock it at once, even if programs are being started at the same time:
/// until its exec, such a program holds copies of all descriptors that are open here.
#[test]
fn a_directory_that_is_left_is_free() {
    let place = tempfile::tempdir().unwrap();
    let told = Told::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start_programs = || {
            while !is_over.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        };
        (0..2).for_each(|_| drop(scope.spawn(start_programs)));
        for round in 0..50 {
            let disk = told.open(place.path());
            let is_found = round == 0 || is_there(&disk, round - 1);
            keep(&disk, round..round + 1);
            if !is_found {
                is_over.store(true, Ordering::Relaxed);
                panic!("{round}: the directory was not free");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A file system whose device fails when it is read.
#[test]
fn a_disk_that_cannot_be_read_costs_what_was_on_it() {
    let place = tempfile::tempdir().unwrap();
    let (image, directory) = (place.path().join("image"), place.path().join("cache"));
    fs::create_dir(&directory).unwrap();
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output();
    if !made.is_ok_and(|output| output.status.success()) {
        let said = writeln!(std::io::stderr(), "SKIPPED: a cache on a broken disk (install e2fsprogs)");
        return said.expect("standard error is open");
    }
    let options = ["-o", "loop,errors=remount-ro", image.to_str().unwrap()];
    let Some(_mounted) = mount(&options, &directory) else { return };
    let told = Told::default();
    let disk = told.open(&directory);
    keep(&disk, 0..100);
    assert!(Command::new("sync").arg("--file-system").arg(&directory).status().unwrap().success());
    forget_pages(&directory);
    fs::File::options().write(true).open(&image).unwrap().set_len(4096).unwrap();
    let found = (0..100).filter(|index| is_there(&disk, *index)).count();
    let counters = disk.counters();
    assert!(found < 100 && counters.faults.read as usize == 100 - found, "{found}: {counters:?}");
    assert_eq!(counters.corrupt, 0, "what cannot be read is not damaged");
    assert!(told.count("cannot be read") >= 1);
    // Unreadable responses are not looked up again, and work continues.
    assert_eq!((0..100).filter(|index| is_there(&disk, *index)).count(), found);
    keep(&disk, 100..300);
    assert!(those_there(&disk).into_iter().all(|index| index < 300));
}

/// Drops the page cache of the files in a directory, so that they are read from the disk again.
fn forget_pages(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(file) = fs::File::open(&path) {
            let forgotten = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            forgotten.unwrap();
        }
    }
}
