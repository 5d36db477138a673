//! Tests of the access log: the lines byte for byte, and that none is lost silently, whatever happens to the
//! file.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The problems that were reported.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    fn callback(&self) -> Box<dyn Fn(&str) + Send + Sync> {
        let reports = self.clone();
        Box::new(move |text| reports.0.lock().unwrap().push(text.to_string()))
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The sum of all "N lines lost".
    fn lines_lost(&self) -> u64 {
        let number = |text: &String| -> u64 {
            let words: Vec<&str> = text.split(' ').collect();
            words[words.len() - 3].parse().unwrap_or_else(|_| panic!("{text}"))
        };
        self.all().iter().map(number).sum()
    }
}

fn config(path: &Path, format: LineFormat) -> AccessLogConfig {
    AccessLogConfig::new(LogDestination::File(path.to_path_buf()), format)
}

fn start(path: &Path, format: LineFormat) -> (AccessLog, Reports) {
    let reports = Reports::default();
    (AccessLog::start(&config(path, format), reports.callback()).unwrap(), reports)
}

const CLOCK_SECONDS: i64 = 1_795_168_800;

fn line(format: LineFormat, record: &Record<'_>) -> String {
    let mut line = Vec::new();
    format.append(&mut line, &LogClock::at(CLOCK_SECONDS, 123), record);
    assert!(line.len() <= largest_line(&format, record).unwrap_or(usize::MAX));
    String::from_utf8(line).unwrap()
}

fn usual() -> Record<'static> {
    Record {
        client: "127.0.0.1",
        user: None,
        request_line: b"GET /a.html?b=c HTTP/1.1",
        method: b"GET",
        target: b"/a.html?b=c",
        version: "HTTP/1.1",
        status: 200,
        body_bytes: 6250,
        host: Some(b"www.example.org"),
        referer: Some(b"http://www.example.org/"),
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64)"),
        duration_us: 48,
        ..Record::default()
    }
}

/// A record whose line shows which one it was.
fn numbered<'a>(request_line: &'a [u8]) -> Record<'a> {
    Record { client: "127.0.0.1", request_line, status: 200, ..Record::default() }
}

#[test]
fn common() {
    assert_eq!(
        line(LineFormat::Common, &usual()),
        "127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] \"GET /a.html?b=c HTTP/1.1\" 200 6250\n"
    );
    let record =
        Record { client: "::1", request_line: b"GET /\"\\\x1b\xe9 HTTP/1.1", status: 304, ..usual() };
    assert_eq!(
        line(LineFormat::Common, &Record { body_bytes: 0, ..record }),
        "::1 - - [20/Nov/2026:10:00:00 +0000] \"GET /\\\"\\\\\\x1b\\xe9 HTTP/1.1\" 304 -\n"
    );
    let record = Record { client: "::1", status: 408, body_bytes: u64::MAX, ..Record::default() };
    assert_eq!(
        line(LineFormat::Common, &record),
        "::1 - - [20/Nov/2026:10:00:00 +0000] \"-\" 408 18446744073709551615\n"
    );
}

#[test]
fn combined() {
    assert_eq!(
        line(LineFormat::Combined, &usual()),
        "127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] \"GET /a.html?b=c HTTP/1.1\" 200 6250 \
         \"http://www.example.org/\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n"
    );
    let record = Record { referer: None, user_agent: Some(b"a\"b\n"), body_bytes: 0, ..usual() };
    assert_eq!(
        line(LineFormat::Combined, &record),
        "127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] \"GET /a.html?b=c HTTP/1.1\" 200 - \"-\" \
         \"a\\\"b\\x0a\"\n"
    );
}

