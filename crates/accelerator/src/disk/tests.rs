use super::*;
use crate::rules::storing::Terms;
use crate::store::{NewObject, Store, hash_of};
use bytes::Bytes;
use proptest::prelude::*;
use std::fs;

const LIMIT: u64 = 64 * 1024 * 1024;

fn object(key: &str, fields: &str, body: Vec<u8>) -> Arc<Object> {
    let key = [&7u64.to_le_bytes()[..], key.as_bytes()].concat();
    let terms = Terms { response_time: 100, date: 99, initial_age: 1, lifetime: 50, ..Terms::default() };
    Arc::new(Object::new(NewObject {
        hash: hash_of(&key),
        key: &key,
        selector: b"",
        status: 203,
        terms: Terms { must_revalidate: true, stale_if_error: 9, ..terms },
        fields: fields.as_bytes(),
        part: None,
        trailers: b"",
        body: &[Bytes::from(body)],
    }))
}

fn open(directory: &Path, limit: u64) -> Disk {
    Disk::open(directory, limit, |_, _| {}).unwrap()
}

fn load(disk: &Disk, like: &Object) -> Option<Object> {
    disk.load(like.hash, like.key()).pop()
}

fn same(one: &Object, other: &Object) -> bool {
    (one.key(), one.selector(), one.fields(), one.body(), one.status(), one.terms, one.part(), one.hash)
        == (
            other.key(),
            other.selector(),
            other.fields(),
            other.body(),
            other.status(),
            other.terms,
            other.part(),
            other.hash,
        )
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let objects: Vec<_> =
        (0..50).map(|index| object(&format!("{index}"), "A: b\r\n", vec![index; 5000])).collect();
    let long = object("long", "", vec![1; 300_000]);
    {
        let disk = open(directory.path(), LIMIT);
        objects.iter().chain([&long]).for_each(|object| disk.keep(object));
        disk.keep(&object("0", "A: c\r\n", vec![9; 10]));
        disk.flush();
        assert_eq!(disk.counters().objects, 51);
        assert!(same(&load(&disk, &long).unwrap(), &long));
    }
    let disk = open(directory.path(), LIMIT);
    assert_eq!((disk.counters().objects, disk.counters().corrupt), (51, 0));
    assert!(objects[1..].iter().chain([&long]).all(|object| same(&load(&disk, object).unwrap(), object)));
    assert_eq!(load(&disk, &objects[0]).unwrap().fields(), b"A: c\r\n");
}

#[test]
fn a_machine_that_stopped_without_warning_leaves_nothing_that_is_believed() {
    let directory = tempfile::tempdir().unwrap();
    let kept = object("a", "", vec![1; 100]);
    {
        let disk = open(directory.path(), LIMIT);
        disk.keep(&kept);
    }
    assert!(load(&open(directory.path(), LIMIT), &kept).is_some(), "left in order");
    fs::write(directory.path().join("boot"), "another start\n").unwrap();
    let disk = open(directory.path(), LIMIT);
    assert!(load(&disk, &kept).is_none());
    disk.keep(&kept);
    disk.flush();
    assert!(load(&disk, &kept).is_some());
}

#[test]
fn a_purge_while_the_directory_cannot_be_used_holds_for_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let kept = object("a", "", vec![1; 100]);
    {
        let disk = open(directory.path(), LIMIT);
        disk.keep(&kept);
    }
    // The list of purges cannot be opened.
    let (list, away) = (directory.path().join("purges"), directory.path().join("away"));
    fs::rename(&list, &away).unwrap();
    fs::create_dir(&list).unwrap();
    let disk = open(directory.path(), LIMIT);
    disk.flush();
    disk.purge(&PurgeScope::All);
    fs::remove_dir(&list).unwrap();
    fs::rename(&away, &list).unwrap();
    // The next process starts before this one tries again.
    let (next, mut steps) = stepped(directory.path());
    while steps.step() {}
    assert!(load(&next, &kept).is_none(), "it was purged");
    drop(disk);
}

#[test]
fn the_index_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 8 << 20;
    let disk = open(directory.path(), limit);
    for index in 0..10_000 {
        disk.keep(&object(&format!("{index}"), "", vec![1; 300]));
        if index % 1000 == 0 {
            disk.flush();
        }
    }
    disk.flush();
    let objects = disk.counters().objects;
    assert!(objects > 0 && objects <= limit / 4096 + 1, "{objects}");
}

fn group(origin: &str, name: &str) -> PurgeScope {
    PurgeScope::Group { origin: origin.as_bytes().to_vec(), name: name.as_bytes().to_vec() }
}

