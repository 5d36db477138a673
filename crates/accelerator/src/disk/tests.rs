//! The storage as a whole, on real files.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::rules::storing::Terms;
use crate::store::{NewObject, hash_of};

const PATIENCE: Duration = Duration::from_secs(60);

fn silent() -> DiskLog {
    Arc::new(|_, _, _| {})
}

fn open(directory: &Path, size_bytes: u64) -> Disk {
    open_with(Settings::new(directory.to_path_buf(), size_bytes))
}

fn open_with(settings: Settings) -> Disk {
    let disk = Disk::open(settings, silent());
    assert!(disk.flush(PATIENCE));
    disk
}

fn body(key: &str, version: u32, length: usize) -> Vec<u8> {
    format!("{key} {version} ").bytes().cycle().take(length).collect()
}

fn object(key: &str, selector: &str, fields: &str, version: u32, length: usize) -> Arc<Object> {
    Arc::new(Object::new(NewObject {
        hash: hash_of(key.as_bytes()),
        key: key.as_bytes(),
        selector: selector.as_bytes(),
        status: 200,
        terms: Terms { lifetime: 60, response_time: i64::from(version), ..Terms::default() },
        fields: fields.as_bytes(),
        part: None,
        body: &[Bytes::from(body(key, version, length))],
    }))
}

fn keep(disk: &Disk, key: &str, version: u32, length: usize) {
    disk.keep(&object(key, "", "X-A: b\r\n", version, length));
}

fn forget(disk: &Disk, key: &str) {
    disk.forget(hash_of(key.as_bytes()), key.as_bytes());
}

fn load(disk: &Disk, key: &str) -> Vec<Object> {
    disk.load(hash_of(key.as_bytes()), key.as_bytes())
}

/// The version that is there; the body must be that of it.
fn version(disk: &Disk, key: &str) -> Option<u32> {
    let found = load(disk, key);
    assert!(found.len() <= 1, "{key}: {} versions", found.len());
    let object = found.first()?;
    let version = u32::try_from(object.terms.response_time).unwrap();
    assert!(object.body() == body(key, version, object.body().len()), "{key} {version}: another body");
    Some(version)
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    files.sort();
    files
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_kept_is_there_again_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    for (index, length) in [0, 1, 10_000, 200_000].into_iter().enumerate() {
        keep(&disk, &format!("key {index}"), 7, length);
    }
    for selector in ["a", "b"] {
        disk.keep(&object("varies", selector, "Vary: X\r\n", 1, 10));
    }
    assert!(disk.flush(PATIENCE));
    for _ in 0..2 {
        for index in 0..4 {
            assert_eq!(version(&disk, &format!("key {index}")), Some(7));
        }
        assert_eq!((load(&disk, "varies").len(), load(&disk, "other").len()), (2, 0));
        assert!(disk.may_hold(hash_of(b"key 0")) && !disk.may_hold(hash_of(b"other")));
    }
    assert_eq!(disk.counters().written, 6);
    drop(disk);
    let disk = open(place.path(), 16 << 20);
    assert_eq!((disk.counters().objects, disk.counters().corrupt), (6, 0));
    let found = load(&disk, "key 3");
    assert_eq!(
        (found[0].fields(), found[0].status(), found[0].terms.lifetime),
        (&b"X-A: b\r\n"[..], 200, 60)
    );
    assert_eq!((version(&disk, "key 3"), load(&disk, "varies").len()), (Some(7), 2));
}

#[test]
fn what_is_forgotten_or_replaced_does_not_come_back() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    for key in ["kept", "forgotten", "replaced", "forgotten at once"] {
        keep(&disk, key, 1, 100);
    }
    // Whether it is written already or still waits.
    forget(&disk, "forgotten at once");
    assert!(disk.flush(PATIENCE));
    forget(&disk, "forgotten");
    assert_eq!((version(&disk, "forgotten"), version(&disk, "forgotten at once")), (None, None));
    keep(&disk, "replaced", 2, 100);
    assert_ne!(version(&disk, "replaced"), Some(1));
    assert!(disk.flush(PATIENCE));
    drop(disk);
    let disk = open(place.path(), 16 << 20);
    for (key, expected) in
        [("kept", Some(1)), ("forgotten", None), ("replaced", Some(2)), ("forgotten at once", None)]
    {
        assert_eq!(version(&disk, key), expected, "{key}");
    }
}