#[test]
fn json() {
    assert_eq!(
        line(LineFormat::Json, &usual()),
        "{\"time\":\"2026-11-20T10:00:00.123Z\",\"client\":\"127.0.0.1\",\"user\":null,\"method\":\"GET\",\
         \"target\":\"/a.html?b=c\",\"version\":\"HTTP/1.1\",\"status\":200,\"body_bytes\":6250,\"duration_us\":48,\
         \"host\":\"www.example.org\",\"referer\":\"http://www.example.org/\",\
         \"user_agent\":\"Mozilla/5.0 (X11; Linux x86_64)\"}\n"
    );
    assert_eq!(
        line(LineFormat::Json, &Record { client: "::1", status: 400, body_bytes: 5, ..Record::default() }),
        "{\"time\":\"2026-11-20T10:00:00.123Z\",\"client\":\"::1\",\"user\":null,\"method\":null,\"target\":null,\"version\":null,\
         \"status\":400,\"body_bytes\":5,\"duration_us\":0,\"host\":null,\"referer\":null,\"user_agent\":null}\n"
    );
}

proptest! {
    /// For any request, a line is one line, is no longer than was reserved, and JSON reads back.
    #[test]
    fn any_bytes_make_one_line(
        request_line in prop::collection::vec(any::<u8>(), 0..80),
        target in prop::collection::vec(any::<u8>(), 1..80),
        host in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        user_agent in prop::option::of(".{0,40}"),
        status in any::<u16>(),
        body_bytes in any::<u64>(),
        duration_us in any::<u64>(),
    ) {
        let record = Record {
            client: "127.0.0.1",
            user: None,
            request_line: &request_line,
            method: b"GET",
            target: &target,
            version: "HTTP/1.1",
            status,
            body_bytes,
            host: host.as_deref(),
            referer: host.as_deref(),
            user_agent: user_agent.as_deref().map(str::as_bytes),
            duration_us,
            ..Record::default()
        };
        for format in [LineFormat::Common, LineFormat::Combined, LineFormat::Json] {
            let text = line(format, &record);
            prop_assert!(text.ends_with('\n'));
            prop_assert!(!text[..text.len() - 1].contains(char::is_control));
        }
        let read: Value = serde_json::from_str(&line(LineFormat::Json, &record)).unwrap();
        let lossy = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
        prop_assert_eq!(&read["target"], &lossy(&target));
        prop_assert_eq!(&read["host"], &host.as_deref().map_or(Value::Null, lossy));
        prop_assert_eq!(&read["user_agent"], &user_agent.map_or(Value::Null, Value::from));
        prop_assert_eq!(&read["status"], &Value::from(status));
        prop_assert_eq!(&read["body_bytes"], &Value::from(body_bytes));
        prop_assert_eq!(&read["duration_us"], &Value::from(duration_us));
        prop_assert_eq!(read.as_object().unwrap().len(), 12);
    }
}

#[test]
fn the_present_is_in_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let (log, reports) = start(&path, LineFormat::Common);
    let mut buffer = log.core_buffer();
    assert!(buffer.is_on() && !buffer.needs_duration());
    let before = LogClock::now();
    buffer.record(&usual());
    let after = LogClock::now();
    drop(buffer);
    log.finish();
    let text = fs::read_to_string(&path).unwrap();
    let expected = [&before, &after].map(|clock| {
        let mut line = Vec::new();
        LineFormat::Common.append(&mut line, clock, &usual());
        String::from_utf8(line).unwrap()
    });
    assert!(expected.contains(&text), "{text}");
    assert!(reports.all().is_empty());
}

#[test]
fn off_writes_nothing_and_can_be_turned_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let off = AccessLogConfig::new(LogDestination::Off, LineFormat::Json);
    let reports = Reports::default();
    let log = AccessLog::start(&off, reports.callback()).unwrap();
    let mut buffer = log.core_buffer();
    assert!(!buffer.is_on() && !buffer.needs_duration());
    buffer.record(&usual());
    assert_eq!(buffer.lines.capacity(), 0);
    log.reconfigure(&config(&path, LineFormat::Json)).unwrap();
    assert!(buffer.is_on() && buffer.needs_duration());
    buffer.record(&usual());
    log.reconfigure(&off).unwrap();
    buffer.record(&usual());
    drop(buffer);
    log.finish();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    assert!(reports.all().is_empty());
}

