//! The access log: one line for each request that was answered.
//!
//! ```text
//! core 0: record -> buffer --\                                     /-> file
//! core 1: record -> buffer ---+--> one queue --> the writer thread
//! core n: record -> buffer --/        (empty buffers go back to their cores)
//! ```
//!
//! [`CoreBuffer::record`] copies a line into memory that the core owns: no lock, no allocation, no system call. When
//! 64 KiB are full, or every 250 ms when the core calls [`CoreBuffer::flush`], the buffer goes to the writer and an
//! empty one takes its place. Where the writer cannot keep up (a slow or full disk), up to [`QUEUE_BYTES`] wait for
//! each core; after that whole buffers are dropped and counted, because answers matter more than their record. The
//! lines of one core stay in order; those of different cores are mixed buffer by buffer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use touchstone_http::decimal;

use super::clock::LogClock;
use super::escape::{LARGEST_COMMON, LARGEST_JSON, append_common, append_json};
use super::writer::{Message, Output, Problems, Writer, count_lines};
use crate::config::{AccessLogConfig, AccessLogFormat, LogDestination};

/// A buffer this full goes to the writer at once.
pub const FLUSH_BYTES: usize = 64 << 10;

/// The most memory that waits for the writer, for each core.
pub const QUEUE_BYTES: usize = 4 << 20;

/// How often a core should call [`CoreBuffer::flush`].
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// How long [`AccessLog::finish`] waits for a destination that takes nothing more, such as a pipe that no one reads.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// A new buffer's size: full, and a line of nearly any length beyond.
const BUFFER_BYTES: usize = FLUSH_BYTES + (16 << 10);

/// With so many buffers on their way, a timer's flush of a part of one waits: they would only use up the queue.
const QUEUED_WHEN_BEHIND: usize = 4;

/// Empty buffers that are kept for the next flood; the rest of a flood's memory is given back.
const SPARE_BUFFERS: usize = 4;

/// What is known about a request that was answered. Everything is borrowed: nothing is copied but into the line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    /// The client's address, as text (made once for each connection).
    pub client: &'a str,
    /// The request line as it came, without its end; empty: none came.
    pub request_line: &'a [u8],
    /// The user that was authenticated.
    pub user: Option<&'a str>,
    /// Its method; empty where it could not be read, as are the next two.
    pub method: &'a [u8],
    /// Its target.
    pub target: &'a [u8],
    /// Its version, such as `HTTP/1.1`.
    pub version: &'a str,
    /// The status that was sent.
    pub status: u16,
    /// The bytes of the body that were sent.
    pub body_bytes: u64,
    /// The Host field.
    pub host: Option<&'a [u8]>,
    /// The Referer field.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// From the first byte of the request to the last of the response; needed only where
    /// [`CoreBuffer::wants_duration`].
    pub duration_us: u64,
}

/// Appends one line, with its end, as it stands in the log.
pub fn append_line(line: &mut Vec<u8>, format: AccessLogFormat, clock: &LogClock, record: &Record<'_>) {
    match format {
        AccessLogFormat::Common => append_common_line(line, clock, record),
        AccessLogFormat::Combined => append_combined_line(line, clock, record),
        AccessLogFormat::Json => append_json_line(line, clock, record),
    }
}