#[test]
fn purges_hold_for_what_was_kept_before_and_after_a_restart() {
    for (purge, gone) in [
        (Purge::Prefix(b"a/".to_vec()), &["a/1", "a/2"][..]),
        (Purge::Tag(b"red".to_vec()), &["a/1", "b/1"]),
        (Purge::All, &["a/1", "a/2", "b/1"]),
        (Purge::Space(u64::from_le_bytes(*b"b/1-----")), &[]),
    ] {
        for restarts in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let mut disk = open(place.path(), 16 << 20);
            for (key, tag) in [("a/1", "red"), ("a/2", "green"), ("b/1", "red")] {
                disk.keep(&object(key, "", &format!("Surrogate-Key: {tag}\r\n"), 1, 10));
            }
            assert!(restarts || disk.flush(PATIENCE));
            disk.purge(&purge, PurgeMode::Remove);
            disk.keep(&object("a/3", "", "Surrogate-Key: red\r\n", 1, 10));
            assert!(disk.flush(PATIENCE));
            if restarts {
                drop(disk);
                disk = open(place.path(), 16 << 20);
            }
            for key in ["a/1", "a/2", "b/1"] {
                let expected = if gone.contains(&key) { None } else { Some(1) };
                assert_eq!(version(&disk, key), expected, "{purge:?} {key} {restarts}");
            }
            assert_eq!(version(&disk, "a/3"), Some(1), "{purge:?} is for what was there");
        }
    }
}

#[test]
fn a_soft_purge_is_not_forgotten_by_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    keep(&disk, "a", 1, 10);
    keep(&disk, "b", 1, 10);
    disk.purge(&Purge::Key(b"a".to_vec()), PurgeMode::Soft);
    assert!(disk.flush(PATIENCE));
    drop(disk);
    let disk = open(place.path(), 16 << 20);
    assert_eq!(load(&disk, "a")[0].state(), State::SoftPurged);
    assert_eq!(load(&disk, "b")[0].state(), State::Stored);
}

#[test]
fn many_purges_are_carried_out_and_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    for index in 0..1500 {
        disk.keep(&object(&format!("key {index}"), "", &format!("Cache-Tag: t{index}\r\n"), 1, 10));
    }
    assert!(disk.flush(PATIENCE));
    for index in 0..1200 {
        disk.purge(&Purge::Tag(format!("t{index}").into_bytes()), PurgeMode::Remove);
    }
    assert!(disk.flush(PATIENCE));
    // Behind the purges that are carried out.
    keep(&disk, "later", 1, 10);
    assert!(disk.flush(PATIENCE));
    let read = || {
        let bytes = fs::read(place.path().join("purges")).unwrap();
        purges::read(&bytes).0.len()
    };
    assert!(read() <= purges::MOST_PURGES, "{}", read());
    drop(disk);
    let disk = open(place.path(), 16 << 20);
    for index in 0..1500 {
        let expected = if index < 1200 { None } else { Some(1) };
        assert_eq!(version(&disk, &format!("key {index}")), expected, "{index}");
    }
}

#[test]
fn it_stays_within_its_size_and_keeps_what_is_asked_for() {
    const SIZE: u64 = 4 << 20;
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), SIZE);
    keep(&disk, "asked for", 1, 5000);
    for index in 0..3000 {
        keep(&disk, &format!("key {index}"), 1, 5000);
        if index % 50 == 0 {
            assert!(disk.flush(PATIENCE));
            assert_eq!(version(&disk, "asked for"), Some(1), "{index}");
        }
    }
    assert!(disk.flush(PATIENCE));
    let used: u64 = ["records", "entries"]
        .iter()
        .flat_map(|ending| files(place.path(), ending))
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    let counters = disk.counters();
    assert_eq!(counters.bytes, used);
    assert!(used <= SIZE && used > SIZE / 2, "{used}");
    assert!(counters.objects > 400 && counters.evicted > 2000, "{counters:?}");
    assert_eq!((version(&disk, "key 2999"), version(&disk, "key 0")), (Some(1), None));
    // Too large to be kept at all.
    keep(&disk, "large", 1, (SIZE / 2) as usize);
    assert!(disk.flush(PATIENCE));
    assert_eq!((version(&disk, "large"), disk.counters().refused), (None, 1));
    // A smaller one has room for less.
    drop(disk);
    let disk = open(place.path(), SIZE / 4);
    assert!(disk.counters().bytes <= SIZE / 4 && disk.counters().objects > 50);
    assert_eq!(version(&disk, "key 2999"), Some(1));
}

