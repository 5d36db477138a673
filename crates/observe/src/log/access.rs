//! The access log: one line for each request that was answered.
//!
//! ```text
//! core 0: record -> buffer --\                                     /-> file
//! core 1: record -> buffer ---+--> one queue --> the writer thread
//! core n: record -> buffer --/        (empty buffers go back to their cores)
//! ```
//!
//! [`CoreBuffer::record`] copies a line into memory that the core owns: no lock, no allocation, no system
//! call. When 64 KiB are full, or every 250 ms when the core calls [`CoreBuffer::flush`], the buffer goes to
//! the writer and an empty one takes its place. If the writer cannot keep up (a slow or full disk), up to
//! [`QUEUE_BYTES`] wait for each core. After that, whole buffers are dropped and counted, because answers
//! matter more than their record. The lines of one core stay in order; those of different cores are mixed
//! buffer by buffer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use touchstone_expression::{Condition, Fact};

use super::message_socket::FIELD;
use super::settings::{AccessLogConfig, LogDestination};
use super::writer::{Message, Output, Problems, Writer, count_lines};
use crate::log_line::{LineFormat, LogClock, append_journal_fields, largest_line};

pub use crate::log_line::{Record, TlsRecord, TraceIds};

/// A buffer with this many bytes goes to the writer at once.
pub const FLUSH_BYTES: usize = 64 << 10;

/// The most memory of lines that wait for the writer, for each core.
pub const QUEUE_BYTES: usize = 4 << 20;

/// How long [`AccessLog::finish`] waits for a destination that accepts no more, such as a pipe without a
/// reader.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of a new buffer: it holds a full buffer and one more line of nearly any length.
const BUFFER_BYTES: usize = FLUSH_BYTES + (16 << 10);

/// When this many buffers are in the queue, a timer does not flush a partly filled one: that would only fill
/// the queue.
const QUEUED_WHEN_BEHIND: usize = 4;

/// From this status on, a line is always written, whatever the sample.
const LEAST_FAILURE: u16 = 500;

/// How many empty buffers are kept for the next flood; the rest of a flood's memory is released.
const SPARE_BUFFERS: usize = 4;

/// The log as a whole: it owns the writer thread.
///
/// It also runs with the destination `off`, so that a reload can turn it on.
pub struct AccessLog {
    messages: Sender<Message>,
    problems: Arc<Problems>,
    setting: Arc<Setting>,
    /// The thread, and a channel that is disconnected when it has ended; `None`: it was ordered to finish.
    thread: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
}

impl AccessLog {
    /// Opens the destination and starts the writer. The error names what could not be opened.
    ///
    /// `on_problem` is called at most once a second when lines were lost, from the threads of the writer and
    /// the cores.
    pub fn start(
        config: &AccessLogConfig,
        on_problem: Box<dyn Fn(&str) + Send + Sync>,
    ) -> io::Result<AccessLog> {
        AccessLog::start_with(config, Arc::new(Problems::new(on_problem)))
    }

    /// Starts another log, whose lost lines are counted and reported with those of this one.
    pub fn start_beside(lost: &LostLines, config: &AccessLogConfig) -> io::Result<AccessLog> {
        let problems = lost.0.clone().unwrap_or_else(|| Arc::new(Problems::new(Box::new(|_| {}))));
        AccessLog::start_with(config, problems)
    }

    fn start_with(config: &AccessLogConfig, problems: Arc<Problems>) -> io::Result<AccessLog> {
        let output = Output::open(0, &config.destination, &config.identity).map_err(name_the_log)?;
        let (messages, receiver) = channel();
        let (alive, ended) = sync_channel(0);
        let writer = Writer::new(receiver, Arc::clone(&problems), output, alive);
        let thread =
            std::thread::Builder::new().name("access-log".to_string()).spawn(move || writer.run())?;
        let setting = Arc::new(Setting::new(config));
        let thread = Mutex::new(Some((thread, ended)));
        Ok(AccessLog { messages, problems, setting, thread })
    }