#[test]
fn lines_go_to_the_destination_they_were_made_for() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first.log", "second.log"].map(|name| directory.path().join(name));
    let (log, reports) = start(&first, LineFormat::Common);
    let mut buffer = log.core_buffer();
    buffer.record(&numbered(b"one"));
    log.reconfigure(&config(&second, LineFormat::Json)).unwrap();
    buffer.record(&numbered(b"two"));
    let error = log.reconfigure(&config(&directory.path().join("no/x.log"), LineFormat::Common)).unwrap_err();
    assert!(error.to_string().starts_with("access log: cannot open '"), "{error}");
    assert!(error.to_string().ends_with("/no/x.log': No such file or directory (os error 2)"), "{error}");
    buffer.record(&numbered(b"three"));
    drop(buffer);
    log.finish();
    let [first, second] = [first, second].map(|path| fs::read_to_string(path).unwrap());
    assert!(first.contains("\"one\"") && first.lines().count() == 1, "{first}");
    assert!(second.starts_with('{') && second.lines().count() == 2, "{second}");
    assert!(reports.all().is_empty());
}

#[test]
fn a_renamed_file_is_left_after_reopen() {
    let directory = tempfile::tempdir().unwrap();
    let [path, renamed] = ["access.log", "access.log.1"].map(|name| directory.path().join(name));
    let (log, reports) = start(&path, LineFormat::Common);
    let mut buffer = log.core_buffer();
    buffer.record(&numbered(b"one"));
    buffer.flush();
    fs::rename(&path, &renamed).unwrap();
    buffer.record(&numbered(b"two"));
    buffer.flush();
    log.reopen();
    buffer.record(&numbered(b"three"));
    drop(buffer);
    log.finish();
    let [new, old] = [path, renamed].map(|path| fs::read_to_string(path).unwrap());
    assert!(old.contains("\"one\"") && old.contains("\"two\"") && old.lines().count() == 2, "{old}");
    assert!(new.contains("\"three\"") && new.lines().count() == 1, "{new}");
    assert!(reports.all().is_empty());
}

