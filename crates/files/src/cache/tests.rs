//! Tests of the cache with a real directory: which entries are kept, shared and dropped, and when.

use std::fs;
use std::time::{Duration, Instant};

use touchstone_http::date::format_imf_fixdate;

use touchstone_http::content_coding::{AcceptEncoding, CodingPreference};

use super::response::WHOLE_BODY_BYTES;
use super::*;
use crate::coding::{CodingSource, twin_path};
use crate::compress::tests::decompress;
use crate::root::{ReadWhole, SymlinkPolicy, read_whole};

const LIMITS: CacheLimits = CacheLimits { files: 4, bytes: 1 << 20, file_bytes: 256 << 10 };

const CODINGS: CodingSettings =
    CodingSettings { order: ContentCoding::ALL, levels: [Some(5), Some(3), Some(6)], precompressed: true };

/// A directory of files with a cache in front of it.
struct Site {
    settings: CodingSettings,
    directory: tempfile::TempDir,
    root: Arc<Root>,
    cache: Arc<FileCache>,
}

impl Site {
    fn new(limits: CacheLimits) -> Site {
        Site::with_codings(limits, CodingSettings::OFF)
    }

    fn with_codings(limits: CacheLimits, settings: CodingSettings) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::new(directory.path(), SymlinkPolicy::Inside).unwrap());
        let (cache, problem) = FileCache::new(limits, &[settings]);
        assert!(problem.is_none(), "{problem:?}");
        Site { settings, directory, root, cache }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), content).unwrap();
    }

    /// Does the work of the server for a miss.
    fn load(&self, core: &mut CoreCache, path: &str, date: &DateSecond) -> Arc<PreparedResponse> {
        let ticket = self.cache.begin_read(self.directory.path());
        self.load_with(core, path, date, ticket)
    }

    fn load_with(
        &self,
        core: &mut CoreCache,
        path: &str,
        date: &DateSecond,
        ticket: ReadTicket,
    ) -> Arc<PreparedResponse> {
        let file_path = if path == "/" { "/index.html" } else { path };
        let opened = self.root.open(file_path.as_bytes()).unwrap();
        let ReadWhole::Complete(body) = read_whole(&opened.descriptor, opened.facts.size).unwrap() else {
            panic!("{path} could not be read at once");
        };
        let codings =
            self.settings.codings(&self.root, file_path.as_bytes(), &opened.facts, "text/html", true);
        let representation = Representation {
            facts: opened.facts,
            etag: opened.facts.etag().as_bytes().into(),
            last_modified: Some(format_imf_fixdate(opened.facts.modified_seconds)),
            is_made: false,
            content_type: "text/html".into(),
            cache_control: "".into(),
            content_coding: None,
            dictionary_coding: None,
            dictionary_for: None,
            vary: if codings.is_negotiable() { "Accept-Encoding" } else { "" },
            site_fields: Arc::from(&b"X-Site: yes\r\n"[..]),
        };
        let new = NewEntry {
            site: 0,
            path: path.as_bytes(),
            file_path: file_path.as_bytes(),
            root: self.root.clone(),
            representation,
            codings,
            validity: Validity::UntilChanged,
            body,
        };
        core.insert(new, ticket, ConnectionForm::Persistent, date).1
    }

    /// Does the work of the server for a request with Accept-Encoding. Returns the response and the number of
    /// forms that were made.
    fn answer(
        &self,
        core: &mut CoreCache,
        path: &str,
        accept: &str,
        date: &DateSecond,
    ) -> (Arc<PreparedResponse>, usize) {
        let accept = accepting(accept);
        let mut entries = 0;
        loop {
            if let Some(prepared) = core.hit(path.as_bytes(), accept, ConnectionForm::Persistent, date) {
                return (prepared.clone(), entries);
            }
            let Some((entry, _)) = core.entry(path.as_bytes(), ConnectionForm::Persistent, date) else {
                self.load(core, path, date);
                continue;
            };
            match entry.select(accept.preference(&self.settings.order), date, &self.cache) {
                Selection::Make(coding) => {
                    entries += 1;
                    self.make(&entry, coding, date);
                }
                Selection::Stale => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn make(&self, entry: &Arc<Entry>, coding: ContentCoding, date: &DateSecond) {
        let EncodingStart::Job(job) = entry.begin(coding, ConnectionForm::Persistent, date, &self.cache)
        else {
            panic!("{coding:?} is taken");
        };
        match job.source() {
            CodingSource::Compress { .. } => job.compress().unwrap(),
            CodingSource::Twin(facts) => {
                let twin = self.root.open(&twin_path(entry.file_path(), coding)).unwrap();
                let ReadWhole::Complete(body) = read_whole(&twin.descriptor, twin.facts.size).unwrap() else {
                    panic!("the twin could not be read at once");
                };
                job.keep_twin(&facts, &body);
            }
        }
    }
}

const BROWSER: &str = "gzip, deflate, br, zstd";

fn accepting(value: &str) -> AcceptEncoding {
    let mut accept = AcceptEncoding::ABSENT;
    accept.add(value.as_bytes());
    accept
}

/// A field of a prepared head.
fn field(prepared: &PreparedResponse, name: &str) -> Option<String> {
    let head = String::from_utf8(prepared.head().to_vec()).unwrap();
    let start = format!("{name}: ");
    head.split("\r\n").find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
}

fn page(length: usize) -> Vec<u8> {
    b"<p>A paragraph like the others.</p>\n".iter().copied().cycle().take(length).collect()
}

fn second(unix_seconds: i64) -> DateSecond {
    DateSecond { unix_seconds, text: format_imf_fixdate(unix_seconds) }
}

fn body_of(core: &mut CoreCache, path: &str, date: &DateSecond) -> Option<Vec<u8>> {
    core.hit(path.as_bytes(), AcceptEncoding::ABSENT, ConnectionForm::Persistent, date)
        .map(|prepared| prepared.body().to_vec())
}

/// Waits for the watcher, which runs on its own thread.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < patience, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_response_is_whole_and_each_variant_states_its_connection() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let date = second(784_111_777);
    site.load(core, "/a", &date);
    for (form, line) in [
        (ConnectionForm::Persistent, ""),
        (ConnectionForm::KeepAlive, "keep-alive"),
        (ConnectionForm::Close, "close"),
    ] {
        let prepared = core.hit(b"/a", AcceptEncoding::ABSENT, form, &date).unwrap();
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
    let later =
        core.hit(b"/long", AcceptEncoding::ABSENT, ConnectionForm::Close, &second(2)).unwrap().clone();
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
    let next =
        core.hit(b"/a", AcceptEncoding::ABSENT, ConnectionForm::Persistent, &second(2)).unwrap().clone();
    assert!(String::from_utf8_lossy(next.head()).contains("00:00:02 GMT"));
    assert_eq!(first.body(), next.body());
    // A connection that still writes the old one can continue.
    assert!(String::from_utf8_lossy(first.head()).contains("00:00:01 GMT"));
}

#[test]
fn cores_share_one_copy() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let (one, two) = (&mut CoreCache::new(site.cache.clone(), 0), &mut CoreCache::new(site.cache.clone(), 0));
    site.load(one, "/a", &second(1));
    for now in [1, 2] {
        let first =
            one.hit(b"/a", AcceptEncoding::ABSENT, ConnectionForm::Persistent, &second(now)).unwrap().clone();
        let second =
            two.hit(b"/a", AcceptEncoding::ABSENT, ConnectionForm::Persistent, &second(now)).unwrap();
        assert!(Arc::ptr_eq(&first, second));
    }
}

#[test]
fn sites_do_not_share_paths() {
    let site = Site::new(LIMITS);
    site.write("a", "hello");
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    assert!(
        CoreCache::new(site.cache.clone(), 1)
            .hit(b"/a", AcceptEncoding::ABSENT, ConnectionForm::Persistent, &second(1))
            .is_none()
    );
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
    // The caller gets its answer, but the cache does not keep it.
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
    // All files are written before one is cached. Otherwise the events of writing would drop entries.
    site.cache.begin_read(site.directory.path());
    std::thread::sleep(Duration::from_millis(50));
    for name in ["/a", "/b", "/c", "/d"] {
        site.load(core, name, &second(1));
    }
    assert!(body_of(core, "/a", &second(1)).is_some());
    site.load(core, "/e", &second(1));
    core.tick();
    assert!(body_of(core, "/a", &second(1)).is_some(), "used since it was inserted");
    assert!(body_of(core, "/b", &second(1)).is_none(), "the oldest that was not used");
    assert_eq!(site.cache.counters().files, 4);
    assert_eq!(site.cache.counters().evictions, 1);
}

#[test]
fn a_newcomer_is_not_its_own_victim() {
    let site = Site::new(LIMITS);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        site.write(name, name);
    }
    site.cache.begin_read(site.directory.path());
    std::thread::sleep(Duration::from_millis(50));
    for name in ["/a", "/b", "/c", "/d"] {
        site.load(core, name, &second(1));
        assert!(body_of(core, name, &second(1)).is_some());
    }
    // All are marked as used, so the hand goes round once before it drops one.
    for name in ["/e", "/f", "/g"] {
        site.load(core, name, &second(1));
        assert!(body_of(core, name, &second(1)).is_some(), "{name}");
    }
    assert_eq!(site.cache.counters().files, 4);
}