    /// A buffer for one core.
    pub fn core_buffer(&self) -> CoreBuffer {
        // As many as can be in the queue, so that a return never fails.
        let (home, returned) = sync_channel(QUEUE_BYTES / BUFFER_BYTES + 1);
        let (code, lines_of) = self.setting.current();
        CoreBuffer {
            setting: Arc::clone(&self.setting),
            code,
            form: lines_of,
            seen: 0,
            clock: LogClock::now(),
            scratch: Vec::new(),
            lines: Vec::new(),
            spare: Vec::with_capacity(SPARE_BUFFERS),
            messages: self.messages.clone(),
            problems: Arc::clone(&self.problems),
            home,
            returned,
            queued: 0,
            queued_bytes: 0,
        }
    }

    /// Opens the file again, after it was renamed (SIGUSR1). Lines passed on earlier go to the old file. If
    /// the file cannot be opened, `on_problem` is called and the old one stays.
    pub fn reopen(&self) {
        // The writer ends only with the log, so it receives the message.
        let _ = self.messages.send(Message::Reopen);
    }

    /// Changes to another destination or format (SIGHUP). Lines made before go to the old destination. If the
    /// new one cannot be opened, nothing changes.
    pub fn reconfigure(&self, config: &AccessLogConfig) -> io::Result<()> {
        let generation = self.setting.generation().wrapping_add(1);
        let output = Output::open(generation, &config.destination, &config.identity).map_err(name_the_log)?;
        let _ = self.messages.send(Message::Switch(output));
        self.setting.store(generation, config);
        Ok(())
    }

    /// All lines that were lost since the start.
    pub fn lost_lines(&self) -> u64 {
        self.problems.lost_lines()
    }

    /// The same count, for an owner that outlives this handle.
    pub fn lost_lines_count(&self) -> LostLines {
        LostLines(Some(Arc::clone(&self.problems)))
    }

    /// Writes everything that was passed on, and ends the writer. The cores' buffers must be dropped before,
    /// which passes on their contents.
    pub fn finish(&self) {
        let _ = self.messages.send(Message::Finish);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((thread, ended)) = thread else { return };
        match ended.recv_timeout(FINISH_TIMEOUT) {
            Err(RecvTimeoutError::Timeout) => {
                let seconds = FINISH_TIMEOUT.as_secs();
                self.problems.report_text(&format!(
                    "access log: given up after {seconds} s; what waited to be written is lost"
                ));
            }
            // The panic hook has already reported a panic of the thread; nothing can be saved.
            _ => drop(thread.join()),
        }
    }
}

/// How many lines the log has lost. The default is for no log.
#[derive(Clone, Default)]
pub struct LostLines(Option<Arc<Problems>>);

impl LostLines {
    /// All lines that were lost since the start.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |problems| problems.lost_lines())
    }
}

/// One core's part of the log. Dropping it passes its lines on.
pub struct CoreBuffer {
    setting: Arc<Setting>,
    /// The setting under which the lines in the buffer were made.
    code: u64,
    /// Its lines; `None`: the log is off.
    form: Option<Lines>,
    /// How many requests have passed the condition, for the sample.
    seen: u64,
    clock: LogClock,
    /// Holds a line whose maximum length was not known.
    scratch: Vec<u8>,
    lines: Vec<u8>,
    spare: Vec<Vec<u8>>,
    messages: Sender<Message>,
    problems: Arc<Problems>,
    home: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    /// How many buffers are in the queue or returning, and their memory.
    queued: usize,
    queued_bytes: usize,
}