#[test]
fn what_was_purged_does_not_come_back() {
    let tagged = object("ha/1", "Cache-Tag: t\r\n", vec![1]);
    let plain = object("ha/2", "Cache-Groups: \"g\"\r\n", vec![2]);
    let other = object("hb/1", "", vec![3]);
    let key = |text: &str| [&7u64.to_le_bytes()[..], text.as_bytes()].concat();
    for (purge, left) in [
        (PurgeScope::Key(key("ha/2")), [true, false, true]),
        (PurgeScope::Tag(b"t".to_vec()), [false, true, true]),
        (PurgeScope::Prefix(key("ha/")), [false, false, true]),
        (PurgeScope::Path { path: b"/1".to_vec(), is_prefix: false }, [false, true, false]),
        (group("ha", "g"), [true, false, true]),
        (group("hb", "g"), [true; 3]),
        (group("ha", "other"), [true; 3]),
        (PurgeScope::Space(7), [false; 3]),
        (PurgeScope::All, [false; 3]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let there = |disk: &Disk| [&tagged, &plain, &other].map(|object| load(disk, object).is_some());
        let disk = open(directory.path(), LIMIT);
        [&tagged, &plain, &other].into_iter().for_each(|object| disk.keep(object));
        // The purge applies at once, although nothing need have been written, and no earlier response is
        // written later.
        disk.purge(&purge);
        assert!(!there(&disk).iter().zip(left).any(|(is_there, stays)| *is_there && !stays), "{purge:?}");
        disk.flush();
        assert_eq!(there(&disk), left, "{purge:?}");
        drop(disk);
        let disk = open(directory.path(), LIMIT);
        assert_eq!(there(&disk), left, "{purge:?} after a restart");
        // Responses that are stored after it are kept.
        [&tagged, &plain, &other].into_iter().for_each(|object| disk.keep(object));
        disk.flush();
        assert_eq!(there(&disk), [true; 3], "{purge:?}");
    }
}

#[test]
fn a_purge_while_the_last_response_is_written_holds_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let objects: Vec<_> = (0..3000).map(|index| object(&format!("{index}"), "", vec![1; 100])).collect();
    let disk = open(directory.path(), LIMIT);
    for (number, object) in objects.iter().enumerate() {
        disk.keep(object);
        // The purge meets each moment of the writer's work.
        (0..number).for_each(|_| std::hint::spin_loop());
        disk.purge(&PurgeScope::Key(object.key().to_vec()));
        disk.flush();
    }
    drop(disk);
    let disk = open(directory.path(), LIMIT);
    let left: Vec<_> = objects.iter().filter(|object| load(&disk, object).is_some()).collect();
    assert!(left.is_empty(), "{} purged responses are there", left.len());
}

#[test]
fn damage_costs_what_is_damaged_and_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let objects: Vec<_> = (0..20).map(|index| object(&format!("{index}"), "", vec![index; 1000])).collect();
    {
        let disk = open(directory.path(), LIMIT);
        objects.iter().for_each(|object| disk.keep(object));
        disk.flush();
    }
    let segment = directory.path().join("00000000.segment");
    let mut bytes = fs::read(&segment).unwrap();
    let record = bytes.len() / 20;
    // One record is damaged in its body, and one is incomplete at the end.
    bytes[3 * record + 500] ^= 1;
    bytes.truncate(19 * record + 700);
    fs::write(&segment, bytes).unwrap();
    let disk = open(directory.path(), LIMIT);
    assert_eq!((disk.counters().objects, disk.counters().corrupt), (19, 1));
    for (index, object) in objects.iter().enumerate() {
        let loaded = load(&disk, object);
        assert_eq!(loaded.is_some(), ![3, 19].contains(&index), "{index}");
        assert!(loaded.is_none_or(|loaded| same(&loaded, object)));
    }
    assert_eq!((disk.counters().objects, disk.counters().corrupt), (18, 2));
}

#[test]
fn a_damaged_list_of_purges_takes_everything_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let kept = object("a", "", vec![1; 100]);
    {
        let disk = open(directory.path(), LIMIT);
        disk.keep(&kept);
        disk.purge(&PurgeScope::Tag(b"x".to_vec()));
        disk.purge(&PurgeScope::Tag(b"y".to_vec()));
        disk.flush();
        assert!(load(&disk, &kept).is_some());
    }
    let path = directory.path().join("purges");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    let disk = open(directory.path(), LIMIT);
    assert!(load(&disk, &kept).is_none());
    assert_eq!(disk.counters().objects, 0);
}

#[test]
fn the_limit_holds_and_what_is_read_stays() {
    const LEAST: u64 = 4 * 1024 * 1024;
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path(), LEAST);
    let used = object("used", "", vec![1; 10_000]);
    disk.keep(&used);
    for index in 0..1000 {
        disk.keep(&object(&format!("{index}"), "", vec![2; 20_000]));
        disk.flush();
        assert!(load(&disk, &used).is_some(), "{index}");
        assert!(disk.counters().bytes <= LEAST + 1024 * 1024);
    }
    assert!(load(&disk, &object("0", "", vec![])).is_none());
    assert!(load(&disk, &object("999", "", vec![])).is_some());
    drop(disk);
    let disk = open(directory.path(), LEAST);
    assert!(load(&disk, &used).is_some());
}