#[test]
fn the_index_and_the_queue_are_bounded() {
    let place = tempfile::tempdir().unwrap();
    let settings = Settings::new(place.path().to_path_buf(), 64 << 20);
    let disk = open_with(Settings { index_bytes: 100 * PLACE_BYTES, ..settings.clone() });
    for index in 0..1000 {
        keep(&disk, &format!("key {index}"), 1, 2000);
    }
    assert!(disk.flush(PATIENCE));
    assert!(disk.counters().objects <= 100, "{:?}", disk.counters());
    drop(disk);
    let disk = open_with(Settings { queue_bytes: 10_000, ..settings });
    keep(&disk, "large", 1, 20_000);
    assert!(disk.flush(PATIENCE));
    assert_eq!((version(&disk, "large"), disk.counters().refused), (None, 1));
}

#[test]
fn flipped_bits_are_dropped_and_counted() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    for index in 0..20 {
        keep(&disk, &format!("key {index}"), 1, 1000);
    }
    assert!(disk.flush(PATIENCE));
    let records = files(place.path(), "records").remove(0);
    let length = fs::metadata(&records).unwrap().len() as usize / 20;
    // In a header, a key, the fields and a body.
    for (index, at) in [(0, 20), (1, 129), (2, 136), (3, length - 1)] {
        flip(&records, index * length + at);
    }
    for _ in 0..2 {
        for index in 0..20 {
            let expected = if index < 4 { None } else { Some(1) };
            assert_eq!(version(&disk, &format!("key {index}")), expected, "{index}");
        }
        assert_eq!((disk.counters().corrupt, disk.counters().objects), (4, 16));
    }
    assert!(disk.flush(PATIENCE));
    drop(disk);
    // Entries, and what is no segment at all.
    let entries = files(place.path(), "entries").remove(0);
    flip(&entries, 40 * 5 + 3);
    fs::OpenOptions::new().append(true).open(&entries).unwrap().write_all(b"half of an ent").unwrap();
    fs::write(place.path().join("00000077.entries"), b"no records beside it").unwrap();
    fs::write(place.path().join("purges"), b"no purges").unwrap();
    let disk = open(place.path(), 16 << 20);
    assert_eq!((disk.counters().corrupt, disk.counters().objects), (1, 15));
    assert_eq!((version(&disk, "key 4"), version(&disk, "key 5")), (Some(1), None));
    keep(&disk, "new", 1, 1000);
    assert!(disk.flush(PATIENCE));
    assert_eq!(version(&disk, "new"), Some(1));
    // Cut off, as a file system may leave it.
    fs::OpenOptions::new().write(true).open(&records).unwrap().set_len(10 * length as u64).unwrap();
    let found = (0..20).filter(|index| version(&disk, &format!("key {index}")).is_some()).count();
    assert_eq!(found, 5);
    drop(disk);
    let disk = open(place.path(), 16 << 20);
    assert_eq!(disk.counters().objects, 5);
}

#[test]
fn a_full_disk_costs_hits_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
        .arg(place.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        writeln!(std::io::stderr(), "SKIPPED: a full disk (root may mount one in memory)").unwrap();
        return;
    }
    struct Mounted<'p>(&'p Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0).status();
        }
    }
    let mounted = Mounted(place.path());
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    // Much larger than what it lies on.
    let disk = Disk::open(
        Settings::new(place.path().to_path_buf(), 32 << 20),
        Arc::new(move |_, what, _| lock(&log).push(what)),
    );
    for index in 0..1000 {
        keep(&disk, &format!("key {index}"), 1, 10_000);
    }
    assert!(disk.flush(PATIENCE));
    let counters = disk.counters();
    assert!(counters.failures > 0 && counters.refused > 0 && counters.corrupt == 0, "{counters:?}");
    assert!(lock(&said).contains(&"disk cache not written"));
    let found =
        |disk: &Disk| (0..1000).filter(|index| version(disk, &format!("key {index}")).is_some()).count();
    let before = found(&disk);
    assert!(before > 0, "some were written, {counters:?}");
    // Forgetting works on a full disk, too.
    let first =
        (0..1000).map(|index| format!("key {index}")).find(|key| version(&disk, key).is_some()).unwrap();
    forget(&disk, &first);
    drop(disk);
    let disk = open(place.path(), 32 << 20);
    assert_eq!((found(&disk), version(&disk, &first)), (before - 1, None));
    drop(disk);
    drop(mounted);
}

