//! A disk that is full costs copies and nothing else: what is given is right, what was purged stays so, and there is room
//! again when the oldest has gone.

// A test fails by panicking.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::store::{NewObject, Object, Purge, Tier, hash_of};

/// Much larger than what it lies on.
const LIMIT_BYTES: u64 = 64 << 20;

const KEYS: usize = 1000;

/// A file system in memory, as long as this lives.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

fn mount(path: &Path) -> Option<Mounted<'_>> {
    let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=5m", "tmpfs"]).arg(path).output();
    if output.is_ok_and(|output| output.status.success()) {
        return Some(Mounted(path));
    }
    // Not `eprintln!`, which the harness captures and drops when the test passes.
    let said = writeln!(std::io::stderr(), "SKIPPED: a full disk (only root can mount one in memory)");
    said.expect("standard error is open");
    None
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

/// Whether it is there; if so it must be right.
fn is_there(disk: &Disk, index: usize) -> bool {
    let key = key(index);
    let found = disk.load(hash_of(key.as_bytes()), key.as_bytes());
    assert!(found.iter().all(|object| object.body() == body(index)), "{index}: another body");
    !found.is_empty()
}

#[test]
fn a_full_disk_costs_copies_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let Some(_mounted) = mount(place.path()) else { return };
    let said = Arc::new(Mutex::new(Vec::new()));
    let report = said.clone();
    let open = || {
        let report = report.clone();
        Disk::open(place.path(), LIMIT_BYTES, move |message: &str| {
            report.lock().unwrap().push(message.to_string())
        })
    };
    let disk = open().unwrap();
    for index in 0..KEYS {
        disk.keep(&object(index));
        if index % 50 == 0 {
            disk.flush();
        }
    }
    disk.flush();
    assert!(said.lock().unwrap().iter().any(|message| message.contains("cannot be written to")));
    assert_eq!(disk.counters().corrupt, 0);
    let found: Vec<usize> = (0..KEYS).filter(|index| is_there(&disk, *index)).collect();
    assert!(!found.is_empty() && found.len() < 300, "{} are there", found.len());
    // Older ones have made room for newer ones.
    assert!(found[0] > 100, "{found:?}");
    // What is purged on a full disk stays so.
    disk.purge(&Purge::Key(key(found[0]).into_bytes()));
    assert!(!is_there(&disk, found[0]));
    drop(disk);
    let disk = open().unwrap();
    disk.flush();
    assert!(!is_there(&disk, found[0]), "it came back");
    let again = (0..KEYS).filter(|index| is_there(&disk, *index)).count();
    assert!(again < found.len());
}