impl CoreBuffer {
    /// Adds the line of one request. Does nothing if the log is off.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        let code = self.setting.load();
        if code != self.code {
            self.change_setting();
        }
        let Some(form) = &self.form else { return };
        if form.is_selective && !self.selects(record) {
            return;
        }
        self.clock.tick();
        self.append(record);
    }

    /// Adds a line that does not belong to a request: `write` appends it, without its end. Does nothing if
    /// the log is off.
    pub fn append_line(&mut self, write: impl FnOnce(&mut Vec<u8>, &LogClock)) {
        if self.setting.load() != self.code {
            self.change_setting();
        }
        if self.form.is_none() {
            return;
        }
        self.clock.tick();
        self.append_by_copy(|_, clock, line| {
            write(line, clock);
            line.push(b'\n');
        });
        self.pass_on_if_long();
    }

    /// Whether the line of this request is written: the log's condition holds, and the request belongs to the
    /// sample. Failures of the server are always written.
    fn selects(&mut self, record: &Record<'_>) -> bool {
        let Some(form) = &self.form else { return false };
        if form.when.as_ref().is_some_and(|when| !when.holds(record)) {
            return false;
        }
        let is_first = self.seen.is_multiple_of(form.sample);
        self.seen = self.seen.wrapping_add(1);
        is_first || record.status >= LEAST_FAILURE
    }

    /// Whether records are written.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.setting.load() & Setting::ON != 0
    }

    /// Whether a line contains the duration; if not, no clock needs to be read for it.
    #[inline]
    pub fn needs_duration(&self) -> bool {
        self.setting.load() & Setting::NEEDS_DURATION != 0
    }

    /// Whether a line contains the request's id; if not, no id needs to be made for it.
    #[inline]
    pub fn needs_request_id(&self) -> bool {
        self.setting.load() & Setting::NEEDS_REQUEST_ID != 0
    }

    /// Passes the buffer to the writer; a core calls this several times a second.
    pub fn flush(&mut self) {
        self.take_returned();
        if self.queued < QUEUED_WHEN_BEHIND {
            self.pass_on();
        }
    }

    fn append(&mut self, record: &Record<'_>) {
        let Some(form) = &self.form else { return };
        match largest_line(&form.format, record).filter(|_| !form.has_fields) {
            Some(largest) if self.lines.capacity() - self.lines.len() >= largest => {
                form.format.append(&mut self.lines, &self.clock, record);
            }
            _ => self.append_by_copy(|form, clock, line| {
                form.format.append(line, clock, record);
                if form.has_fields {
                    line.pop();
                    append_journal_fields(line, FIELD, record);
                    line.push(b'\n');
                }
            }),
        }
        self.pass_on_if_long();
    }

    #[inline]
    fn pass_on_if_long(&mut self) {
        if self.lines.len() >= FLUSH_BYTES {
            self.take_returned();
            self.pass_on();
        }
    }

    /// Makes the line in another buffer first: then its length is known, and the core's buffer never grows by
    /// itself.
    fn append_by_copy(&mut self, write: impl FnOnce(&Lines, &LogClock, &mut Vec<u8>)) {
        let Some(form) = &self.form else { return };
        let mut line = std::mem::take(&mut self.scratch);
        line.clear();
        write(form, &self.clock, &mut line);
        if self.lines.capacity() - self.lines.len() < line.len() {
            self.make_room(line.len());
        }
        self.lines.extend_from_slice(&line);
        line.shrink_to(BUFFER_BYTES);
        self.scratch = line;
    }

    /// Called before the first line, and before a very long one.
    #[cold]
    fn make_room(&mut self, line_bytes: usize) {
        self.take_returned();
        self.pass_on();
        self.lines.reserve(line_bytes.max(BUFFER_BYTES));
    }

    #[cold]
    fn change_setting(&mut self) {
        // Together with the Release of the store: lines that are sent from now on arrive after the writer's
        // message.
        fence(Ordering::Acquire);
        self.take_returned();
        self.pass_on();
        (self.code, self.form) = self.setting.current();
    }

    /// Passes the buffer to the writer. If the queue is full, a full buffer is dropped and counted; one that
    /// is not full stays and is filled further.
    fn pass_on(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.queued_bytes + self.lines.capacity() > QUEUE_BYTES && self.queued > 0 {
            if self.lines.len() >= FLUSH_BYTES {
                self.lose();
            }
            return;
        }
        self.send();
    }

    fn send(&mut self) {
        let next = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        let lines = std::mem::replace(&mut self.lines, next);
        let lines_bytes = lines.capacity();
        let message =
            Message::Lines { lines, generation: Setting::generation_of(self.code), home: self.home.clone() };
        match self.messages.send(message) {
            Ok(()) => {
                self.queued += 1;
                self.queued_bytes += lines_bytes;
            }
            // The log was finished before this core: there is no writer.
            Err(refused) => {
                if let Message::Lines { lines, .. } = refused.0 {
                    self.problems.lost(count_lines(&lines), None);
                }
            }
        }
    }

    fn lose(&mut self) {
        let lost = count_lines(&self.lines);
        self.lines.clear();
        self.problems.lost(lost, None);
    }

    /// Takes the buffers that the writer has returned.
    fn take_returned(&mut self) {
        while let Ok(buffer) = self.returned.try_recv() {
            self.queued -= 1;
            self.queued_bytes -= buffer.capacity();
            // A buffer is released if a very long line has enlarged it, or if only a flood needs it.
            if buffer.capacity() == BUFFER_BYTES && self.spare.len() < SPARE_BUFFERS {
                self.spare.push(buffer);
            }
        }
    }
}

