//! A cache hit and the parsing of its request allocate nothing: the test's allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use touchstone_files::cache::{
    CacheLimits, ConnectionForm, CoreCache, DateSecond, EncodingStart, FileCache, NewEntry, Representation,
    Validity,
};
use touchstone_files::coding::CodingSettings;
use touchstone_files::root::{ReadWhole, Root, SymlinkPolicy, read_whole};
use touchstone_http::content_coding::ContentCoding;
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::request::{Limits, Parsed, RequestHead};

struct Counting;

thread_local! {
    /// The allocations of this thread; those of other threads (the test runner's, the watcher's) do not
    /// count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; the counter neither allocates nor
// panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(Box::new(1u64)))), 1);
}

#[test]
fn parsing_and_hitting_allocate_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("page.html"), "x".repeat(6250)).unwrap();
    let root = Arc::new(Root::new(directory.path(), SymlinkPolicy::Inside).unwrap());
    let settings = CodingSettings { levels: [Some(5), Some(3), Some(6)], ..CodingSettings::OFF };
    let limits = CacheLimits { files: 9, bytes: 1 << 20, file_bytes: 1 << 16 };
    let (cache, _) = FileCache::new(limits, &[settings]);
    let mut core = CoreCache::new(cache.clone(), 0);
    let date = DateSecond { unix_seconds: 1, text: format_imf_fixdate(1) };
    let ticket = cache.begin_read(directory.path());
    let opened = root.open(b"/page.html").unwrap();
    let ReadWhole::Complete(body) = read_whole(&opened.descriptor, opened.facts.size).unwrap() else {
        panic!("the file is in memory")
    };
    let codings = settings.codings(&root, b"/page.html", &opened.facts, "text/html", true);
    let representation = Representation {
        facts: opened.facts,
        etag: opened.facts.etag().as_bytes().into(),
        last_modified: Some(format_imf_fixdate(1)),
        is_made: false,
        content_type: "text/html".into(),
        cache_control: "".into(),
        content_coding: None,
        dictionary_coding: None,
        dictionary_for: None,
        vary: "Accept-Encoding",
        site_fields: Arc::from(&b"X-Site: a\r\n"[..]),
    };
    let (path, file_path) = (b"/page.html", b"/page.html");
    core.insert(
        NewEntry {
            site: 0,
            path,
            file_path,
            root,
            representation,
            codings,
            validity: Validity::UntilChanged,
            body,
        },
        ticket,
        ConnectionForm::Persistent,
        &date,
    );
    let (entry, _) = core.entry(path, ConnectionForm::Persistent, &date).unwrap();
    let EncodingStart::Job(job) =
        entry.begin(ContentCoding::Brotli, ConnectionForm::Persistent, &date, &cache)
    else {
        panic!("no other request makes it")
    };
    job.compress().unwrap();
    let limits = Limits { request_line_bytes: 8192, header_bytes: 32768, header_fields: 100 };
    for (fields, is_coded) in [
        ("", false),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", true),
        ("Accept-Encoding: br;q=0.5\r\n", true),
    ] {
        let request = format!(
            "GET /page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a\r\nAccept: */*\r\n{fields}\r\n"
        );
        let request = request.as_bytes();
        let mut head = RequestHead::new();
        let mut hit = || {
            assert_eq!(head.parse(request, &limits), Ok(Parsed::Complete(request.len())));
            let accept_encoding = head.accept_encoding;
            let prepared =
                core.hit(head.target.of(request), accept_encoding, ConnectionForm::Persistent, &date);
            assert_eq!(prepared.map(|prepared| prepared.body_length() < 6250), Some(is_coded));
        };
        // The first request allocates the head's list of fields, and makes the choice; the next ones reuse
        // both.
        hit();
        let count = allocations_of(|| (0..100).for_each(|_| hit()));
        assert_eq!(count, 0, "{fields}");
    }
}
