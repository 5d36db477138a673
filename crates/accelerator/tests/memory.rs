//! What hits and stored responses cost: counted by the allocator itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_accelerator::rules::fields::FieldText;
use touchstone_accelerator::rules::key::{self, Target};
use touchstone_accelerator::rules::policy::Policy;
use touchstone_accelerator::rules::storing::Terms;
use touchstone_accelerator::rules::vary;
use touchstone_accelerator::store::{NewObject, Object, PlainRequest, Store, StoredAnswers, hash_of};
use touchstone_files::cache::{ConnectionForm, DateSecond};
use touchstone_http::date::format_imf_fixdate;

struct Counting;

thread_local! {
    /// Allocations of this thread, and the bytes that it holds.
    static ALLOCATIONS: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

/// What the C library's allocator really takes for so many bytes: a word before them, in steps of 16, at
/// least 32.
fn taken(layout: Layout) -> i64 {
    i64::try_from((layout.size() + 8).next_multiple_of(16).max(32)).unwrap_or(0)
}

fn count(allocations: u64, bytes: i64) {
    ALLOCATIONS.with(|counts| {
        let (number, held) = counts.get();
        counts.set((number + allocations, held + bytes));
    });
}

// SAFETY: every call is passed unchanged to the system's allocator; the counter neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, taken(layout));
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -taken(layout));
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const FIELDS: &[u8] = b"Content-Type: text/plain\r\nCache-Control: max-age=600\r\nVary: Accept-Language\r\n";

fn target(path: &str) -> Target<'_> {
    Target { space: 7, is_secure: false, host: b"www.example.org", path: path.as_bytes(), query: None }
}

fn object(path: &str, fields: &[u8], body: &Bytes) -> Object {
    let mut key = Vec::new();
    key::write_key(&target(path), &Policy::default(), &mut key);
    let selector = vary::selector(fields, FieldText(b"Accept-Language: de\r\n"), &Policy::default()).unwrap();
    Object::new(NewObject {
        hash: hash_of(&key),
        key: &key,
        selector: &selector,
        status: 200,
        terms: Terms { response_time: 100, date: 100, lifetime: 600, ..Terms::default() },
        fields,
        part: None,
        trailers: b"",
        body: std::slice::from_ref(body),
    })
}

#[test]
fn a_hit_allocates_nothing() {
    let store = Arc::new(Store::new(64 << 20, None));
    let body = Bytes::from(vec![b'x'; 6250]);
    store.insert(Arc::new(object("/page", &FIELDS[..53], &body)), 0);
    let mut stored_answers = StoredAnswers::new(store);
    let date = DateSecond { unix_seconds: 200, text: format_imf_fixdate(200) };
    let policy = Policy::default();
    let mut hit = || {
        let request = PlainRequest {
            target: target("/page"),
            fields: FieldText(b"Host: www.example.org\r\nUser-Agent: a\r\nAccept: */*\r\n"),
            may_be_known: false,
            policy: &policy,
            site_fields: b"",
            added: None,
        };
        let prepared = stored_answers.hit(request, ConnectionForm::Persistent, &date);
        assert_eq!(prepared.map(|prepared| prepared.body_length()), Some(6250));
    };
    // The first makes the response of the second.
    hit();
    let before = ALLOCATIONS.with(Cell::get).0;
    (0..100).for_each(|_| hit());
    assert_eq!(ALLOCATIONS.with(Cell::get).0 - before, 0);
}

/// Stated in docs/accelerator.md. Varnish 7 spends about 1,000 bytes on each object beside its own, nginx 128
/// bytes of shared memory and a file.
#[test]
fn a_small_response_takes_little_more_than_itself() {
    const OBJECTS: usize = 100_000;
    let store = Store::new(1 << 30, None);
    let body = Bytes::from(vec![b'x'; 100]);
    let before = ALLOCATIONS.with(Cell::get).1;
    for index in 0..OBJECTS {
        store.insert(Arc::new(object(&format!("/some/path/{index:08}"), FIELDS, &body)), 0);
    }
    let held = u64::try_from(ALLOCATIONS.with(Cell::get).1 - before).unwrap();
    let counters = store.counters();
    assert_eq!(counters.objects, OBJECTS as u64);
    let own = (8 + 1 + "www.example.org/some/path/00000000".len() + FIELDS.len() + 100) as u64;
    let (each, counted) = (held / OBJECTS as u64, counters.bytes / OBJECTS as u64);
    assert!(each <= own + 300, "{each} bytes each, {own} its own");
    // The memory that the budget counts is the memory really used, to within a tenth.
    assert!(counted.abs_diff(each) * 10 <= each, "{counted} counted, {each} taken");
}
