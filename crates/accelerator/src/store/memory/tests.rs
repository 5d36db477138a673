use bytes::Bytes;
use proptest::prelude::*;
use touchstone_files::cache::{ConnectionForm, DateSecond};

use super::*;
use crate::rules::fields::FieldText;
use crate::rules::key::Target;
use crate::rules::policy::Policy;
use crate::rules::storing::Terms;
use crate::store::{NewObject, PlainRequest, StoredAnswers};

fn object(key: &str, fields: &str, body: usize) -> Arc<Object> {
    let key = [&0u64.to_le_bytes()[..], key.as_bytes()].concat();
    let terms = Terms { response_time: 100, date: 100, lifetime: 50, ..Terms::default() };
    Arc::new(Object::new(NewObject {
        hash: hash_of(&key),
        key: &key,
        selector: &[],
        status: 200,
        terms,
        fields: fields.as_bytes(),
        part: None,
        trailers: b"",
        body: &[Bytes::from(vec![b'x'; body])],
    }))
}

fn get(store: &Store, key: &str) -> Option<Arc<Object>> {
    let key = [&0u64.to_le_bytes()[..], key.as_bytes()].concat();
    store.under(hash_of(&key), &key).pop()
}

fn second(unix_seconds: i64) -> DateSecond {
    DateSecond { unix_seconds, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" }
}

#[test]
fn what_is_put_in_is_found_until_it_is_replaced() {
    let store = Store::new(1 << 20, None);
    let first = object("a", "X: 1\r\n", 10);
    assert!(store.insert(first.clone(), 0));
    assert_eq!(get(&store, "a").unwrap().fields(), b"X: 1\r\n");
    assert!(store.insert(object("a", "X: 2\r\n", 100_000), 0));
    assert_eq!(first.state(), State::Gone);
    let found = get(&store, "a").unwrap();
    assert_eq!((found.fields(), found.body().len()), (&b"X: 2\r\n"[..], 100_000));
    assert_eq!(store.counters().objects, 1);
    assert_eq!(store.counters().bytes, found.bytes());
    store.remove(&found);
    assert_eq!((store.counters().objects, store.counters().bytes), (0, 0));
}

#[test]
fn a_copy_from_disk_does_not_replace_what_was_stored_meanwhile() {
    let store = Store::new(1 << 20, None);
    store.promote(object("a", "X: disk\r\n", 10), 0);
    assert_eq!(get(&store, "a").unwrap().fields(), b"X: disk\r\n");
    assert!(store.insert(object("a", "X: newer\r\n", 10), 0));
    store.promote(object("a", "X: disk\r\n", 10), 0);
    assert_eq!(get(&store, "a").unwrap().fields(), b"X: newer\r\n");
    assert_eq!(store.counters().objects, 1);
}

#[test]
fn a_scan_does_not_displace_what_is_used() {
    let store = Store::new(100_000, None);
    for index in 0..20 {
        store.insert(object(&format!("used{index}"), "", 1000), 0);
    }
    for round in 0..2000 {
        (0..20)
            .filter_map(|index| get(&store, &format!("used{index}")))
            .for_each(|object| object.mark_used());
        store.insert(object(&format!("once{round}"), "", 1000), 0);
        assert!(store.counters().bytes <= 100_000);
    }
    let stayed = (0..20).filter(|index| get(&store, &format!("used{index}")).is_some()).count();
    assert_eq!(stayed, 20);
    assert!(store.counters().evictions > 1000);
}

#[test]
fn a_large_object_must_be_asked_for_twice_when_memory_is_full() {
    let store = Store::new(1_000_000, None);
    for index in 0..2000 {
        store.insert(object(&format!("{index}"), "", 1000), 0);
    }
    assert!(!store.insert(object("large", "", 200_000), 0));
    assert!(store.insert(object("large", "", 200_000), 0));
    assert!(!store.insert(object("larger than all", "", 2_000_000), 0));
    assert_eq!(store.counters().refused, 2);
}

#[test]
fn purges_take_what_they_name() {
    let keys =
        |store: &Store| -> Vec<bool> { ["ha/1", "ha/2", "hb/1"].map(|key| get(store, key).is_some()).into() };
    let filled = || {
        let store = Store::new(1 << 20, None);
        store.insert(object("ha/1", "Surrogate-Key: x y\r\n", 1), 0);
        store.insert(object("ha/2", "Cache-Tag: y,z\r\n", 1), 0);
        store.insert(object("hb/1", "", 1), 0);
        store
    };
    let key = |text: &str| [&0u64.to_le_bytes()[..], text.as_bytes()].concat();
    for (purge, left) in [
        (PurgeScope::Key(key("ha/1")), [false, true, true]),
        (PurgeScope::Prefix(key("ha/")), [false, false, true]),
        (PurgeScope::Path { path: b"/1".to_vec(), is_prefix: false }, [false, true, false]),
        (PurgeScope::Path { path: b"/".to_vec(), is_prefix: true }, [false; 3]),
        (PurgeScope::Tag(b"y".to_vec()), [false, false, true]),
        (PurgeScope::Tag(b"z".to_vec()), [true, false, true]),
        (PurgeScope::Space(0), [false; 3]),
        (PurgeScope::Space(1), [true; 3]),
        (PurgeScope::All, [false; 3]),
    ] {
        let store = filled();
        let found = store.purge(&purge, PurgeMode::Remove);
        assert_eq!(keys(&store), left, "{purge:?}");
        assert_eq!(found, left.iter().filter(|&&is_left| !is_left).count());
        let store = filled();
        assert_eq!(store.purge(&purge, PurgeMode::Soft), found);
        let soft = |key| get(&store, key).unwrap().state() == State::SoftPurged;
        assert_eq!(["ha/1", "ha/2", "hb/1"].map(soft), left.map(|is_left| !is_left));
    }
}

#[test]
fn what_was_on_its_way_during_a_purge_is_not_stored() {
    let store = Arc::new(Store::new(1 << 20, None));
    let fetching = store.begin_fetch(object("a", "", 1).hash);
    let before = fetching.purge_count();
    store.purge(&PurgeScope::Tag(b"x".to_vec()), PurgeMode::Remove);
    assert!(!store.insert(object("a", "Surrogate-Key: x\r\n", 1), before));
    assert!(store.insert(object("a", "Surrogate-Key: y\r\n", 1), before));
    assert!(store.insert(object("a", "Surrogate-Key: x\r\n", 1), store.begin_fetch(0).purge_count()));
    // Any number of purges of other keys, such as those of a flood of POST requests, displaces no purge of
    // this one.
    for number in 0..MOST_REMEMBERED * 2 {
        store.purge(&PurgeScope::Key(format!("other {number}").into_bytes()), PurgeMode::Remove);
    }
    assert!(store.insert(object("a", "Surrogate-Key: y\r\n", 1), before));
    store.purge(&PurgeScope::Key(object("a", "", 1).key().to_vec()), PurgeMode::Remove);
    assert!(!store.insert(object("a", "Surrogate-Key: y\r\n", 1), before));
    for _ in 0..MOST_REMEMBERED {
        store.purge(&PurgeScope::Tag(b"other".to_vec()), PurgeMode::Remove);
    }
    assert!(!store.insert(object("a", "Surrogate-Key: z\r\n", 1), before));
}

#[test]
fn a_purge_that_is_not_the_callers_own_is_noticed() {
    let store = Arc::new(Store::new(1 << 20, None));
    let stored = object("ha/a", "", 1);
    let purge = |purge| store.purge(&purge, PurgeMode::Remove);
    let own = || PurgeScope::Key(stored.key().to_vec());
    for (others, is_other) in [
        (vec![], false),
        (vec![PurgeScope::Key(b"other".to_vec()), PurgeScope::Space(1)], false),
        (vec![own()], true),
        (vec![PurgeScope::Tag(b"x".to_vec())], true),
        (vec![PurgeScope::Path { path: b"/a".to_vec(), is_prefix: false }], true),
        (vec![PurgeScope::All], true),
    ] {
        let fetching = store.begin_fetch(stored.hash);
        let is_outdated = || store.is_outdated(stored.hash, stored.key(), fetching.purge_count());
        assert!(!is_outdated());
        others.iter().for_each(|other| _ = purge(other.clone()));
        assert_eq!(is_outdated(), is_other, "{others:?}");
        purge(own());
        assert_eq!(store.begin_again(&fetching, stored.key(), 1).is_none(), is_other, "{others:?}");
    }
}

#[test]
fn a_core_returns_fresh_objects_and_evicts_unused_ones() {
    let store = Arc::new(Store::new(1 << 20, None));
    let mut stored_answers = StoredAnswers::new(store.clone());
    let stored = object("ha/", "X: 1\r\n", 5);
    store.insert(stored.clone(), 0);
    let target = Target { space: 0, is_secure: false, host: b"a", path: b"/", query: None };
    let policy = Policy::default();
    let plain = |fields| PlainRequest {
        target,
        fields: FieldText(fields),
        may_be_known: false,
        policy: &policy,
        site_fields: b"S: 1\r\n",
        added: None,
    };
    let prepared = stored_answers.hit(plain(b""), ConnectionForm::Close, &second(110)).unwrap();
    let expected = "HTTP/1.1 200 OK\r\nServer: touchstone\r\nDate: Thu, 01 Jan 1970 00:01:40 GMT\r\n\
        X: 1\r\nAge: 10\r\n\
        Cache-Status: touchstone; hit; ttl=40\r\nS: 1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nxxxxx";
    assert_eq!(String::from_utf8_lossy(prepared.first_buffer()), expected);
    assert!(
        stored_answers
            .hit(plain(b"Cache-Control: no-cache\r\n"), ConnectionForm::Close, &second(110))
            .is_none()
    );
    assert!(
        stored_answers.hit(plain(b"Authorization: x\r\n"), ConnectionForm::Close, &second(110)).is_none()
    );
    assert!(stored_answers.hit(plain(b""), ConnectionForm::Persistent, &second(149)).is_some());
    assert!(stored_answers.hit(plain(b""), ConnectionForm::Persistent, &second(150)).is_none());
    stored_answers.tick();
    assert_eq!(stored_answers.len(), 1);
    stored_answers.tick();
    assert!(stored_answers.is_empty());
    assert!(stored_answers.hit(plain(b""), ConnectionForm::Persistent, &second(120)).is_some());
    store.purge(&PurgeScope::All, PurgeMode::Remove);
    assert!(stored_answers.hit(plain(b""), ConnectionForm::Persistent, &second(120)).is_none());
}

/// Stated in docs/accelerator.md: the cost of a small object besides its own bytes.
#[test]
fn an_object_costs_little_beside_its_own_bytes() {
    let fields = "Content-Type: text/plain\r\nCache-Control: max-age=60\r\n";
    let small = object("hexample.org/a/path/of/some/length", fields, 100);
    let own = (small.key().len() + fields.len() + 100) as u64;
    assert!(small.bytes() - own <= 240, "{} bytes beside its own", small.bytes() - own);
}

proptest! {
    #[test]
    fn the_budget_holds_and_the_figures_agree(
        steps in proptest::collection::vec((0usize..30, 0usize..3000, 0u8..4), 1..200),
    ) {
        let store = Store::new(30_000, None);
        for (key, size, action) in steps {
            let name = format!("{key}");
            match action {
                0 => _ = get(&store, &name).map(|object| object.mark_used()),
                1 => _ = get(&store, &name).map(|object| store.remove(&object)),
                _ => _ = store.insert(object(&name, "", size), 0),
            }
            let found: Vec<Arc<Object>> = (0..30).filter_map(|key| get(&store, &format!("{key}"))).collect();
            let counters = store.counters();
            prop_assert_eq!(counters.objects, found.len() as u64);
            prop_assert_eq!(counters.bytes, found.iter().map(|object| object.bytes()).sum::<u64>());
            prop_assert!(counters.bytes <= 30_000);
        }
    }
}
