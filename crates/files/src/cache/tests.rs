//! The cache against a real directory: what is kept, what is shared, what goes and when.

use std::fs;
use std::time::{Duration, Instant};

use touchstone_http::date::format_imf_fixdate;

use super::*;
use crate::root::{ReadWhole, SymlinkPolicy, read_whole};

const LIMITS: CacheLimits = CacheLimits { files: 4, bytes: 1 << 20, file_bytes: 256 << 10 };

/// A directory of files with a cache in front of it.
struct Site {
    directory: tempfile::TempDir,
    root: Arc<Root>,
    cache: Arc<FileCache>,
}

impl Site {
    fn new(limits: CacheLimits) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::new(directory.path(), SymlinkPolicy::Inside).unwrap());
        let (cache, problem) = FileCache::new(limits);
        assert!(problem.is_none(), "{problem:?}");
        Site { directory, root, cache }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), content).unwrap();
    }

    /// What the server does on a miss.
    fn load(&self, core: &mut CoreCache, path: &str, date: &DateSecond) -> Arc<Prepared> {
        let ticket = self.cache.begin_read(self.directory.path());
        self.load_with(core, path, date, ticket)
    }

    fn load_with(
        &self,
        core: &mut CoreCache,
        path: &str,
        date: &DateSecond,
        ticket: ReadTicket,
    ) -> Arc<Prepared> {
        let file_path = if path == "/" { "/index.html" } else { path };
        let opened = self.root.open(file_path.as_bytes()).unwrap();
        let ReadWhole::Complete(body) = read_whole(&opened.descriptor, opened.facts.size).unwrap() else {
            panic!("{path} could not be read at once");
        };
        let representation = Representation {
            facts: opened.facts,
            etag: opened.facts.etag().as_bytes().into(),
            last_modified: format_imf_fixdate(opened.facts.modified_seconds),
            content_type: "text/html".into(),
            cache_control: "".into(),
        };
        let new = NewEntry {
            site: 0,
            path: path.as_bytes(),
            file_path: file_path.as_bytes(),
            root: self.root.clone(),
            representation,
            body,
        };
        core.insert(new, ticket, Variant::Persistent, date).1
    }
}

fn second(unix_seconds: i64) -> DateSecond {
    DateSecond { unix_seconds, text: format_imf_fixdate(unix_seconds) }
}

fn body_of(core: &mut CoreCache, path: &str, date: &DateSecond) -> Option<Vec<u8>> {
    core.hit(path.as_bytes(), Variant::Persistent, date).map(|prepared| prepared.body().to_vec())
}

/// Waits for the watcher, which runs beside the test.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < patience, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_response_is_whole_and_each_variant_says_its_connection() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let date = second(784_111_777);
    site.load(core, "/a", &date);
    for (variant, line) in
        [(Variant::Persistent, ""), (Variant::KeepAlive, "keep-alive"), (Variant::Close, "close")]
    {
        let prepared = core.hit(b"/a", variant, &date).unwrap();
        let text = String::from_utf8(prepared.first_buffer().to_vec()).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 5\r\n"), "{text}");
        assert_eq!(text.contains("Connection:"), !line.is_empty());
        assert!(text.contains(line));
        assert!(text.ends_with("\r\n\r\nhello"), "{text}");
    }
}

#[test]
fn a_long_body_is_kept_once_for_all_seconds_and_variants() {
    let site = Site::new(LIMITS);
    site.write("long", vec![b'x'; WHOLE_BODY_BYTES + 1]);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let first = site.load(core, "/long", &second(1));
    let later = core.hit(b"/long", Variant::Close, &second(2)).unwrap().clone();
    assert_eq!(first.second_buffer().len(), WHOLE_BODY_BYTES + 1);
    assert!(std::ptr::eq(first.second_buffer(), later.second_buffer()));
    assert_eq!(later.first_buffer(), later.head());
}

#[test]
fn a_new_second_brings_a_new_date_and_the_same_body() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let first = site.load(core, "/a", &second(1));
    let next = core.hit(b"/a", Variant::Persistent, &second(2)).unwrap().clone();
    assert!(String::from_utf8_lossy(next.head()).contains("00:00:02 GMT"));
    assert_eq!(first.body(), next.body());
    // Whoever was still writing the old one can go on.
    assert!(String::from_utf8_lossy(first.head()).contains("00:00:01 GMT"));
}

#[test]
fn cores_share_one_copy() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let (one, two) = (&mut CoreCache::new(site.cache.clone(), 0), &mut CoreCache::new(site.cache.clone(), 0));
    site.load(one, "/a", &second(1));
    for now in [1, 2] {
        let first = one.hit(b"/a", Variant::Persistent, &second(now)).unwrap().clone();
        let second = two.hit(b"/a", Variant::Persistent, &second(now)).unwrap();
        assert!(Arc::ptr_eq(&first, second));
    }
}

#[test]
fn sites_do_not_share_paths() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    assert!(CoreCache::new(site.cache.clone(), 1).hit(b"/a", Variant::Persistent, &second(1)).is_none());
}

