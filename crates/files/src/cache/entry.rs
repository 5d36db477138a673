//! One cached file with its representations: the unchanged file, and its coded forms, which are made when
//! they are first requested.
//!
//! The possible codings of a file are known when it is opened ([`Codings`]). Each coded form is then made
//! once: the first request for it claims the work ([`Entry::begin`]) and waits for it, and other requests get
//! the unchanged file until the form is made. All forms are dropped together with the entry, so a change on
//! disk never leaves a coded form of an old version.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use touchstone_http::content_coding::{CodingPreference, ContentCoding};
use touchstone_http::dictionary::{AvailableDictionary, DictionaryCoding, DictionaryHash};
use touchstone_http::hexadecimal;

use super::response::{BodySource, ConnectionForm, DateSecond, PreparedResponse, Representation, prepare};
use super::{FileCache, Key, NewEntry, ReadTicket, Validity, lock};
use crate::coding::{CodingSource, Codings, PrecompressedFiles, suffixed_etag, twin_etag};
use crate::compress::compress;
use crate::dictionary::{self, has_room};
use crate::root::{FileFacts, Root};
use crate::watch::DirectoryId;

/// The memory of one entry besides its buffers: keys, counters, map slots. Measured once, rounded up.
const ENTRY_OVERHEAD_BYTES: u64 = 512;

/// The memory of each further representation besides its buffers.
const REPRESENTATION_OVERHEAD_BYTES: u64 = 256;

/// A coded form is kept only if it saves at least this much, because its own fields take about as much.
const LEAST_GAIN_BYTES: usize = 32;

/// One cached file, shared by all cores.
#[derive(Debug)]
pub struct Entry {
    pub(super) key: Key,
    root: Arc<Root>,
    /// The path below the root that was opened; differs from the key's for a directory's index file.
    pub(super) file_path: Box<[u8]>,
    pub(super) directory: Option<DirectoryId>,
    codings: Codings,
    /// The only second in which it is valid; `None`: it is valid until the file changes.
    only_second: Option<i64>,
    pub(super) stale: AtomicBool,
    pub(super) used: AtomicBool,
    /// The second in which the file was last compared with the disk.
    checked_second: AtomicI64,
    /// The same for its twins. They are compared only for requests that accept one.
    twins_checked_second: AtomicI64,
    identity: Arc<CachedForms>,
    coded: Mutex<[CodedState; 3]>,
    /// The forms that were made with a dictionary.
    with_dictionary: Mutex<Vec<DictionaryForm>>,
    account: Mutex<Account>,
}

/// The state of one coded form.
#[derive(Debug, Default)]
enum CodedState {
    /// It has not been requested yet.
    #[default]
    NotRequested,
    /// It is being made; these are the wakers of the requests that wait for it.
    InProgress(Vec<Waker>),
    /// It cannot be made, or saves too little.
    Useless,
    /// It has been made.
    Ready(Arc<CachedForms>),
}

/// The maximum number of forms of one file with different dictionaries. A client with a further dictionary
/// gets a form without one.
const MOST_DICTIONARY_FORMS: usize = 8;

/// A form made with a dictionary.
#[derive(Debug)]
struct DictionaryForm {
    hash: DictionaryHash,
    coding: DictionaryCoding,
    /// `None`: it is being made, cannot be made, or saves too little.
    cached: Option<Arc<CachedForms>>,
}

/// The result of [`Entry::select_with_dictionary`].
#[derive(Debug)]
pub enum DictionarySelection {
    /// The form is ready.
    Final(Arc<CachedForms>),
    /// It can be made, see [`Entry::begin_with_dictionary`].
    Make,
    /// Another form must be sent.
    None,
}

/// The bytes of an entry for the limit of the cache.
#[derive(Debug)]
struct Account {
    bytes: u64,
    /// The entry is not in the cache, or no longer in it, so its bytes are not counted.
    closed: bool,
}