/// The log as a whole: it owns the writer thread.
///
/// It runs with the destination `off` too, so that a reload can turn it on.
pub struct AccessLog {
    messages: Sender<Message>,
    problems: Arc<Problems>,
    setting: Arc<Setting>,
    thread: JoinHandle<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl AccessLog {
    /// Opens the destination and starts the writer. The error names what could not be opened.
    ///
    /// `on_problem` hears, at most once a second, of lines that were lost; it is called from the writer's thread and
    /// from those of the cores.
    pub fn start(
        config: &AccessLogConfig,
        on_problem: Box<dyn Fn(&str) + Send + Sync>,
    ) -> io::Result<AccessLog> {
        let output = Output::open(0, &config.destination).map_err(name_the_log)?;
        let (messages, receiver) = channel();
        let (alive, ended) = sync_channel(0);
        let problems = Arc::new(Problems::new(on_problem));
        let writer = Writer::new(receiver, Arc::clone(&problems), output, alive);
        let thread =
            std::thread::Builder::new().name("access-log".to_string()).spawn(move || writer.run())?;
        Ok(AccessLog { messages, problems, setting: Arc::new(Setting::new(config)), thread, ended })
    }

    /// A buffer for one core.
    pub fn core_buffer(&self) -> CoreBuffer {
        // As many as can be on their way, so that sending one home never fails.
        let (home, returned) = sync_channel(QUEUE_BYTES / BUFFER_BYTES + 1);
        CoreBuffer {
            setting: Arc::clone(&self.setting),
            code: self.setting.load(),
            clock: LogClock::now(),
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

    /// Opens the file again, after it was renamed (SIGUSR1). What was handed over before goes to the old one. A file
    /// that cannot be opened is said to `on_problem`, and the old one stays.
    pub fn reopen(&self) {
        // The writer ends only with the log, so there is someone to hear it.
        let _ = self.messages.send(Message::Reopen);
    }

    /// Goes on with another destination or format (SIGHUP). Lines made before go to the old destination. Where the new
    /// one cannot be opened, everything stays as it was.
    pub fn reconfigure(&self, config: &AccessLogConfig) -> io::Result<()> {
        let generation = self.setting.generation().wrapping_add(1);
        let output = Output::open(generation, &config.destination).map_err(name_the_log)?;
        let _ = self.messages.send(Message::Switch(output));
        self.setting.store(generation, config);
        Ok(())
    }

    /// All lines that were lost since the start.
    pub fn lost_lines(&self) -> u64 {
        self.problems.lost_lines()
    }

    /// Writes everything that has been handed over and ends the writer. Drop the cores' buffers before: that hands
    /// over what they still hold.
    pub fn finish(self) {
        let _ = self.messages.send(Message::Finish);
        match self.ended.recv_timeout(FINISH_TIMEOUT) {
            Err(RecvTimeoutError::Timeout) => {
                let seconds = FINISH_TIMEOUT.as_secs();
                self.problems.say(&format!(
                    "access log: given up after {seconds} s; what waited to be written is lost"
                ));
            }
            // A panic in it has been shown by the panic hook; there is nothing more to save.
            _ => drop(self.thread.join()),
        }
    }
}

/// One core's part of the log. Dropping it hands over what it holds.
pub struct CoreBuffer {
    setting: Arc<Setting>,
    /// The setting that the lines in the buffer were made for.
    code: u64,
    clock: LogClock,
    lines: Vec<u8>,
    spare: Vec<Vec<u8>>,
    messages: Sender<Message>,
    problems: Arc<Problems>,
    home: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    /// Buffers on their way to the writer and back, and their memory.
    queued: usize,
    queued_bytes: usize,
}

impl CoreBuffer {
    /// Adds the line of one request. Where the log is off it does nothing.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        let code = self.setting.load();
        if code != self.code {
            self.change_setting(code);
        }
        if let Some(format) = Setting::format(code) {
            self.clock.tick();
            self.append(format, record);
        }
    }

    /// Whether a record is written at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        Setting::format(self.setting.load()).is_some()
    }

    /// Whether a line holds the duration; where not, no clock need be read for it.
    #[inline]
    pub fn wants_duration(&self) -> bool {
        Setting::format(self.setting.load()) == Some(AccessLogFormat::Json)
    }

    /// Hands what there is to the writer; a core calls it every [`FLUSH_INTERVAL`].
    pub fn flush(&mut self) {
        self.take_returned();
        if self.queued < QUEUED_WHEN_BEHIND {
            self.hand_over();
        }
    }

    fn append(&mut self, format: AccessLogFormat, record: &Record<'_>) {
        let largest = largest_line(format, record);
        if self.lines.capacity() - self.lines.len() < largest {
            self.make_room(largest);
        }
        append_line(&mut self.lines, format, &self.clock, record);
        if self.lines.len() >= FLUSH_BYTES {
            self.take_returned();
            self.hand_over();
        }
    }

    /// Before the first line, and where a very long one is to come.
    #[cold]
    fn make_room(&mut self, line_bytes: usize) {
        self.take_returned();
        self.hand_over();
        self.lines.reserve(line_bytes.max(BUFFER_BYTES));
    }

    #[cold]
    fn change_setting(&mut self, code: u64) {
        // With the Release of the store: what is sent from here on comes after the writer has been told.
        fence(Ordering::Acquire);
        self.take_returned();
        self.hand_over();
        self.code = code;
    }

    /// Gives the buffer to the writer. Where the queue is full, a buffer that is full too is dropped and counted; one
    /// that is not stays and goes on filling.
    fn hand_over(&mut self) {
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
            // The log was finished before this core: there is no one left to write it.
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

    /// Takes back the buffers that have been written.
    fn take_returned(&mut self) {
        while let Ok(buffer) = self.returned.try_recv() {
            self.queued -= 1;
            self.queued_bytes -= buffer.capacity();
            // One that a very long line has made large is given back, and so is what only a flood needs.
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

/// What the cores must know of the configuration, in one word: the generation of the output above, the format below
/// (0: off).
struct Setting {
    code: AtomicU64,
}

impl Setting {
    fn new(config: &AccessLogConfig) -> Setting {
        let setting = Setting { code: AtomicU64::new(0) };
        setting.store(0, config);
        setting
    }

    #[inline]
    fn load(&self) -> u64 {
        self.code.load(Ordering::Relaxed)
    }

    fn store(&self, generation: u32, config: &AccessLogConfig) {
        let format = match (&config.destination, config.format) {
            (LogDestination::Off, _) => 0,
            (_, AccessLogFormat::Common) => 1,
            (_, AccessLogFormat::Combined) => 2,
            (_, AccessLogFormat::Json) => 3,
        };
        // Release: the writer has been told of this generation before any core sees it.
        self.code.store(u64::from(generation) << 32 | format, Ordering::Release);
    }

    fn generation(&self) -> u32 {
        Setting::generation_of(self.load())
    }

    fn generation_of(code: u64) -> u32 {
        (code >> 32) as u32
    }

    #[inline]
    fn format(code: u64) -> Option<AccessLogFormat> {
        match code & 3 {
            0 => None,
            1 => Some(AccessLogFormat::Common),
            2 => Some(AccessLogFormat::Combined),
            _ => Some(AccessLogFormat::Json),
        }
    }
}

/// More than a line of this record can take.
#[inline]
fn largest_line(format: AccessLogFormat, record: &Record<'_>) -> usize {
    const FIXED: usize = 512;
    let optional = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
    let client = record.client.len() + LARGEST_JSON * record.user.map_or(0, str::len);
    match format {
        AccessLogFormat::Common => FIXED + client + LARGEST_COMMON * record.request_line.len(),
        AccessLogFormat::Combined => {
            let fields = optional(record.referer) + optional(record.user_agent);
            FIXED + client + LARGEST_COMMON * (record.request_line.len() + fields)
        }
        AccessLogFormat::Json => {
            let line = record.method.len() + record.target.len() + record.version.len();
            let fields = optional(record.host) + optional(record.referer) + optional(record.user_agent);
            FIXED + LARGEST_JSON * (client + line + fields)
        }
    }
}

/// `1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 6250`
fn append_common_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    append_common_fields(line, clock, record);
    line.push(b'\n');
}

/// The same, and ` "referer" "user-agent"`.
fn append_combined_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    append_common_fields(line, clock, record);
    line.extend_from_slice(b" \"");
    append_common(line, record.referer.unwrap_or(b"-"));
    line.extend_from_slice(b"\" \"");
    append_common(line, record.user_agent.unwrap_or(b"-"));
    line.extend_from_slice(b"\"\n");
}

fn append_common_fields(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    line.extend_from_slice(record.client.as_bytes());
    line.extend_from_slice(b" - ");
    append_common(line, record.user.map_or(&b"-"[..], str::as_bytes));
    line.extend_from_slice(b" [");
    line.extend_from_slice(clock.common());
    line.extend_from_slice(b"] \"");
    append_common(line, if record.request_line.is_empty() { b"-" } else { record.request_line });
    line.extend_from_slice(b"\" ");
    decimal::append(u64::from(record.status), line);
    if record.body_bytes == 0 {
        line.extend_from_slice(b" -");
    } else {
        line.push(b' ');
        decimal::append(record.body_bytes, line);
    }
}

/// One object; what is not known is `null`.
fn append_json_line(line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
    let given = |bytes| Some(bytes).filter(|bytes: &&[u8]| !bytes.is_empty());
    line.extend_from_slice(b"{\"time\":\"");
    line.extend_from_slice(clock.rfc3339());
    line.extend_from_slice(b"\",\"client\":\"");
    append_json(line, record.client.as_bytes());
    line.extend_from_slice(b"\",\"user\":");
    append_json_string(line, record.user.map(str::as_bytes));
    line.extend_from_slice(b",\"method\":");
    append_json_string(line, given(record.method));
    line.extend_from_slice(b",\"target\":");
    append_json_string(line, given(record.target));
    line.extend_from_slice(b",\"version\":");
    append_json_string(line, given(record.version.as_bytes()));
    line.extend_from_slice(b",\"status\":");
    decimal::append(u64::from(record.status), line);
    line.extend_from_slice(b",\"body_bytes\":");
    decimal::append(record.body_bytes, line);
    line.extend_from_slice(b",\"duration_us\":");
    decimal::append(record.duration_us, line);
    line.extend_from_slice(b",\"host\":");
    append_json_string(line, record.host);
    line.extend_from_slice(b",\"referer\":");
    append_json_string(line, record.referer);
    line.extend_from_slice(b",\"user_agent\":");
    append_json_string(line, record.user_agent);
    line.extend_from_slice(b"}\n");
}

fn append_json_string(line: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            line.push(b'"');
            append_json(line, bytes);
            line.push(b'"');
        }
        None => line.extend_from_slice(b"null"),
    }
}

fn name_the_log(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("access log: {error}"))
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
