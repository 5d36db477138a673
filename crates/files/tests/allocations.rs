//! A hit of the cache, and parsing the request before it, allocate nothing: counted by the allocator itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use touchstone_files::cache::{
    CacheLimits, CoreCache, DateSecond, FileCache, NewEntry, Representation, Variant,
};
use touchstone_files::root::{ReadWhole, Root, SymlinkPolicy, read_whole};
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::request::{Limits, Parsed, RequestHead};

struct Counting;

thread_local! {
    /// Allocations of this thread; other threads (the test runner's, the watcher's) are none of ours.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on unchanged to the system's allocator; the counter neither allocates nor panics.
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
    let (cache, _) = FileCache::new(CacheLimits { files: 9, bytes: 1 << 20, file_bytes: 1 << 16 });
    let mut core = CoreCache::new(cache.clone(), 0);
    let date = DateSecond { unix_seconds: 1, text: format_imf_fixdate(1) };
    let ticket = cache.begin_read(directory.path());
    let opened = root.open(b"/page.html").unwrap();
    let ReadWhole::Complete(body) = read_whole(&opened.descriptor, opened.facts.size).unwrap() else {
        panic!("the file is in memory")
    };
    let representation = Representation {
        facts: opened.facts,
        etag: opened.facts.etag().as_bytes().into(),
        last_modified: format_imf_fixdate(1),
        content_type: "text/html".into(),
        cache_control: "".into(),
    };
    let (path, file_path) = (b"/page.html", b"/page.html");
    core.insert(
        NewEntry { site: 0, path, file_path, root, representation, body },
        ticket,
        Variant::Persistent,
        &date,
    );
    let request = b"GET /page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a\r\nAccept: */*\r\n\r\n";
    let limits = Limits { request_line_bytes: 8192, header_bytes: 32768, header_fields: 100 };
    let mut head = RequestHead::new();
    // The first request makes room in the head's list of fields; the next ones find it.
    assert_eq!(head.parse(request, &limits), Ok(Parsed::Complete(request.len())));
    let count = allocations_of(|| {
        for _ in 0..100 {
            assert_eq!(head.parse(request, &limits), Ok(Parsed::Complete(request.len())));
            let prepared = core.hit(head.target.of(request), Variant::Persistent, &date);
            assert_eq!(prepared.map(|prepared| prepared.body_length()), Some(6250));
        }
    });
    assert_eq!(count, 0);
}