/// The result of [`Entry::select`].
#[derive(Debug)]
pub enum Selection {
    /// The existing representation that the client prefers.
    Final(Arc<CachedForms>),
    /// The unchanged file, because the form that the client prefers is being made.
    Identity(Arc<CachedForms>),
    /// The client prefers this coding, and it is not being made yet: see [`Entry::begin`].
    Make(ContentCoding),
    /// This coding is being made, and the client accepts no other: see [`Entry::wait_for_coding`].
    Wait(ContentCoding),
    /// The client accepts none of the representations.
    NotAcceptable,
    /// The twins of the file have changed. The entry was dropped, and the caller must look it up again.
    Stale,
}

/// The result of [`Entry::begin`].
pub enum EncodingStart {
    /// The caller must do the work.
    Job(CodingJob),
    /// Another request has begun or finished the work in the meantime: select again.
    AlreadyTaken,
    /// The maximum number of compressions is already running.
    Busy,
}

impl Entry {
    pub(super) fn new(
        new: NewEntry<'_>,
        ticket: &ReadTicket,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Entry {
        Entry {
            key: Key { site: new.site, path: new.path.into() },
            root: new.root,
            file_path: new.file_path.into(),
            directory: ticket.directory,
            codings: new.codings,
            only_second: (new.validity == Validity::OneSecond).then_some(date.unix_seconds),
            stale: AtomicBool::new(false),
            used: AtomicBool::new(false),
            checked_second: AtomicI64::new(date.unix_seconds),
            twins_checked_second: AtomicI64::new(date.unix_seconds),
            identity: Arc::new(CachedForms::new(new.representation, &new.body, form, date)),
            coded: Mutex::default(),
            with_dictionary: Mutex::default(),
            account: Mutex::new(Account { bytes: 0, closed: true }),
        }
    }

    /// The representation without a coding.
    pub fn identity(&self) -> &Arc<CachedForms> {
        &self.identity
    }

    /// Chooses a representation for this preference.
    pub fn select(&self, preference: CodingPreference, date: &DateSecond, cache: &FileCache) -> Selection {
        if !self.twins_are_current(date, cache) {
            return Selection::Stale;
        }
        let coded = lock(&self.coded);
        let mut in_progress = None;
        for group in preference.groups() {
            // Of codings with equal weight, those with a twin come first.
            let (twins, others): (Vec<_>, Vec<_>) =
                group.codings().partition(|&coding| self.codings.twin(coding).is_some());
            for coding in twins.into_iter().chain(others) {
                match &coded[coding as usize] {
                    CodedState::NotRequested if self.codings.source(coding).is_none() => {}
                    CodedState::NotRequested => return Selection::Make(coding),
                    CodedState::InProgress(_) if preference.accepts_identity() => {
                        return Selection::Identity(self.identity.clone());
                    }
                    CodedState::InProgress(_) => in_progress = in_progress.or(Some(coding)),
                    CodedState::Useless => {}
                    CodedState::Ready(cached) => return Selection::Final(cached.clone()),
                }
            }
            if group.identity {
                return Selection::Final(self.identity.clone());
            }
        }
        match in_progress {
            Some(coding) => Selection::Wait(coding),
            // RFC 9110 section 12.4.1 lets a server ignore the field if there is only one representation.
            None if !self.codings.is_negotiable() => Selection::Final(self.identity.clone()),
            None => Selection::NotAcceptable,
        }
    }

    /// Claims the work of making a coded form.
    pub fn begin(
        self: &Arc<Entry>,
        coding: ContentCoding,
        form: ConnectionForm,
        date: &DateSecond,
        cache: &Arc<FileCache>,
    ) -> EncodingStart {
        let Some(source) = self.codings.source(coding) else { return EncodingStart::AlreadyTaken };
        let coded = &mut lock(&self.coded)[coding as usize];
        if !matches!(coded, CodedState::NotRequested) {
            return EncodingStart::AlreadyTaken;
        }
        let compresses = matches!(source, CodingSource::Compress { .. });
        if compresses && !cache.begin_compression() {
            return EncodingStart::Busy;
        }
        *coded = CodedState::InProgress(Vec::new());
        let (entry, cache, date) = (self.clone(), cache.clone(), *date);
        EncodingStart::Job(CodingJob { entry, cache, coding, source, form, date, result: None })
    }

    /// Chooses a form for a client that has a dictionary, without waiting for one that is being made.
    pub fn select_with_dictionary(
        &self,
        wanted: &AvailableDictionary,
        cache: &FileCache,
    ) -> DictionarySelection {
        let Some((coding, _, dictionary)) = self.dictionary_for(wanted, cache) else {
            return DictionarySelection::None;
        };
        let forms = lock(&self.with_dictionary);
        match forms.iter().find(|form| form.hash == wanted.hash && form.coding == coding) {
            Some(DictionaryForm { cached: Some(cached), .. }) => DictionarySelection::Final(cached.clone()),
            Some(_) => DictionarySelection::None,
            None if forms.len() >= MOST_DICTIONARY_FORMS || dictionary.is_empty() => {
                DictionarySelection::None
            }
            None => DictionarySelection::Make,
        }
    }

    /// Claims the work of making a form with a dictionary; `None`: it must not be made, or not now.
    pub fn begin_with_dictionary(
        self: &Arc<Entry>,
        wanted: &AvailableDictionary,
        form: ConnectionForm,
        date: &DateSecond,
        cache: &Arc<FileCache>,
    ) -> Option<DictionaryJob> {
        let (coding, level, dictionary) = self.dictionary_for(wanted, cache)?;
        let mut forms = lock(&self.with_dictionary);
        let is_known = forms.iter().any(|form| form.hash == wanted.hash && form.coding == coding);
        if is_known || forms.len() >= MOST_DICTIONARY_FORMS || !cache.begin_compression() {
            return None;
        }
        forms.push(DictionaryForm { hash: wanted.hash, coding, cached: None });
        let (entry, cache, hash) = (self.clone(), cache.clone(), wanted.hash);
        Some(DictionaryJob { entry, cache, hash, coding, level, dictionary, form, date: *date })
    }

    /// The coding, its level and the client's dictionary; `None`: no form is made with it.
    fn dictionary_for(
        &self,
        wanted: &AvailableDictionary,
        cache: &FileCache,
    ) -> Option<(DictionaryCoding, u8, Arc<[u8]>)> {
        self.identity.representation.dictionary_for.as_ref()?;
        let scope = cache.dictionary_scope(self.key.site)?;
        let order = cache.coding_order(self.key.site)?;
        let dictionary = cache.dictionaries.find(scope, &wanted.hash, &self.key.path)?;
        let length = self.identity.any_response()?.body_length();
        let mut codings = wanted.codings(&order);
        codings.find_map(|coding| {
            let level = self.codings.level(coding.plain())?;
            has_room(coding, &dictionary, length).then(|| (coding, level, dictionary.clone()))
        })
    }

    /// Waits until a coded form has been made, or making it has failed.
    pub async fn wait_for_coding(&self, coding: ContentCoding) {
        poll_fn(|context| match &mut lock(&self.coded)[coding as usize] {
            CodedState::InProgress(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
        .await;
    }

    /// The path below the root that was opened.
    pub fn file_path(&self) -> &[u8] {
        &self.file_path
    }

    /// Whether the file is unchanged. Checks the disk once a second. If the file has changed, the entry is
    /// dropped.
    pub(super) fn is_current(&self, date: &DateSecond, cache: &FileCache) -> bool {
        // Another core may already be in the next second. Its response is newer, not older.
        if self.only_second.is_some_and(|second| second < date.unix_seconds) {
            cache.expire(self);
            return false;
        }
        if self.checked_second.swap(date.unix_seconds, Ordering::Relaxed) == date.unix_seconds {
            return true;
        }
        let facts = self.root.facts(&self.file_path);
        let unchanged = facts.is_ok_and(|now| now.same_version(&self.identity.representation.facts));
        if !unchanged {
            cache.remove(self);
        }
        unchanged
    }

    fn twins_are_current(&self, date: &DateSecond, cache: &FileCache) -> bool {
        let Some(twins) = &self.codings.twins else { return true };
        if self.twins_checked_second.swap(date.unix_seconds, Ordering::Relaxed) == date.unix_seconds {
            return true;
        }
        let unchanged = PrecompressedFiles::find(&self.root, &self.file_path).same_version(twins);
        if !unchanged {
            cache.remove(self);
        }
        unchanged
    }

    /// Begins to count the entry's bytes. Returns its current bytes.
    pub(super) fn open_account(&self) -> u64 {
        let mut account = lock(&self.account);
        account.closed = false;
        account.bytes = ENTRY_OVERHEAD_BYTES + self.identity.bytes();
        account.bytes
    }

    /// Stops counting. Returns the counted bytes.
    pub(super) fn close_account(&self) -> u64 {
        let mut account = lock(&self.account);
        account.closed = true;
        std::mem::take(&mut account.bytes)
    }

    fn count(&self, bytes: u64, cache: &FileCache) {
        let mut account = lock(&self.account);
        if !account.closed {
            account.bytes += bytes;
            cache.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Sets the result of making a coded form, and wakes the requests that wait for it.
    fn settle(&self, coding: ContentCoding, outcome: CodedState) {
        let before = std::mem::replace(&mut lock(&self.coded)[coding as usize], outcome);
        if let CodedState::InProgress(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// A representation in the cache, with its prepared responses.
#[derive(Debug)]
pub struct CachedForms {
    representation: Representation,
    /// There is always at least one response. Its body is the content.
    by_form: Mutex<[Option<Arc<PreparedResponse>>; 3]>,
}

impl CachedForms {
    fn new(
        representation: Representation,
        body: &[u8],
        form: ConnectionForm,
        date: &DateSecond,
    ) -> CachedForms {
        let prepared = prepare(&representation, BodySource::new(body), form, date);
        let mut by_form = [None, None, None];
        by_form[form as usize] = Some(Arc::new(prepared));
        CachedForms { representation, by_form: Mutex::new(by_form) }
    }

    /// The representation.
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// The response for this second. The caller must have checked that its `entry` is current.
    pub fn response(
        &self,
        entry: &Entry,
        form: ConnectionForm,
        date: &DateSecond,
        cache: &FileCache,
    ) -> Arc<PreparedResponse> {
        let mut by_form = lock(&self.by_form);
        if let Some(ready) = &by_form[form as usize]
            && ready.second == date.unix_seconds
        {
            return ready.clone();
        }
        let source = by_form.iter().flatten().next();
        // `new` has built one response, and none is ever removed.
        let body = source.map_or(BodySource::Whole(b""), |source| source.body_source());
        let next = Arc::new(prepare(&self.representation, body, form, date));
        if by_form[form as usize].replace(next.clone()).is_none() {
            // Each further form of the head needs another buffer.
            entry.count(next.buffer_bytes(), cache);
        }
        next
    }

    fn any_response(&self) -> Option<Arc<PreparedResponse>> {
        lock(&self.by_form).iter().flatten().next().cloned()
    }

    fn bytes(&self) -> u64 {
        let by_form = lock(&self.by_form);
        let buffers: u64 = by_form.iter().flatten().map(|prepared| prepared.buffer_bytes()).sum();
        let long_body = by_form.iter().flatten().map(|prepared| prepared.second_buffer().len()).next();
        buffers + long_body.unwrap_or(0) as u64
    }
}

/// The work of making one coded form, claimed by [`Entry::begin`]. If it is dropped without a result, the
/// form is treated as one that cannot be made.
pub struct CodingJob {
    entry: Arc<Entry>,
    cache: Arc<FileCache>,
    coding: ContentCoding,
    source: CodingSource,
    form: ConnectionForm,
    date: DateSecond,
    result: Option<Arc<CachedForms>>,
}

impl CodingJob {
    /// The coding.
    pub fn coding(&self) -> ContentCoding {
        self.coding
    }

    /// The source of the form. The caller reads a twin and calls [`CodingJob::keep_twin`]; otherwise it calls
    /// [`CodingJob::compress`].
    pub fn source(&self) -> CodingSource {
        self.source
    }

    /// Compresses the file. This may take long and must not be called on an event loop.
    ///
    /// # Errors
    /// The coder's error. The form is then treated as one that cannot be made.
    pub fn compress(mut self) -> io::Result<()> {
        let CodingSource::Compress { level } = self.source else { return Ok(()) };
        let Some(plain) = self.entry.identity.any_response() else { return Ok(()) };
        let body = compress(self.coding, level, plain.body())?;
        self.cache.compressions.fetch_add(1, Ordering::Relaxed);
        if body.len() + LEAST_GAIN_BYTES <= plain.body_length() {
            // The level is part of the tag, because another level gives other bytes.
            let suffix = format!("{}{level}", self.coding.token());
            let etag = suffixed_etag(&self.entry.identity.representation.etag, &suffix);
            self.keep(etag, &body);
        }
        Ok(())
    }

    /// Keeps the content of a twin, which was read from the file with these facts.
    pub fn keep_twin(mut self, facts: &FileFacts, body: &[u8]) {
        self.keep(twin_etag(facts, self.coding), body);
    }

    fn keep(&mut self, etag: Box<[u8]>, body: &[u8]) {
        let representation = Representation {
            etag,
            content_coding: Some(self.coding),
            ..self.entry.identity.representation.clone()
        };
        let cached = Arc::new(CachedForms::new(representation, body, self.form, &self.date));
        // A request waits for it, so it must not be the first entry that is evicted.
        self.entry.used.store(true, Ordering::Relaxed);
        self.entry.count(REPRESENTATION_OVERHEAD_BYTES + cached.bytes(), &self.cache);
        self.result = Some(cached);
    }
}

/// The work of making a form with a dictionary, claimed by [`Entry::begin_with_dictionary`]. If it is dropped
/// without a result, the form is treated as one that cannot be made.
pub struct DictionaryJob {
    entry: Arc<Entry>,
    cache: Arc<FileCache>,
    hash: DictionaryHash,
    coding: DictionaryCoding,
    level: u8,
    dictionary: Arc<[u8]>,
    form: ConnectionForm,
    date: DateSecond,
}

impl DictionaryJob {
    /// Compresses the file. This may take long and must not be called on an event loop.
    ///
    /// # Errors
    /// The coder's error. The form is then treated as one that cannot be made.
    pub fn compress(self) -> io::Result<()> {
        let Some(plain) = self.entry.identity.any_response() else { return Ok(()) };
        let body = dictionary::compress(self.coding, self.level, &self.dictionary, plain.body())?;
        self.cache.compressions.fetch_add(1, Ordering::Relaxed);
        if body.len() + LEAST_GAIN_BYTES > plain.body_length() {
            return Ok(());
        }
        let of_dictionary = hexadecimal::encode(&self.hash[..8]);
        let suffix = format!("{}{}-{of_dictionary}", self.coding.token(), self.level);
        let identity = &self.entry.identity.representation;
        let representation = Representation {
            etag: suffixed_etag(&identity.etag, &suffix),
            content_coding: Some(self.coding.plain()),
            dictionary_coding: Some(self.coding),
            ..identity.clone()
        };
        let cached = Arc::new(CachedForms::new(representation, &body, self.form, &self.date));
        self.entry.used.store(true, Ordering::Relaxed);
        self.entry.count(REPRESENTATION_OVERHEAD_BYTES + cached.bytes(), &self.cache);
        let mut forms = lock(&self.entry.with_dictionary);
        let is_it = |form: &&mut DictionaryForm| form.hash == self.hash && form.coding == self.coding;
        if let Some(form) = forms.iter_mut().find(is_it) {
            form.cached = Some(cached);
        }
        Ok(())
    }
}

impl Drop for DictionaryJob {
    fn drop(&mut self) {
        self.cache.end_compression();
        self.cache.make_room();
    }
}

impl Drop for CodingJob {
    fn drop(&mut self) {
        let outcome = self.result.take().map_or(CodedState::Useless, CodedState::Ready);
        self.entry.settle(self.coding, outcome);
        if matches!(self.source, CodingSource::Compress { .. }) {
            self.cache.end_compression();
        }
        self.cache.make_room();
    }
}