#[test]
fn one_process_after_the_other_has_it() {
    let place = tempfile::tempdir().unwrap();
    let first = open(place.path(), 16 << 20);
    for key in ["a", "b", "c"] {
        keep(&first, key, 1, 100);
    }
    assert!(first.flush(PATIENCE));
    let second = Disk::open(Settings::new(place.path().to_path_buf(), 16 << 20), silent());
    // What it is told while it waits holds when it has the directory.
    forget(&second, "a");
    second.purge(&Purge::Key(b"b".to_vec()), PurgeMode::Soft);
    keep(&second, "d", 1, 100);
    assert!(!second.flush(Duration::from_millis(50)));
    assert_eq!(second.counters().objects, 0);
    drop(first);
    assert!(second.flush(PATIENCE));
    let versions = ["a", "c", "d"].map(|key| version(&second, key));
    assert_eq!(versions, [None, Some(1), Some(1)]);
    assert_eq!(load(&second, "b")[0].state(), State::SoftPurged);
}

#[test]
fn what_was_on_its_way_is_written_when_it_is_closed_in_order() {
    let place = tempfile::tempdir().unwrap();
    let disk = open(place.path(), 16 << 20);
    for index in 0..100 {
        keep(&disk, &format!("key {index}"), 1, 1000);
    }
    disk.close(PATIENCE);
    assert!(fs::read_to_string(place.path().join("state")).unwrap().contains("closed true"));
    assert_eq!(open(place.path(), 16 << 20).counters().objects, 100);
}

#[derive(Debug, Clone)]
enum Step {
    Keep(u8, usize),
    Forget(u8),
    PurgePrefix(u8),
    PurgeAll,
    Load(u8),
    Flush,
    Restart,
}

fn steps() -> impl Strategy<Value = Step> {
    let key = 0_u8..20;
    prop_oneof![
        6 => (key.clone(), 0_usize..30_000).prop_map(|(key, length)| Step::Keep(key, length)),
        2 => key.clone().prop_map(Step::Forget),
        1 => (0_u8..2).prop_map(Step::PurgePrefix),
        1 => Just(Step::PurgeAll),
        6 => key.prop_map(Step::Load),
        2 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is done in whatever order: what is found is the latest that was kept, and nothing that was forgotten.
    #[test]
    fn it_never_gives_what_it_must_not(steps in vec(steps(), 1..120)) {
        // Small enough that segments leave.
        const SIZE: u64 = 300_000;
        let place = tempfile::tempdir().unwrap();
        let mut disk = open(place.path(), SIZE);
        let mut expected: HashMap<String, u32> = HashMap::new();
        let name = |key: u8| format!("{}/{key}", key % 2);
        for (number, step) in steps.into_iter().enumerate() {
            let number = u32::try_from(number).unwrap();
            match step {
                Step::Keep(key, length) => {
                    keep(&disk, &name(key), number, length);
                    expected.insert(name(key), number);
                }
                Step::Forget(key) => {
                    forget(&disk, &name(key));
                    expected.remove(&name(key));
                }
                Step::PurgePrefix(half) => {
                    let prefix = format!("{half}/");
                    disk.purge(&Purge::Prefix(prefix.clone().into_bytes()), PurgeMode::Remove);
                    expected.retain(|key, _| !key.starts_with(&prefix));
                }
                Step::PurgeAll => {
                    disk.purge(&Purge::All, PurgeMode::Remove);
                    expected.clear();
                }
                Step::Load(key) => {
                    let found = version(&disk, &name(key));
                    prop_assert!(found.is_none() || found == expected.get(&name(key)).copied(), "{} {:?}", key, found);
                }
                Step::Flush => prop_assert!(disk.flush(PATIENCE)),
                Step::Restart => {
                    drop(disk);
                    disk = open(place.path(), SIZE);
                }
            }
        }
        prop_assert!(disk.flush(PATIENCE));
        for key in 0..20 {
            let found = version(&disk, &name(key));
            prop_assert!(found.is_none() || found == expected.get(&name(key)).copied());
        }
        prop_assert!(disk.counters().bytes <= SIZE && disk.counters().corrupt == 0);
    }
}