#[test]
fn the_watcher_drops_what_was_edited_within_the_same_second() {
    let site = Site::new(LIMITS);
    site.write("a", "old");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    site.write("a", "new");
    eventually("invalidation", || body_of(core, "/a", &second(1)).is_none());
    site.load(core, "/a", &second(1));
    assert_eq!(body_of(core, "/a", &second(1)).unwrap(), b"new");
    assert!(site.cache.counters().invalidations >= 1);
}

#[test]
fn another_index_file_drops_the_entry_of_its_directory() {
    let site = Site::new(LIMITS);
    site.write("index.html", "old");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/", &second(1));
    site.write("index.htm", "another");
    eventually("invalidation", || body_of(core, "/", &second(1)).is_none());
}

#[test]
fn without_the_watcher_a_new_second_finds_the_change() {
    let site = Site::new(LIMITS);
    *lock(&site.cache.watcher) = None;
    site.write("a", "old");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    site.write("a", "new!");
    assert_eq!(body_of(core, "/a", &second(1)).unwrap(), b"old");
    assert_eq!(body_of(core, "/a", &second(2)), None);
    fs::remove_file(site.directory.path().join("a")).unwrap();
    assert_eq!(body_of(core, "/a", &second(3)), None);
}

#[test]
fn a_change_between_opening_and_inserting_is_not_missed() {
    let site = Site::new(LIMITS);
    site.write("a", "old");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let ticket = site.cache.begin_read(site.directory.path());
    let before = site.cache.changes.load(Ordering::Acquire);
    site.write("b", "something else in the directory");
    eventually("the event", || site.cache.changes.load(Ordering::Acquire) > before);
    // The caller gets its answer, but nobody keeps it.
    assert_eq!(site.load_with(core, "/a", &second(1), ticket).body(), b"old");
    assert_eq!(body_of(core, "/a", &second(1)), None);
    assert_eq!(site.cache.counters().files, 0);
}

#[test]
fn eviction_spares_what_was_used() {
    let site = Site::new(LIMITS);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for name in ["a", "b", "c", "d", "e"] {
        site.write(name, name);
    }
    // Writing is over before anything is cached, or its own events would drop entries.
    site.cache.begin_read(site.directory.path());
    std::thread::sleep(Duration::from_millis(50));
    for name in ["/a", "/b", "/c", "/d"] {
        site.load(core, name, &second(1));
    }
    assert!(body_of(core, "/a", &second(1)).is_some());
    site.load(core, "/e", &second(1));
    core.tick();
    assert!(body_of(core, "/a", &second(1)).is_some(), "used since it came in");
    assert!(body_of(core, "/b", &second(1)).is_none(), "the oldest that was not used");
    assert_eq!(site.cache.counters().files, 4);
    assert_eq!(site.cache.counters().evictions, 1);
}

#[test]
fn a_newcomer_is_not_its_own_victim() {
    let site = Site::new(LIMITS);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for index in 0..12 {
        site.write(&format!("f{index}"), "x");
    }
    site.cache.begin_read(site.directory.path());
    std::thread::sleep(Duration::from_millis(50));
    // All are used, so that the hand passes over each and comes to the end of the queue.
    for index in 0..12 {
        let path = format!("/f{index}");
        site.load(core, &path, &second(1));
        assert!(body_of(core, &path, &second(1)).is_some(), "{path} was just loaded");
    }
    assert_eq!(site.cache.counters().files, 4);
    assert_eq!(site.cache.counters().evictions, 8);
}

#[test]
fn bytes_are_limited_and_given_back() {
    let site = Site::new(CacheLimits { files: 100, bytes: 40_000, file_bytes: 20_000 });
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for index in 0..20 {
        site.write(&format!("f{index}"), vec![b'x'; 5_000]);
    }
    std::thread::sleep(Duration::from_millis(50));
    for index in 0..20 {
        site.load(core, &format!("/f{index}"), &second(1));
        core.hit(format!("/f{index}").as_bytes(), Variant::Close, &second(1));
        assert!(site.cache.counters().bytes <= 40_000 + 6_000, "{:?}", site.cache.counters());
    }
    assert!(site.cache.admits(20_000) && !site.cache.admits(20_001) && !site.cache.admits(40_000));
    for index in 0..20 {
        fs::remove_file(site.directory.path().join(format!("f{index}"))).unwrap();
    }
    eventually("the cache to be empty", || site.cache.counters().files == 0);
    assert_eq!(site.cache.counters().bytes, 0);
    core.tick();
    assert!(core.slots.is_empty());
}

#[test]
fn many_threads_never_see_a_wrong_body() {
    let site = Site::new(CacheLimits { files: 3, bytes: 1 << 20, file_bytes: 1 << 20 });
    for index in 0..6 {
        site.write(&format!("f{index}"), format!("{index}").repeat(1000 + index));
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let site = &site;
            scope.spawn(move || {
                let core = &mut CoreCache::new(site.cache.clone(), 0);
                for round in 0..2000usize {
                    let index = (round * 7 + thread) % 6;
                    let (path, date) = (format!("/f{index}"), second((round / 100) as i64));
                    let body = match body_of(core, &path, &date) {
                        Some(body) => body,
                        None => site.load(core, &path, &date).body().to_vec(),
                    };
                    assert_eq!(body, format!("{index}").repeat(1000 + index).as_bytes());
                }
            });
        }
    });
    assert!(site.cache.counters().files <= 3);
}