#[test]
fn bytes_are_limited_and_released() {
    let site = Site::new(CacheLimits { files: 100, bytes: 40_000, file_bytes: 20_000 });
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for index in 0..20 {
        site.write(&format!("f{index}"), vec![b'x'; 5_000]);
    }
    std::thread::sleep(Duration::from_millis(50));
    for index in 0..20 {
        site.load(core, &format!("/f{index}"), &second(1));
        core.hit(format!("/f{index}").as_bytes(), AcceptEncoding::ABSENT, ConnectionForm::Close, &second(1));
        assert!(site.cache.counters().bytes <= 40_000 + 6_000, "{:?}", site.cache.counters());
    }
    assert!(site.cache.admits(20_000) && !site.cache.admits(20_001) && !site.cache.admits(40_000));
    for index in 0..20 {
        fs::remove_file(site.directory.path().join(format!("f{index}"))).unwrap();
    }
    eventually("the cache to be empty", || site.cache.counters().files == 0);
    assert_eq!(site.cache.counters().bytes, 0);
    core.tick();
    assert!(core.is_empty());
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

#[test]
fn each_coding_is_made_once_and_named_in_its_fields() {
    let site = Site::with_codings(LIMITS, CODINGS);
    let lengths = [5_000, WHOLE_BODY_BYTES * 3];
    // All are written before the first one is read. From then on the directory is watched.
    for length in lengths {
        site.write(&format!("p{length}"), page(length));
    }
    for length in lengths {
        let path = format!("/p{length}");
        let (one, two) =
            (&mut CoreCache::new(site.cache.clone(), 0), &mut CoreCache::new(site.cache.clone(), 0));
        let before = site.cache.counters().compressions;
        let mut tags = vec![field(&site.load(one, &path, &second(1)), "ETag").unwrap()];
        for (accept, coding) in [
            (BROWSER, ContentCoding::Brotli),
            ("zstd, gzip;q=0.5", ContentCoding::Zstd),
            ("gzip", ContentCoding::Gzip),
        ] {
            let (first, made) = site.answer(one, &path, accept, &second(1));
            assert_eq!(made, 1, "{accept}");
            assert_eq!(field(&first, "Content-Encoding").as_deref(), Some(coding.token()));
            assert_eq!(field(&first, "Vary").as_deref(), Some("Accept-Encoding"));
            assert_eq!(field(&first, "X-Site").as_deref(), Some("yes"));
            assert_eq!(field(&first, "Accept-Ranges"), None);
            assert_eq!(field(&first, "Content-Length").unwrap(), first.body_length().to_string());
            assert!(decompress(coding, first.body()).unwrap() == page(length), "{accept}");
            tags.push(field(&first, "ETag").unwrap());
            // In the next second, and on another core, nothing is made again, and a browser's request is a
            // plain hit.
            for now in [1, 2] {
                let (again, made) = site.answer(two, &path, accept, &second(now));
                assert_eq!((again.body(), made), (first.body(), 0), "{accept}");
            }
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 4, "every representation has a tag of its own: {tags:?}");
        assert!(
            tags.iter()
                .all(|tag| tag.starts_with('"') && tag.ends_with('"') && tag.matches('"').count() == 2)
        );
        assert_eq!(site.cache.counters().compressions - before, 3);
        // A client that names no coding, or refuses all, gets the file.
        for accept in [AcceptEncoding::ABSENT, accepting(""), accepting("br;q=0"), accepting("identity")] {
            let plain = one.hit(path.as_bytes(), accept, ConnectionForm::Persistent, &second(2)).unwrap();
            assert!(plain.body() == page(length) && field(plain, "Content-Encoding").is_none());
            assert_eq!(field(plain, "Vary").as_deref(), Some("Accept-Encoding"));
        }
    }
}

#[test]
fn while_a_form_is_made_others_get_the_file_and_it_is_made_once() {
    let site = Site::with_codings(LIMITS, CODINGS);
    site.write("a", page(5_000));
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    let (entry, _) = core.entry(b"/a", ConnectionForm::Persistent, &second(1)).unwrap();
    let EncodingStart::Job(job) =
        entry.begin(ContentCoding::Brotli, ConnectionForm::Persistent, &second(1), &site.cache)
    else {
        panic!("the first must be allowed to begin");
    };
    let again = entry.begin(ContentCoding::Brotli, ConnectionForm::Persistent, &second(1), &site.cache);
    assert!(matches!(again, EncodingStart::AlreadyTaken));
    let meanwhile = core.hit(b"/a", accepting(BROWSER), ConnectionForm::Persistent, &second(1)).unwrap();
    assert!(meanwhile.body() == page(5_000));
    let choose = |accept: &str| {
        let preference = accepting(accept).preference(&ContentCoding::ALL);
        entry.select(preference, &second(1), &site.cache)
    };
    assert!(matches!(choose("br, identity;q=0"), Selection::Wait(ContentCoding::Brotli)));
    job.compress().unwrap();
    let done = core.hit(b"/a", accepting(BROWSER), ConnectionForm::Persistent, &second(1)).unwrap();
    assert_eq!(field(done, "Content-Encoding").as_deref(), Some("br"));
    assert!(matches!(choose("br, identity;q=0"), Selection::Final(_)));
    assert!(matches!(choose("identity;q=0"), Selection::NotAcceptable));
    assert_eq!(site.cache.counters().compressions, 1);
}

#[test]
fn a_job_that_is_given_up_leaves_the_file_as_it_is() {
    let site = Site::with_codings(LIMITS, CODINGS);
    site.write("a", page(5_000));
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    site.load(core, "/a", &second(1));
    let (entry, _) = core.entry(b"/a", ConnectionForm::Persistent, &second(1)).unwrap();
    for _ in 0..2 {
        // Dropping a job frees its place for compressing, so the cache is never busy here.
        drop(entry.begin(ContentCoding::Brotli, ConnectionForm::Persistent, &second(1), &site.cache));
    }
    let preference = CodingPreference::IDENTITY;
    assert!(matches!(entry.select(preference, &second(1), &site.cache), Selection::Final(_)));
    let (prepared, _) = site.answer(core, "/a", "br", &second(1));
    assert_eq!(field(&prepared, "Content-Encoding"), None);
    assert_eq!(site.cache.compressing.load(Ordering::Relaxed), 0);
}

#[test]
fn no_more_is_compressed_at_a_time_than_there_are_processors() {
    let site = Site::with_codings(CacheLimits { files: 1000, ..LIMITS }, CODINGS);
    let most = site.cache.most_compressing;
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    let mut jobs = Vec::new();
    for number in 0..=most {
        site.write(&format!("f{number}"), page(1_000));
    }
    for number in 0..=most {
        let path = format!("/f{number}");
        site.load(core, &path, &second(1));
        let (entry, _) = core.entry(path.as_bytes(), ConnectionForm::Persistent, &second(1)).unwrap();
        jobs.push(entry.begin(ContentCoding::Gzip, ConnectionForm::Persistent, &second(1), &site.cache));
    }
    assert!(jobs[..most].iter().all(|job| matches!(job, EncodingStart::Job(_))));
    assert!(matches!(jobs[most], EncodingStart::Busy));
    drop(jobs);
    assert_eq!(site.cache.compressing.load(Ordering::Relaxed), 0);
}

#[test]
fn what_does_not_shrink_is_tried_once() {
    let site = Site::with_codings(LIMITS, CODINGS);
    let mut state = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(3_000)
    .collect();
    site.write("a", &noise);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for round in [1, 0] {
        let (prepared, made) = site.answer(core, "/a", "gzip", &second(1));
        assert_eq!((prepared.body(), made), (&noise[..], round));
        assert_eq!(field(&prepared, "Content-Encoding"), None);
        assert_eq!(field(&prepared, "Vary").as_deref(), Some("Accept-Encoding"));
    }
}

#[test]
fn a_twin_is_served_and_its_changes_are_seen() {
    for watched in [true, false] {
        let site = Site::with_codings(LIMITS, CodingSettings { levels: [None; 3], ..CODINGS });
        if !watched {
            *lock(&site.cache.watcher) = None;
        }
        site.write("a.html", page(1_000));
        let core = &mut CoreCache::new(site.cache.clone(), 0);
        let mut now = 1;
        let mut body = |core: &mut CoreCache, expected: Option<&[u8]>| {
            let arrived = |core: &mut CoreCache, now| {
                let (prepared, _) = site.answer(core, "/a.html", BROWSER, &second(now));
                let coding = field(&prepared, "Content-Encoding");
                match expected {
                    Some(twin) => prepared.body() == twin && coding.as_deref() == Some("br"),
                    None => prepared.body() == page(1_000) && coding.is_none(),
                }
            };
            if watched {
                eventually("the change", || arrived(core, now));
            } else {
                now += 1;
                assert!(arrived(core, now));
            }
        };
        body(core, None);
        site.write("a.html.br", "first");
        body(core, Some(b"first"));
        site.write("a.html.br", "second!");
        body(core, Some(b"second!"));
        fs::remove_file(site.directory.path().join("a.html.br")).unwrap();
        body(core, None);
        // Once the cache has noticed that it is missing, no answer can vary.
        assert_eq!(field(&site.answer(core, "/a.html", "", &second(now)).0, "Vary"), None);
    }
}

#[test]
fn coded_forms_count_and_go_with_their_file() {
    let site = Site::with_codings(CacheLimits { files: 100, bytes: 60_000, file_bytes: 20_000 }, CODINGS);
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for number in 0..20 {
        site.write(&format!("f{number}"), page(4_000 + number));
    }
    std::thread::sleep(Duration::from_millis(50));
    for number in 0..20 {
        let path = format!("/f{number}");
        site.load(core, &path, &second(1));
        let before = site.cache.counters().bytes;
        site.answer(core, &path, "gzip", &second(1));
        let counters = site.cache.counters();
        assert!(counters.bytes > before || counters.evictions > 0, "{counters:?}");
        assert!(counters.bytes <= 60_000, "{counters:?}");
    }
    assert!(site.cache.counters().evictions > 0);
    for number in 0..20 {
        fs::remove_file(site.directory.path().join(format!("f{number}"))).unwrap();
    }
    eventually("the cache to be empty", || site.cache.counters().files == 0);
    assert_eq!(site.cache.counters().bytes, 0);
}

#[test]
fn ever_new_preferences_do_not_pile_up() {
    let site = Site::with_codings(LIMITS, CODINGS);
    site.write("a", page(1_000));
    let core = &mut CoreCache::new(site.cache.clone(), 0);
    for number in 0..200 {
        let accept = format!(
            "br;q=0.{:03}, zstd;q=0.{:03}, gzip;q=0.{:03}",
            number * 7 % 11,
            number * 5 % 13,
            number * 3 % 7
        );
        let (prepared, _) = site.answer(core, "/a", &accept, &second(1));
        assert!(prepared.body_length() <= 1_000);
    }
    assert!(core.most_remembered() <= 8);
    core.tick();
    assert!(site.cache.counters().compressions <= 3);
}
