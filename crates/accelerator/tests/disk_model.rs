//! Compares copies on disk with a model of what may be found: after any sequence of keeping, purging, writing
//! and restarting, no response is returned that was purged or replaced.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::store::{NewObject, Object, PurgeScope, Tier, hash_of};

/// So small that files are dropped often.
const LIMIT_BYTES: u64 = 8 << 20;

const KEYS: u64 = 20;

#[derive(Debug, Clone)]
enum Step {
    Keep(u64, usize),
    PurgeKey(u64),
    PurgeHalf(u64),
    PurgeTag(u64),
    PurgeAll,
    /// The directory is removed, or only the list of purges.
    TakeAway,
    TakeListAway,
    Load(u64),
    Flush,
    Restart,
}

fn steps() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    prop_oneof![
        8 => (key.clone(), 0_usize..400_000).prop_map(|(key, length)| Step::Keep(key, length)),
        2 => key.clone().prop_map(Step::PurgeKey),
        1 => (0_u64..2).prop_map(Step::PurgeHalf),
        1 => (0_u64..3).prop_map(Step::PurgeTag),
        1 => Just(Step::PurgeAll),
        1 => Just(Step::TakeAway),
        1 => Just(Step::TakeListAway),
        6 => key.prop_map(Step::Load),
        2 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ]
}

fn name(key: u64) -> String {
    format!("{}/{key}", key % 2)
}

fn body(key: u64, version: u64, length: usize) -> Vec<u8> {
    format!("{key} {version} ").bytes().cycle().take(length).collect()
}

fn object(key: u64, version: u64, length: usize) -> Arc<Object> {
    let text = name(key);
    Arc::new(Object::new(NewObject {
        hash: hash_of(text.as_bytes()),
        key: text.as_bytes(),
        selector: b"",
        status: 200,
        terms: Terms { lifetime: 600, response_time: version as i64, ..Terms::default() },
        fields: format!("Cache-Tag: t{}\r\n", key % 3).as_bytes(),
        part: None,
        trailers: b"",
        body: &[Bytes::from(body(key, version, length))],
    }))
}

fn open(directory: &Path) -> Disk {
    Disk::open(directory, LIMIT_BYTES, |_, _| {}).unwrap()
}

/// The versions that may be found under a key.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    least: u64,
    latest: u64,
}

/// A response that is found must be a version that may be found.
fn check(disk: &Disk, key: u64, versions: &[Versions]) -> Result<(), TestCaseError> {
    let text = name(key);
    let found = disk.load(hash_of(text.as_bytes()), text.as_bytes());
    prop_assert!(found.len() <= 1, "{} versions of {}", found.len(), text);
    let Some(object) = found.first() else { return Ok(()) };
    let (version, may) = (object.terms.response_time as u64, versions[key as usize]);
    prop_assert!((may.least..=may.latest).contains(&version), "{} {}: {:?}", text, version, may);
    prop_assert!(object.body() == body(key, version, object.body().len()), "{} {}", text, version);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn it_never_gives_what_it_must_not(steps in vec(steps(), 1..120)) {
        let place = tempfile::tempdir().unwrap();
        let mut disk = open(place.path());
        let takes_list = steps.iter().any(|step| matches!(step, Step::TakeAway | Step::TakeListAway));
        let mut versions = [Versions::default(); KEYS as usize];
        for (number, step) in (1..).zip(steps) {
            let mut forget = |goes: &dyn Fn(u64) -> bool| {
                (0..KEYS).filter(|key| goes(*key)).for_each(|key| versions[key as usize].least = number + 1);
            };
            match step {
                Step::Keep(key, length) => {
                    disk.keep(&object(key, number, length));
                    versions[key as usize].latest = number;
                }
                Step::PurgeKey(key) => {
                    disk.purge(&PurgeScope::Key(name(key).into_bytes()));
                    forget(&|other| other == key);
                }
                Step::PurgeHalf(half) => {
                    disk.purge(&PurgeScope::Prefix(format!("{half}/").into_bytes()));
                    forget(&|other| other % 2 == half);
                }
                Step::PurgeTag(tag) => {
                    disk.purge(&PurgeScope::Tag(format!("t{tag}").into_bytes()));
                    forget(&|other| other % 3 == tag);
                }
                Step::PurgeAll => {
                    disk.purge(&PurgeScope::All);
                    forget(&|_| true);
                }
                // Removal may fail while the writer makes the directory again.
                Step::TakeAway => _ = std::fs::remove_dir_all(place.path()),
                Step::TakeListAway => _ = std::fs::remove_file(place.path().join("purges")),
                Step::Load(key) => check(&disk, key, &versions)?,
                Step::Flush | Step::Restart => {
                    disk.flush();
                    if matches!(step, Step::Restart) {
                        drop(disk);
                        disk = open(place.path());
                    }
                    // Once the new version is written, the replaced one is not found any more.
                    versions.iter_mut().for_each(|may| may.least = may.least.max(may.latest));
                }
            }
        }
        disk.flush();
        for key in 0..KEYS {
            check(&disk, key, &versions)?;
        }
        let counters = disk.counters();
        // If there are files but no list of purges, the list counts as damaged.
        let corrupt = if takes_list { counters.corrupt } else { 0 };
        prop_assert!(counters.bytes <= LIMIT_BYTES && counters.corrupt == corrupt, "{:?}", counters);
    }
}