#[test]
fn a_reopen_that_fails_keeps_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let [inner, moved] = ["inner", "moved"].map(|name| directory.path().join(name));
    fs::create_dir(&inner).unwrap();
    let (log, reports) = start(&inner.join("access.log"), LineFormat::Common);
    let mut buffer = log.core_buffer();
    fs::rename(&inner, &moved).unwrap();
    log.reopen();
    buffer.record(&numbered(b"one"));
    drop(buffer);
    log.finish();
    assert_eq!(fs::read_to_string(moved.join("access.log")).unwrap().lines().count(), 1);
    let path = inner.join("access.log").display().to_string();
    assert_eq!(
        reports.all(),
        [format!(
            "access log: cannot open '{path}': No such file or directory (os error 2); the lines go to the \
             old file"
        )]
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none/access.log");
    let Err(error) = AccessLog::start(&config(&path, LineFormat::Common), Reports::default().callback())
    else {
        panic!("started");
    };
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let expected =
        format!("access log: cannot open '{}': No such file or directory (os error 2)", path.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_full_disk_is_reported_with_the_number_of_lines() {
    let (log, reports) = start(Path::new("/dev/full"), LineFormat::Common);
    let mut buffer = log.core_buffer();
    for _ in 0..5 {
        for _ in 0..100 {
            buffer.record(&usual());
        }
        buffer.flush();
    }
    drop(buffer);
    log.finish();
    let all = reports.all();
    // At once, then at most once a second, and the rest at the end.
    assert!(!all.is_empty() && all.len() <= 5, "{all:?}");
    for text in &all {
        assert!(
            text.starts_with("access log: '/dev/full': No space left on device (os error 28); "),
            "{text}"
        );
    }
    assert_eq!(reports.lines_lost(), 500);
}

#[test]
fn what_a_stuck_writer_cannot_take_is_dropped_and_counted() {
    const LINES: u64 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Opened for reading and writing, so that opening does not wait; nothing is read until all has been
    // recorded.
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();

    let (log, reports) = start(&path, LineFormat::Combined);
    let mut buffer = log.core_buffer();
    for _ in 0..LINES {
        buffer.record(&usual());
        assert!(buffer.queued_bytes <= QUEUE_BYTES);
        assert!(buffer.lines.capacity() <= 2 * BUFFER_BYTES);
    }
    let lost = log.lost_lines();
    assert!(lost > 0);
    // A timer's flush must not use up the rest of the queue.
    let queued = buffer.queued;
    buffer.flush();
    assert_eq!(buffer.queued, queued);
    drop(buffer);

    let line = line(LineFormat::Combined, &usual());
    let reader = std::thread::spawn(move || {
        let mut text = vec![0; usize::try_from(LINES - lost).unwrap() * line.len()];
        pipe.read_exact(&mut text).unwrap();
        (text, pipe)
    });
    log.finish();
    let (text, _pipe) = reader.join().unwrap();
    // Every line that was not counted as lost arrived, whole; about the queue's limit of them.
    assert_eq!(count_lines(&text), LINES - lost);
    assert!(text.len() > QUEUE_BYTES / 2 && text.len() < QUEUE_BYTES + 4 * BUFFER_BYTES, "{}", text.len());
    assert!(text.ends_with(b"\"Mozilla/5.0 (X11; Linux x86_64)\"\n"));
    assert_eq!(reports.lines_lost(), lost);
    assert!(
        reports.all()[0].starts_with("access log: it cannot be written fast enough; "),
        "{:?}",
        reports.all()
    );
}

#[test]
fn many_cores_lose_nothing() {
    const CORES: usize = 8;
    const LINES: usize = 10_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let (log, reports) = start(&path, LineFormat::Combined);
    let threads: Vec<_> = (0..CORES)
        .map(|core| {
            let mut buffer = log.core_buffer();
            std::thread::spawn(move || {
                for number in 0..LINES {
                    buffer.record(&numbered(format!("{core} {number}").as_bytes()));
                    if number % 997 == 0 {
                        buffer.flush();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    log.finish();
    let text = fs::read_to_string(&path).unwrap();
    let mut next = [0; CORES];
    for line in text.lines() {
        let request_line = line.split('"').nth(1).unwrap();
        let (core, number) = request_line.split_once(' ').unwrap();
        let core: usize = core.parse().unwrap();
        // In order within a core.
        assert_eq!(number.parse(), Ok(next[core]));
        next[core] += 1;
    }
    assert_eq!(next, [LINES; CORES]);
    assert!(reports.all().is_empty());
}

#[test]
fn a_line_longer_than_a_buffer_is_written_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let (log, reports) = start(&path, LineFormat::Json);
    let mut buffer = log.core_buffer();
    let target = vec![0xFF; 200_000];
    let record = Record { target: &target, ..usual() };
    for _ in 0..40 {
        buffer.record(&usual());
        buffer.record(&record);
        assert!(buffer.queued_bytes <= QUEUE_BYTES || buffer.queued == 1);
    }
    drop(buffer);
    let lost = log.lost_lines();
    log.finish();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count() as u64, 80 - lost);
    for line in text.lines() {
        let read: Value = serde_json::from_str(line).unwrap();
        assert!([11, 200_000].contains(&read["target"].as_str().unwrap().chars().count()));
    }
    assert_eq!(reports.lines_lost(), lost);
}

#[test]
fn a_core_after_the_end_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let (log, reports) = start(&path, LineFormat::Common);
    let mut buffer = log.core_buffer();
    buffer.record(&usual());
    log.finish();
    buffer.record(&usual());
    drop(buffer);
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    assert_eq!(reports.all(), ["access log: it cannot be written fast enough; 2 lines lost"]);
}

/// After the first buffers, records reuse memory: a buffer that was written is returned.
#[test]
fn buffers_are_returned() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let (log, _) = start(&path, LineFormat::Combined);
    let mut buffer = log.core_buffer();
    for _ in 0..20 {
        buffer.record(&usual());
        buffer.take_returned();
        buffer.pass_on();
        // Wait for the writer, so that the count is certain.
        while buffer.queued > 0 {
            buffer.take_returned();
            std::thread::yield_now();
        }
        assert_eq!(buffer.spare.len(), 1);
        assert_eq!(buffer.lines.capacity(), BUFFER_BYTES);
    }
    drop(buffer);
    log.finish();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 20);
}
