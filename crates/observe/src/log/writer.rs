//! The thread that writes the access log of all cores, and its reports about failures.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::destination;
use super::messages::Messages;
use super::settings::{LogDestination, LogIdentity};

/// The shortest time between two reports of problems.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long the former output stays open for lines that cores have made for it, after a change of
/// configuration. Cores pass their lines on every 250 ms.
const FORMER_OUTPUT_KEPT: Duration = Duration::from_secs(2);

/// The severity of the line of a request: information.
const SEVERITY: u8 = 6;

/// The messages of the cores and of the log's owner to the writer. All share one queue, so they are processed
/// in this order.
pub(super) enum Message {
    /// Write these lines, then return the empty buffer.
    Lines {
        /// Whole lines.
        lines: Vec<u8>,
        /// The output for which they were made.
        generation: u32,
        /// The core that gets the buffer back.
        home: SyncSender<Vec<u8>>,
    },
    /// Open the file again: it has been renamed.
    Reopen,
    /// From now on, write to another output.
    Switch(Output),
    /// No further message follows.
    Finish,
}

/// The destination of lines.
pub(super) struct Output {
    /// Distinguishes this output from earlier and later ones.
    pub(super) generation: u32,
    /// Its name.
    pub(super) destination: LogDestination,
    /// `None`: lines are dropped.
    pub(super) file: Option<File>,
    /// The destination of messages, which replace lines.
    messages: Option<Messages>,
    identity: LogIdentity,
    /// Whether the last byte that was written is within a line.
    mid_line: bool,
}

impl Output {
    pub(super) fn open(
        generation: u32,
        destination: &LogDestination,
        identity: &LogIdentity,
    ) -> io::Result<Output> {
        let file = destination::open(destination)?;
        let messages = destination::open_messages(destination, identity, "access")?;
        let (destination, identity) = (destination.clone(), identity.clone());
        Ok(Output { generation, destination, file, messages, identity, mid_line: false })
    }

    /// Writes whole lines. On failure, returns how many lines are lost, and why.
    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        if let Some(messages) = &mut self.messages {
            return messages.send(SEVERITY, lines);
        }
        if self.mid_line {
            // A line was cut off when the disk was full: end it, so that only one is damaged.
            self.write_bytes(b"\n").map_err(|(_, error)| (count_lines(lines), error))?;
        }
        self.write_bytes(lines)
    }

    fn write_bytes(&mut self, mut bytes: &[u8]) -> Result<(), (u64, io::Error)> {
        let Some(file) = &mut self.file else { return Ok(()) };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err((count_lines(bytes), io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.mid_line = bytes[written - 1] != b'\n';
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    destination::wait_until_writable(file, 1_000);
                }
                Err(error) => return Err((count_lines(bytes), error)),
            }
        }
        Ok(())
    }
}

/// How many lines end within these bytes.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The thread's state.
pub(super) struct Writer {
    messages: Receiver<Message>,
    problems: Arc<Problems>,
    output: Output,
    former: Option<(Output, Instant)>,
    /// It is dropped with the thread, which notifies the owner.
    _alive: SyncSender<()>,
}

impl Writer {
    pub(super) fn new(
        messages: Receiver<Message>,
        problems: Arc<Problems>,
        output: Output,
        alive: SyncSender<()>,
    ) -> Writer {
        Writer { messages, problems, output, former: None, _alive: alive }
    }