#[test]
fn a_directory_has_one_owner_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (object("one", "", vec![1]), object("other", "", vec![2]));
    let first = open(directory.path(), LIMIT);
    first.keep(&one);
    first.keep(&other);
    first.flush();
    let second = open(directory.path(), LIMIT);
    assert!(load(&second, &one).is_none());
    // A purge by the second process, while it waits, applies to responses that the first one has written.
    second.purge(&PurgeScope::Key(other.key().to_vec()));
    drop(first);
    let mut tries = 0;
    while load(&second, &one).is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        tries += 1;
        assert!(tries < 1000, "the directory is never in use");
    }
    second.flush();
    assert!(load(&second, &other).is_none());
}

fn stepped(directory: &Path) -> (Disk, Steps) {
    let directory: Arc<dyn Directory> = Arc::new(RealDirectory::new(directory));
    open_stepped(directory, LIMIT, LIMIT, |_, _| {}).unwrap()
}

#[test]
fn what_the_next_process_keeps_and_purges_comes_after_what_the_one_before_writes() {
    let directory = tempfile::tempdir().unwrap();
    let version = |key: &str, number: u8| object(key, "Cache-Tag: t\r\n", vec![number; 100]);
    let (first, mut first_steps) = stepped(directory.path());
    for round in 0..10 {
        first.keep(&version("replaced", round));
    }
    while first_steps.step() {}
    let (second, mut second_steps) = stepped(directory.path());
    second.keep(&version("purged", 20));
    second.keep(&version("purged by key", 20));
    second.purge(&PurgeScope::Tag(b"t".to_vec()));
    second.purge(&PurgeScope::Key(version("purged by key", 0).key().to_vec()));
    second.keep(&version("replaced", 21));
    second.keep(&version("purged by key", 21));
    second_steps.step();
    // The first process issues sequence numbers until its end.
    for key in ["replaced", "purged", "purged by key"] {
        first.keep(&version(key, 11));
    }
    first_steps.leave();
    drop(first);
    while second_steps.step() {}
    let found = |disk: &Disk| {
        ["replaced", "purged", "purged by key"]
            .map(|key| load(disk, &version(key, 0)).map(|object| object.body()[0]))
    };
    assert_eq!(found(&second), [Some(21), None, Some(21)]);
    second_steps.leave();
    drop(second);
    assert_eq!(found(&open(directory.path(), LIMIT)), [Some(21), None, Some(21)], "after a restart");
}

#[test]
fn a_removed_directory_that_another_process_has_used_is_taken_up_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("cache");
    let version = |number: u8| object("key", "", vec![number; 100]);
    let (first, mut first_steps) = stepped(&place);
    first.keep(&version(0));
    while first_steps.step() {}
    fs::remove_dir_all(&place).unwrap();
    {
        let other = open(&place, LIMIT);
        (1..20).for_each(|number| other.keep(&version(number)));
    }
    // The first process notices it when it writes this one, and finds higher sequence numbers than it has
    // issued.
    first.keep(&version(20));
    while first_steps.step() {}
    assert_eq!(load(&first, &version(0)).map(|object| object.body()[0]), Some(20));
    first_steps.leave();
    drop(first);
    let next = open(&place, LIMIT);
    assert_eq!(load(&next, &version(0)).map(|object| object.body()[0]), Some(20), "after a restart");
}

#[test]
fn what_memory_evicts_is_found_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(open(directory.path(), LIMIT));
    let store = Store::new(100_000, Some(disk.clone()));
    let objects: Vec<_> = (0..200).map(|index| object(&format!("{index}"), "", vec![index; 1000])).collect();
    objects.iter().for_each(|object| assert!(store.insert(object.clone(), 0)));
    disk.flush();
    assert!(store.counters().objects < 100);
    assert!(objects.iter().all(|object| same(&load(&disk, object).unwrap(), object)));
    store.purge(&PurgeScope::All, crate::store::PurgeMode::Remove);
    assert!(objects.iter().all(|object| load(&disk, object).is_none()));
}

proptest! {
    #[test]
    fn no_change_of_a_record_goes_unnoticed(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        place in 0usize..10_000,
        bit in 0u8..8,
    ) {
        let object = object("key", "A: b\r\n", body);
        let record = encode_object(&object, 5).unwrap();
        let Ok(Record::Object { object: read, .. }) = decode(&record) else { panic!("it is a record") };
        prop_assert!(same(&read, &object));
        let mut changed = record.clone();
        let place = place % changed.len();
        changed[place] ^= 1 << bit;
        prop_assert!(decode(&changed).is_err());
        prop_assert!(decode(&record[..place]).is_err());
    }

    #[test]
    fn any_bytes_are_no_record(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err());
    }
}

#[test]
fn the_list_of_purges_does_not_grow_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path(), LIMIT);
    let (kept, purged) = (object("kept", "", vec![1]), object("purged", "", vec![2; 1000]));
    disk.keep(&kept);
    for _ in 0..12_000 {
        disk.keep(&purged);
        disk.purge(&PurgeScope::Key(purged.key().to_vec()));
    }
    disk.flush();
    let length = fs::metadata(directory.path().join("purges")).unwrap().len();
    assert!(length < 1_500_000, "{length}");
    drop(disk);
    let disk = open(directory.path(), LIMIT);
    assert!(load(&disk, &kept).is_some() && load(&disk, &purged).is_none());
}
