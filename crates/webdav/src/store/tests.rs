use std::fs;

use proptest::prelude::*;

use super::*;
use crate::xml::PropertyName;

fn lock(token: &str, key: &str, until: u64) -> Lock {
    Lock {
        token: token.to_string(),
        key: key.into(),
        href: key.to_string(),
        is_deep: true,
        is_exclusive: true,
        owner: String::new(),
        user: None,
        until,
    }
}

fn set(key: &str, local: &str, value: &str) -> Record {
    let name = PropertyName { namespace: "urn:x".to_string(), local: local.to_string() };
    Record::properties(key.into(), vec![(name, Some(value.to_string()))])
}

fn value(tables: &Tables, key: &str, local: &str) -> Option<String> {
    let name = PropertyName { namespace: "urn:x".to_string(), local: local.to_string() };
    tables.properties_of(key.as_bytes())?.get(&name).cloned()
}

/// A separate store for the same file, as in another process.
fn other(store: &Store) -> Store {
    Store {
        directory: store.directory.clone(),
        file: store.file.clone(),
        journal: Mutex::new(None),
        locks: AtomicU64::new(0),
    }
}

fn store(place: &tempfile::TempDir) -> Arc<Store> {
    let root = place.path().join("root");
    fs::create_dir_all(&root).unwrap();
    WebDavStores::default().open(&place.path().join("state"), &root).unwrap()
}

#[test]
fn processes_see_each_others_changes() {
    let place = tempfile::tempdir().unwrap();
    let one = store(&place);
    let two = other(&one);
    one.with(|session| session.add(set("/a", "p", "1"))).unwrap();
    two.with(|session| {
        assert_eq!(value(session.tables(), "/a", "p").as_deref(), Some("1"));
        session.add(Record::Lock(lock("t", "/a", u64::MAX)))
    })
    .unwrap();
    one.with(|session| {
        assert!(session.tables().lock("t").is_some());
        session.add(Record::Unlock { token: "t".to_string() })
    })
    .unwrap();
    two.with(|session| {
        assert!(session.tables().lock("t").is_none());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_line_that_was_cut_off_does_not_count() {
    let place = tempfile::tempdir().unwrap();
    let store = store(&place);
    store.with(|session| session.add(set("/a", "p", "1"))).unwrap();
    let mut text = fs::read(&store.file).unwrap();
    text.extend_from_slice(&set("/a", "p", "2").line()[..20]);
    fs::write(&store.file, &text).unwrap();
    let again = other(&store);
    again.with(|session| session.add(set("/b", "p", "3"))).unwrap();
    other(&store)
        .with(|session| {
            assert_eq!(value(session.tables(), "/a", "p").as_deref(), Some("1"));
            assert_eq!(value(session.tables(), "/b", "p").as_deref(), Some("3"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_damaged_file_is_an_error_with_its_line() {
    let place = tempfile::tempdir().unwrap();
    let store = store(&place);
    store.with(|session| session.add(set("/a", "p", "1"))).unwrap();
    let text = [&fs::read(&store.file).unwrap()[..], b"x\n"].concat();
    fs::write(&store.file, text).unwrap();
    let failure = other(&store).with(|_| Ok(())).unwrap_err();
    assert!(failure.detail.contains("line 3 is damaged"), "{}", failure.detail);
}

#[test]
fn the_file_does_not_grow_forever() {
    let place = tempfile::tempdir().unwrap();
    let one = store(&place);
    let two = other(&one);
    two.with(|_| Ok(())).unwrap();
    for index in 0..3000 {
        one.with(|session| {
            session.add(Record::Lock(lock("t", "/a", u64::MAX - index)))?;
            session.add(set("/b", "p", &index.to_string()).clone())
        })
        .unwrap();
    }
    let lines = fs::read(&one.file).unwrap().iter().filter(|&&byte| byte == b'\n').count();
    assert!(lines < 2 * 1024 + 10, "{lines} lines");
    two.with(|session| {
        assert_eq!(value(session.tables(), "/b", "p").as_deref(), Some("2999"));
        assert_eq!(session.tables().lock("t").unwrap().until, u64::MAX - 2999);
        Ok(())
    })
    .unwrap();
}

#[test]
fn locks_end_with_their_time() {
    let place = tempfile::tempdir().unwrap();
    let store = store(&place);
    store
        .with(|session| {
            session.add(Record::Lock(lock("over", "/a", unix_seconds() - 1)))?;
            session.add(Record::Lock(lock("holds", "/b", unix_seconds() + 1000)))
        })
        .unwrap();
    store
        .with(|session| {
            let tokens: Vec<_> = session.tables().locks().map(|lock| lock.token.clone()).collect();
            assert_eq!(tokens, ["holds"]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn properties_go_with_their_resources() {
    let mut tables = Tables::default();
    for record in [
        set("/a", "p", "1"),
        set("/a/b", "p", "2"),
        set("/ab", "p", "3"),
        set("/z", "old", "4"),
        Record::Lock(lock("in", "/a/b", u64::MAX)),
        Record::Lock(lock("beside", "/ab", u64::MAX)),
        Record::Copied { from: "/a".into(), to: "/c".into(), members: false },
        Record::Moved { from: "/a".into(), to: "/z".into() },
    ] {
        tables.apply(record);
    }
    assert_eq!(value(&tables, "/c", "p").as_deref(), Some("1"));
    assert_eq!(value(&tables, "/c/b", "p"), None);
    assert_eq!(value(&tables, "/z/b", "p").as_deref(), Some("2"));
    assert_eq!(value(&tables, "/z", "old"), None);
    assert_eq!(value(&tables, "/a", "p"), None);
    assert_eq!(value(&tables, "/ab", "p").as_deref(), Some("3"));
    assert_eq!(tables.locks().map(|lock| &*lock.token).collect::<Vec<_>>(), ["beside"]);
    tables.apply(Record::Removed { key: "/z".into() });
    assert_eq!(tables.property_count(), 2);
    tables.apply(Record::Created { key: "/c".into() });
    tables.apply(Record::Removed { key: "/ab".into() });
    assert_eq!((tables.property_count(), tables.property_bytes(), tables.line_count()), (0, 0, 0));
}

#[test]
fn the_state_may_not_lie_in_the_tree() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(&root, place.path().join("link")).unwrap();
    for inside in ["root", "root/state", "link/state", "root/../root/a/b"] {
        assert!(problem_of_state(&place.path().join(inside), &root).is_some(), "{inside}");
    }
    assert_eq!(problem_of_state(&place.path().join("state"), &root), None);
    assert_eq!(problem_of_state(&place.path().join("rooted/a"), &root), None);
}

proptest! {
    #[test]
    fn any_lines_are_read(bytes: Vec<u8>) {
        let _ = replay(&bytes);
    }

    #[test]
    fn a_line_reads_as_its_change(key: Vec<u8>, value in ".*", token in ".*") {
        let properties = Record::properties(
            key.clone(),
            vec![(PropertyName::dav("x"), Some(value)), (PropertyName::dav("y"), None)],
        );
        let mut created_lock = lock(&token, "", 7);
        created_lock.key = key.clone();
        for record in [
            properties,
            Record::Lock(created_lock),
            Record::Moved { from: key.clone(), to: b"/\xff%".to_vec() },
            Record::Removed { key },
        ] {
            let line = record.line();
            prop_assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            prop_assert_eq!(Record::parse(&line).unwrap(), record);
        }
    }
}