impl Drop for CoreBuffer {
    fn drop(&mut self) {
        if !self.lines.is_empty() {
            self.send();
        }
    }
}

/// The settings that the cores need.
struct Setting {
    /// Read for every request: the generation of the output in the upper half, flags below.
    code: AtomicU64,
    /// The same with the format; read after every change.
    current: Mutex<(u64, Option<Lines>)>,
}

/// The contents of a log's lines, and the requests that have a line.
#[derive(Clone)]
struct Lines {
    format: LineFormat,
    /// Fields for the journal follow each line.
    has_fields: bool,
    /// Not every request has a line.
    is_selective: bool,
    when: Option<Condition>,
    sample: u64,
}

impl Lines {
    fn of(config: &AccessLogConfig) -> Option<Lines> {
        let sample = config.sample.max(1);
        (config.destination != LogDestination::Off).then(|| Lines {
            format: config.format.clone(),
            has_fields: matches!(config.destination, LogDestination::Journal(_)),
            is_selective: config.when.is_some() || sample > 1,
            when: config.when.clone(),
            sample,
        })
    }

    fn needs(&self, fact: Fact) -> bool {
        self.has_fields || self.when.as_ref().is_some_and(|when| when.uses(|variable| variable.fact == fact))
    }
}

impl Setting {
    /// The log is on.
    const ON: u64 = 1;
    const NEEDS_DURATION: u64 = 2;
    const NEEDS_REQUEST_ID: u64 = 4;

    fn new(config: &AccessLogConfig) -> Setting {
        let setting = Setting { code: AtomicU64::new(0), current: Mutex::new((0, None)) };
        setting.store(0, config);
        setting
    }

    #[inline]
    fn load(&self) -> u64 {
        self.code.load(Ordering::Relaxed)
    }

    /// The code and the format that belongs to it.
    fn current(&self) -> (u64, Option<Lines>) {
        self.locked().clone()
    }

    fn store(&self, generation: u32, config: &AccessLogConfig) {
        let lines = Lines::of(config);
        let mut code = u64::from(generation) << 32;
        if let Some(lines) = &lines {
            let needs_duration = lines.format.needs_duration() || lines.needs(Fact::Duration);
            let needs_request_id = lines.format.needs_request_id() || lines.needs(Fact::RequestId);
            code |= Setting::ON;
            code |= if needs_duration { Setting::NEEDS_DURATION } else { 0 };
            code |= if needs_request_id { Setting::NEEDS_REQUEST_ID } else { 0 };
        }
        *self.locked() = (code, lines);
        // Release: the writer has received this generation before any core sees it.
        self.code.store(code, Ordering::Release);
    }

    fn generation(&self) -> u32 {
        Setting::generation_of(self.load())
    }

    fn generation_of(code: u64) -> u32 {
        (code >> 32) as u32
    }

    /// The state. Code that holds the lock cannot panic, so a poisoned lock can be used.
    fn locked(&self) -> MutexGuard<'_, (u64, Option<Lines>)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_the_log(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("access log: {error}"))
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
