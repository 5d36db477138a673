//! The error log: messages for the operator, one line each, written at once.
//!
//! ```text
//! 2026-11-20T10:00:00.123Z info listening on http://127.0.0.1:8080
//! ```
//!
//! Lines are short and rare, so they need no buffer and no thread. A message that a client or a fault could
//! repeat without end is written by [`ErrorLog::limited`], which writes a few lines a second and counts the
//! others. A failure that lasts as long as something else is down is written by [`ErrorLog::failing`], which
//! writes it once, then once a minute.

use std::fmt::{self, Display, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::destination;
use super::messages::Messages;
use super::settings::{ErrorLogConfig, LogDestination, LogLevel};
use crate::log_line::LogClock;

/// The most lines a second of one kind that [`ErrorLog::limited`] writes.
pub const LIMITED_LINES_A_SECOND: u32 = 5;

/// How often [`ErrorLog::failing`] reports one failure.
pub const FAILING_INTERVAL: Duration = Duration::from_secs(60);

/// A source without a failure for this long is removed from the list: it may have been removed from the
/// configuration.
const REMOVED_AFTER: Duration = Duration::from_secs(3_600);

/// The longest line in bytes. A pipe accepts as much in one write (PIPE_BUF is 4,096), so lines of several
/// processes do not mix.
const LONGEST_LINE_BYTES: usize = 4_096;

const WINDOW: Duration = Duration::from_secs(1);

/// A handle of the error log; clones are the same log.
#[derive(Clone)]
pub struct ErrorLog {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked only to take or replace the handle, never during a write.
    sink: RwLock<Arc<Sink>>,
    floods: Mutex<Vec<Flood>>,
    failing_sources: Mutex<Vec<RecurringFailure>>,
}

struct Sink {
    config: ErrorLogConfig,
    /// The destination of lines, if it is a file.
    file: Option<File>,
    /// The destination of messages, which replace lines.
    messages: Option<Mutex<Messages>>,
}

/// Lines of one kind within one second.
struct Flood {
    kind: &'static str,
    level: LogLevel,
    since: Instant,
    written: u32,
    suppressed: u64,
}

/// A source that fails, or has failed.
struct RecurringFailure {
    name: Box<str>,
    /// When its failure was last reported.
    reported_at: Instant,
    /// When it failed last.
    last: Instant,
    /// The failure was reported, and its end was not reported yet.
    is_reported: bool,
    /// Failures since the first one.
    failures: u64,
    /// Failures since the last report.
    suppressed: u64,
}

impl ErrorLog {
    /// Opens the log. The error names the destination that could not be opened.
    pub fn start(config: &ErrorLogConfig) -> io::Result<ErrorLog> {
        let shared = Shared {
            sink: RwLock::new(Arc::new(Sink::open(config)?)),
            floods: Mutex::default(),
            failing_sources: Mutex::default(),
        };
        Ok(ErrorLog { shared: Arc::new(shared) })
    }

    /// Writes a line at [`LogLevel::Debug`]; with `format_args!`, a message that is not written costs
    /// nothing.
    pub fn debug(&self, message: impl Display) {
        self.write(LogLevel::Debug, message);
    }

    /// Writes a line at [`LogLevel::Info`].
    pub fn info(&self, message: impl Display) {
        self.write(LogLevel::Info, message);
    }

    /// Writes a line at [`LogLevel::Warning`].
    pub fn warning(&self, message: impl Display) {
        self.write(LogLevel::Warning, message);
    }

    /// Writes a line at [`LogLevel::Error`].
    pub fn error(&self, message: impl Display) {
        self.write(LogLevel::Error, message);
    }

    /// Whether lines of this level are written.
    pub fn is_on(&self, level: LogLevel) -> bool {
        self.sink().is_on(level)
    }

    /// Writes a line.
    pub fn write(&self, level: LogLevel, message: impl Display) {
        let sink = self.sink();
        if sink.is_on(level) {
            sink.write(level, &message);
        }
    }

    /// Writes a line of a kind that could be repeated without end: at most [`LIMITED_LINES_A_SECOND`] of each
    /// kind, then one with the number of others. That line begins with the kind, which should be a phrase
    /// such as in `accept failed: and 812 more`.
    pub fn limited(&self, level: LogLevel, kind: &'static str, message: impl Display) {
        self.limited_at(Instant::now(), level, kind, message);
    }

    /// Reports a failure that may be detected at each use: at once the first time, then every
    /// [`FAILING_INTERVAL`] with the number of failures in between. `name` identifies the source, as in
    /// `origin http://a`.
    pub fn failing(&self, name: &str, reason: impl Display) {
        self.failing_at(Instant::now(), name, reason);
    }

    /// Reports that a source works again, if its failure was reported; returns whether it was. So a source
    /// that alternates has at most two lines in each interval, and the last one is the current state.
    pub fn recovered(&self, name: &str) -> bool {
        let failures = {
            let mut failing_sources = self.failing_sources();
            let Some(source) = failing_sources.iter_mut().find(|source| *source.name == *name) else {
                return false;
            };
            let failures = std::mem::take(&mut source.failures);
            if !std::mem::take(&mut source.is_reported) {
                return false;
            }
            source.suppressed = 0;
            failures
        };
        let plural = if failures == 1 { "" } else { "s" };
        self.info(format_args!("{name} answers again, after {failures} failure{plural}"));
        true
    }

    /// Reports how many lines were suppressed in past seconds. Must be called about once a second, because
    /// after a flood there may be no further line for long.
    pub fn tick(&self) {
        self.tick_at(Instant::now());
    }

    /// Opens the file again, after it was renamed (SIGUSR1). If that fails, the old one stays.
    pub fn reopen(&self) -> io::Result<()> {
        let config = self.sink().config.clone();
        self.reconfigure(&config)
    }

    /// Continues with another destination or level (SIGHUP). If the destination cannot be opened, nothing
    /// changes.
    pub fn reconfigure(&self, config: &ErrorLogConfig) -> io::Result<()> {
        let sink = Arc::new(Sink::open(config)?);
        *self.shared.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
        Ok(())
    }

    fn limited_at(&self, now: Instant, level: LogLevel, kind: &'static str, message: impl Display) {
        if !self.is_on(level) {
            return;
        }
        let mut more = None;
        let within_limit = {
            let mut floods = self.floods();
            let position = floods.iter().position(|flood| flood.kind == kind).unwrap_or_else(|| {
                floods.push(Flood { kind, level, since: now, written: 0, suppressed: 0 });
                floods.len() - 1
            });
            let flood = &mut floods[position];
            if now.saturating_duration_since(flood.since) >= WINDOW {
                more = flood.begin(now);
            }
            flood.level = level;
            let within_limit = flood.written < LIMITED_LINES_A_SECOND;
            match within_limit {
                true => flood.written += 1,
                false => flood.suppressed += 1,
            }
            within_limit
        };
        // Written without the lock: the disk may be slow.
        if let Some((level, text)) = more {
            self.write(level, text);
        }
        if within_limit {
            self.write(level, message);
        }
    }

    fn failing_at(&self, now: Instant, name: &str, reason: impl Display) {
        if !self.is_on(LogLevel::Warning) {
            return;
        }
        let more = {
            let mut failing_sources = self.failing_sources();
            let known = failing_sources.iter().position(|source| *source.name == *name);
            let position = known.unwrap_or_else(|| {
                let name = name.into();
                failing_sources.push(RecurringFailure {
                    name,
                    reported_at: now,
                    last: now,
                    is_reported: false,
                    failures: 0,
                    suppressed: 0,
                });
                failing_sources.len() - 1
            });
            let source = &mut failing_sources[position];
            source.last = now;
            source.failures += 1;
            if known.is_some() && now.saturating_duration_since(source.reported_at) < FAILING_INTERVAL {
                source.suppressed += 1;
                return;
            }
            source.reported_at = now;
            source.is_reported = true;
            std::mem::take(&mut source.suppressed)
        };
        match more {
            0 => self.warning(format_args!("{name} is failing: {reason}")),
            _ => self.warning(format_args!("{name} is failing: {reason}, and {more} more")),
        }
    }

    fn tick_at(&self, now: Instant) {
        self.failing_sources().retain(|source| now.saturating_duration_since(source.last) < REMOVED_AFTER);
        let over =
            |flood: &Flood| flood.suppressed > 0 && now.saturating_duration_since(flood.since) >= WINDOW;
        let reports: Vec<(LogLevel, String)> = self
            .floods()
            .iter_mut()
            .filter(|flood| over(flood))
            .filter_map(|flood| flood.begin(now))
            .collect();
        for (level, text) in reports {
            self.write(level, text);
        }
    }

    // Code that holds one of these locks cannot panic, so a poisoned lock can be used.

    fn sink(&self) -> Arc<Sink> {
        Arc::clone(&self.shared.sink.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn failing_sources(&self) -> MutexGuard<'_, Vec<RecurringFailure>> {
        self.shared.failing_sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn floods(&self) -> MutexGuard<'_, Vec<Flood>> {
        self.shared.floods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ErrorLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ErrorLog").field(&self.sink().config).finish()
    }
}

impl Flood {
    /// Begins a new second; returns the message about the previous one.
    fn begin(&mut self, now: Instant) -> Option<(LogLevel, String)> {
        let suppressed = std::mem::take(&mut self.suppressed);
        self.since = now;
        self.written = 0;
        (suppressed > 0).then(|| (self.level, format!("{}: and {suppressed} more", self.kind)))
    }
}

impl Sink {
    fn open(config: &ErrorLogConfig) -> io::Result<Sink> {
        let file = destination::open(&config.destination)
            .map_err(|error| io::Error::new(error.kind(), format!("error log: {error}")))?;
        let messages = destination::open_messages(&config.destination, &config.identity, "error")
            .map_err(|error| io::Error::new(error.kind(), format!("error log: {error}")))?;
        Ok(Sink { config: config.clone(), file, messages: messages.map(Mutex::new) })
    }

    fn is_on(&self, level: LogLevel) -> bool {
        (self.file.is_some() || self.messages.is_some()) && level >= self.config.level
    }

    fn write(&self, level: LogLevel, message: &dyn Display) {
        let form = match (self.config.is_json, &self.messages) {
            (true, _) => LineForm::Json,
            // Destinations of messages store time and level as separate fields.
            (false, Some(_)) => LineForm::MessageAlone,
            (false, None) => LineForm::Plain,
        };
        let line = line(&present(), level, message, form);
        let Some(messages) = &self.messages else { return self.write_line(&line) };
        let sent =
            messages.lock().unwrap_or_else(PoisonError::into_inner).send(level.severity(), line.as_bytes());
        // Standard error may be read by the operator.
        if sent.is_err() {
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// One write for the whole line, so that lines of several threads do not mix.
    fn write_line(&self, line: &str) {
        let Some(mut file) = self.file.as_ref() else { return };
        let mut written = file.write_all(line.as_bytes());
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            destination::wait_until_writable(file, 100);
            written = file.write_all(line.as_bytes());
        }
        // A full disk must not silence the log: the message goes to standard error as well. If that fails
        // too, the message is lost.
        if written.is_err() && matches!(self.config.destination, LogDestination::File(_)) {
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineForm {
    /// Time, level, message.
    Plain,
    /// Only the message.
    MessageAlone,
    /// An object with the three.
    Json,
}

/// One line, with its end: control characters are shown as `\x0a`, so a message cannot make a second line.
fn line(clock: &LogClock, level: LogLevel, message: &dyn Display, form: LineForm) -> String {
    let mut line = String::with_capacity(128);
    let time = String::from_utf8_lossy(clock.rfc3339());
    match form {
        // Writing to a String cannot fail.
        LineForm::Plain => {
            let _ = write!(line, "{time} {} ", level.word());
        }
        LineForm::MessageAlone => {}
        LineForm::Json => {
            let _ = write!(line, "{{\"time\":\"{time}\",\"level\":\"{}\",\"message\":\"", level.word());
        }
    }
    for character in message.to_string().chars() {
        if line.len() > LONGEST_LINE_BYTES - "...\"}\n".len() - "\\u00ff".len() {
            line.push_str("...");
            break;
        }
        match (character.is_control(), form) {
            (false, LineForm::Json) if matches!(character, '"' | '\\') => line.extend(['\\', character]),
            (false, _) => line.push(character),
            // All control characters are below U+0100.
            (true, LineForm::Json) => _ = write!(line, "\\u{:04x}", u32::from(character)),
            (true, _) => _ = write!(line, "\\x{:02x}", u32::from(character)),
        }
    }
    if form == LineForm::Json {
        line.push_str("\"}");
    }
    line.push('\n');
    line
}

fn present() -> LogClock {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
    LogClock::at(seconds, since_epoch.subsec_millis() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn log_to(path: &Path, level: LogLevel) -> ErrorLog {
        ErrorLog::start(&ErrorLogConfig::new(LogDestination::File(path.to_path_buf()), level)).unwrap()
    }

    /// The lines without their times, which are checked.
    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let without_time = |line: &str| {
            let (time, rest) = line.split_once(' ').unwrap();
            assert_eq!(time.len(), "2026-11-20T10:00:00.123Z".len());
            assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T');
            rest.to_string()
        };
        text.lines().map(without_time).collect()
    }

    fn new_log(level: LogLevel) -> (tempfile::TempDir, PathBuf, ErrorLog) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("error.log");
        let log = log_to(&path, level);
        (directory, path, log)
    }

    #[test]
    fn the_form_of_a_line() {
        let clock = LogClock::at(1_795_168_800, 123);
        assert_eq!(
            line(&clock, LogLevel::Warning, &"a \"b\" caf\u{e9}\n\r\x1b[2Jc", LineForm::Plain),
            "2026-11-20T10:00:00.123Z warning a \"b\" caf\u{e9}\\x0a\\x0d\\x1b[2Jc\n"
        );
        let text = "a \"b\" \\ \u{e9}\n";
        assert_eq!(
            line(&clock, LogLevel::Info, &text, LineForm::Json),
            "{\"time\":\"2026-11-20T10:00:00.123Z\",\"level\":\"info\",\"message\":\
             \"a \\\"b\\\" \\\\ \u{e9}\\u000a\"}\n"
        );
        assert_eq!(line(&clock, LogLevel::Info, &text, LineForm::MessageAlone), "a \"b\" \\ \u{e9}\\x0a\n");
        let long = line(&clock, LogLevel::Info, &"\u{1f600}".repeat(5_000), LineForm::Plain);
        assert!(long.ends_with("\u{1f600}...\n"));
        assert!(long.len() <= LONGEST_LINE_BYTES && long.len() > LONGEST_LINE_BYTES - 16, "{}", long.len());
    }

    #[test]
    fn levels() {
        let (_directory, path, log) = new_log(LogLevel::Warning);
        log.debug("one");
        log.info("two");
        log.warning(format_args!("three {}", 3));
        log.error(String::from("four"));
        assert_eq!(lines(&path), ["warning three 3", "error four"]);
        assert!(!log.is_on(LogLevel::Info) && log.is_on(LogLevel::Error));
        let config = ErrorLogConfig::new(LogDestination::File(path.clone()), LogLevel::Debug);
        let clone = log.clone();
        log.reconfigure(&config).unwrap();
        clone.debug("five");
        assert_eq!(lines(&path)[2..], ["debug five"]);
        log.reconfigure(&ErrorLogConfig::new(LogDestination::Off, LogLevel::Debug)).unwrap();
        clone.error("six");
        assert_eq!(lines(&path).len(), 3);
    }

    #[test]
    fn reopen_after_a_rename() {
        let (directory, path, log) = new_log(LogLevel::Info);
        let renamed = directory.path().join("error.log.1");
        log.info("one");
        fs::rename(&path, &renamed).unwrap();
        log.info("two");
        log.clone().reopen().unwrap();
        log.info("three");
        assert_eq!(lines(&renamed), ["info one", "info two"]);
        assert_eq!(lines(&path), ["info three"]);
    }

    #[test]
    fn a_reopen_that_fails_keeps_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let [inner, moved] = ["inner", "moved"].map(|name| directory.path().join(name));
        fs::create_dir(&inner).unwrap();
        let log = log_to(&inner.join("error.log"), LogLevel::Info);
        fs::rename(&inner, &moved).unwrap();
        let error = log.reopen().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "error log: cannot open '{}': No such file or directory (os error 2)",
                inner.join("error.log").display()
            )
        );
        log.info("one");
        assert_eq!(lines(&moved.join("error.log")), ["info one"]);
    }

    #[test]
    fn a_full_disk_does_not_stop_it() {
        let log = log_to(Path::new("/dev/full"), LogLevel::Error);
        log.error("this line belongs to a test of a full disk");
    }

    #[test]
    fn floods_are_counted() {
        let (_directory, path, log) = new_log(LogLevel::Info);
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        for number in 0..10 {
            log.limited_at(at(number), LogLevel::Warning, "accept failed", format_args!("number {number}"));
            log.limited_at(at(number), LogLevel::Debug, "quiet", "never");
        }
        log.limited_at(at(20), LogLevel::Info, "other kind", "other");
        log.tick_at(at(999));
        let mut expected: Vec<String> = (0..5).map(|number| format!("warning number {number}")).collect();
        expected.push("info other".to_string());
        assert_eq!(lines(&path), expected);

        // The next line of the kind reports it first...
        log.limited_at(at(1_000), LogLevel::Warning, "accept failed", "again");
        assert_eq!(lines(&path)[6..], ["warning accept failed: and 5 more", "warning again"]);
        // ... or the tick does, once.
        for _ in 0..7 {
            log.limited_at(at(1_500), LogLevel::Error, "accept failed", "more");
        }
        log.tick_at(at(1_999));
        assert_eq!(lines(&path).len(), 12);
        log.tick_at(at(2_000));
        log.tick_at(at(4_000));
        assert_eq!(lines(&path)[12..], ["error accept failed: and 3 more"]);
    }

    #[test]
    fn a_repeated_failure_is_reported_once_a_minute() {
        let (_directory, path, log) = new_log(LogLevel::Info);
        let start = Instant::now();
        let fail = |seconds, name| log.failing_at(start + Duration::from_secs(seconds), name, "refused");
        assert!(!log.recovered("origin a"), "it was never said to fail");
        (0..60).for_each(|second| fail(second, "origin a"));
        fail(10, "origin b");
        log.tick_at(start + Duration::from_secs(59));
        assert_eq!(
            lines(&path),
            ["warning origin a is failing: refused", "warning origin b is failing: refused"]
        );
        fail(60, "origin a");
        fail(61, "origin a");
        assert!(log.recovered("origin a") && !log.recovered("origin a"));
        assert_eq!(
            lines(&path)[2..],
            [
                "warning origin a is failing: refused, and 59 more",
                "info origin a answers again, after 62 failures"
            ]
        );

        // A source that alternates is not reported each time...
        for second in 62..100 {
            fail(second, "origin a");
            assert!(!log.recovered("origin a"));
        }
        assert_eq!(lines(&path).len(), 4);
        // ... but again once the time is over.
        fail(120, "origin a");
        assert!(log.recovered("origin a"));
        assert_eq!(
            lines(&path)[4..],
            [
                "warning origin a is failing: refused, and 38 more",
                "info origin a answers again, after 1 failure"
            ]
        );

        log.tick_at(start + Duration::from_secs(3_700));
        assert_eq!(
            log.failing_sources().iter().map(|source| &*source.name).collect::<Vec<_>>(),
            ["origin a"]
        );
        log.tick_at(start + Duration::from_secs(3_720));
        assert!(log.failing_sources().is_empty());
    }

    #[test]
    fn threads_do_not_mix_their_lines() {
        let (_directory, path, log) = new_log(LogLevel::Info);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = log.clone();
                scope.spawn(move || (0..200).for_each(|number| log.info(format_args!("{thread} {number}"))));
            }
        });
        let mut lines = lines(&path);
        lines.sort();
        let mut expected: Vec<String> =
            (0..4).flat_map(|thread| (0..200).map(move |number| format!("info {thread} {number}"))).collect();
        expected.sort();
        assert_eq!(lines, expected);
    }

    proptest! {
        #[test]
        fn any_message_makes_one_line(message in any::<String>()) {
            for form in [LineForm::Plain, LineForm::MessageAlone, LineForm::Json] {
                let text = line(&LogClock::at(0, 0), LogLevel::Error, &message, form);
                prop_assert!(text.ends_with('\n') && text.len() <= LONGEST_LINE_BYTES);
                prop_assert!(!text[..text.len() - 1].contains(char::is_control));
                if form == LineForm::Json {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
                }
            }
        }
    }
}