    /// Writes until it is ordered to finish, or all senders are dropped.
    pub(super) fn run(mut self) {
        loop {
            match self.next() {
                Ok(Message::Lines { mut lines, generation, home }) => {
                    self.write(generation, &lines);
                    lines.clear();
                    // The core may have ended.
                    let _ = home.try_send(lines);
                }
                Ok(Message::Reopen) => self.reopen(),
                Ok(Message::Switch(output)) => {
                    let former = std::mem::replace(&mut self.output, output);
                    self.former = Some((former, Instant::now() + FORMER_OUTPUT_KEPT));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            self.former.take_if(|(_, until)| now >= *until);
            self.problems.report_if_due(now);
        }
        self.problems.report();
    }

    /// The next message; a timeout if another action is due before it.
    fn next(&self) -> Result<Message, RecvTimeoutError> {
        let now = Instant::now();
        let former_ends = self.former.as_ref().map(|(_, until)| *until);
        let due = [former_ends, self.problems.next_report(now)].into_iter().flatten().min();
        match due {
            Some(due) => self.messages.recv_timeout(due.saturating_duration_since(now)),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn write(&mut self, generation: u32, lines: &[u8]) {
        let output = match &mut self.former {
            Some((former, _)) if former.generation == generation => former,
            _ => &mut self.output,
        };
        if let Err((lost, error)) = output.write(lines) {
            self.problems.lost(lost, Some(format!("{}: {error}", destination::name(&output.destination))));
        }
    }

    fn reopen(&mut self) {
        match Output::open(self.output.generation, &self.output.destination, &self.output.identity) {
            Ok(output) => self.output = output,
            Err(error) => {
                self.problems.report_text(&format!("access log: {error}; the lines go to the old file"))
            }
        }
    }
}

/// Problems, which are counted at once and reported at most once a second.
pub(super) struct Problems {
    say: Box<dyn Fn(&str) + Send + Sync>,
    lost_lines: AtomicU64,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    reported_lines: u64,
    reason: Option<String>,
    last_report: Option<Instant>,
}

impl Problems {
    pub(super) fn new(say: Box<dyn Fn(&str) + Send + Sync>) -> Problems {
        Problems { say, lost_lines: AtomicU64::new(0), state: Mutex::default() }
    }

    /// All lines that were lost since the start.
    pub(super) fn lost_lines(&self) -> u64 {
        self.lost_lines.load(Ordering::Relaxed)
    }

    /// Reports a text now.
    pub(super) fn report_text(&self, message: &str) {
        (self.say)(message);
    }

    /// Counts lost lines, and reports them if a second has passed since the last report. No reason: the
    /// writer could not keep up. Cores call it too, because a writer that is blocked in a write cannot report
    /// itself.
    pub(super) fn lost(&self, lines: u64, reason: Option<String>) {
        self.lost_lines.fetch_add(lines, Ordering::Relaxed);
        if reason.is_some() {
            self.locked().reason = reason;
        }
        self.report_if_due(Instant::now());
    }

    /// When the next report is due; `None` if there is nothing to report.
    fn next_report(&self, now: Instant) -> Option<Instant> {
        let state = self.locked();
        let pending = state.reason.is_some() || self.lost_lines() > state.reported_lines;
        pending.then(|| state.last_report.map_or(now, |last| last + REPORT_INTERVAL))
    }

    /// Reports the problems, if a second has passed since the last report.
    fn report_if_due(&self, now: Instant) {
        if self.next_report(now).is_some_and(|due| now >= due) {
            self.report();
        }
    }

    /// Reports the problems.
    fn report(&self) {
        let (lines, reason) = {
            let mut state = self.locked();
            let all = self.lost_lines();
            let lines = all - state.reported_lines;
            if lines == 0 && state.reason.is_none() {
                return;
            }
            state.reported_lines = all;
            state.last_report = Some(Instant::now());
            (lines, state.reason.take())
        };
        let plural = if lines == 1 { "" } else { "s" };
        let reason = reason.as_deref().unwrap_or("it cannot be written fast enough");
        self.report_text(&format!("access log: {reason}; {lines} line{plural} lost"));
    }

    /// Code that holds the lock cannot panic, so a poisoned lock can be used.
    fn locked(&self) -> std::sync::MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems() -> (Arc<Problems>, Arc<Mutex<Vec<String>>>) {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reports);
        (Arc::new(Problems::new(Box::new(move |text| sink.lock().unwrap().push(text.to_string())))), reports)
    }

    #[test]
    fn a_flood_is_reported_once_a_second() {
        let (problems, reports) = problems();
        assert_eq!(problems.next_report(Instant::now()), None);
        problems.lost(1, None);
        assert_eq!(*reports.lock().unwrap(), ["access log: it cannot be written fast enough; 1 line lost"]);
        assert_eq!(problems.next_report(Instant::now()), None);
        let last = problems.locked().last_report.unwrap();
        problems.lost_lines.fetch_add(5, Ordering::Relaxed);
        problems.report_if_due(last + Duration::from_millis(999));
        assert_eq!(reports.lock().unwrap().len(), 1);
        problems.lost_lines.fetch_add(6, Ordering::Relaxed);
        problems.report_if_due(last + Duration::from_millis(1000));
        assert_eq!(reports.lock().unwrap()[1], "access log: it cannot be written fast enough; 11 lines lost");
        assert_eq!(problems.lost_lines(), 12);
        problems.report_if_due(last + Duration::from_secs(100));
        assert_eq!(reports.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_cut_line_is_ended_before_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let mut output =
            Output::open(0, &LogDestination::File(path.clone()), &LogIdentity::default()).unwrap();
        output.write(b"one\ntw").unwrap();
        assert!(output.mid_line);
        output.write(b"three\n").unwrap();
        assert!(!output.mid_line);
        output.write(b"four\n").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntw\nthree\nfour\n");
    }
}
