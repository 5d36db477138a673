//! The result directory: `result.json`, the raw histograms (`latency.hlog`), the time line (`timeline.csv`),
//! every virtual client (`clients.csv`), everything that was measured (`raw.jsonl`), and below `systems/` the
//! configuration and the output of each system under test.
//!
//! Every file is written under a temporary name and then renamed, so that a reader never finds an incomplete
//! file.

use crate::raw::RawMix;
use crate::result::{MixResult, ResultFile, SystemResult};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use touchstone_conformance::record::{self, Line};

/// The name of the result file in the directory.
pub const RESULT_FILE: &str = "result.json";

/// The directory of a run's result.
#[derive(Debug, Clone)]
pub struct ResultDirectory {
    path: PathBuf,
    /// The directories that were made for it, the innermost first.
    created_directories: Vec<PathBuf>,
}

/// One mix's latency histogram, with the system, run and mix that it belongs to.
#[derive(Debug, Clone)]
pub struct LoggedHistogram {
    /// The system's name and the mix's, for example `nginx/16_clients`; between them the interface's, where
    /// there are several.
    pub tag: String,
    /// When the counted window began.
    pub window_start: SystemTime,
    /// The counted window.
    pub window: Duration,
    /// Nanoseconds of every valid answer in the window.
    pub latency_ns: Histogram<u64>,
}

impl ResultDirectory {
    /// Makes the directory; one that is there must be empty, so that no earlier result is overwritten.
    pub fn create(path: &Path) -> Result<ResultDirectory, String> {
        let place = path.display();
        let missing = path.ancestors().filter(|ancestor| *ancestor != Path::new("") && !ancestor.exists());
        let created_directories: Vec<PathBuf> =
            missing.filter_map(|ancestor| std::path::absolute(ancestor).ok()).collect();
        fs::create_dir_all(path)
            .map_err(|error| format!("the output directory {place} cannot be made: {error}"))?;
        // Servers get paths below it, and run in their own directories.
        let path =
            fs::canonicalize(path).map_err(|error| format!("the output directory {place}: {error}"))?;
        let mut entries = fs::read_dir(&path)
            .map_err(|error| format!("the output directory {place} cannot be read: {error}"))?;
        if entries.next().is_some() {
            return Err(format!("the output directory {place} is not empty; name another with --output"));
        }
        let directory = ResultDirectory { path, created_directories };
        write_atomically(&directory.path.join(".writable"), b"")
            .and_then(|()| fs::remove_file(directory.path.join(".writable")))
            .map_err(|error| format!("the output directory {place} cannot be written: {error}"))?;
        Ok(directory)
    }

    /// Its path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The result file's path.
    pub fn result_path(&self) -> PathBuf {
        self.path.join(RESULT_FILE)
    }

    /// Creates the directory of one system under test and returns its path.
    pub fn system_directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join("systems").join(file_name(name));
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Writes all files of the result.
    pub fn write(&self, result: &ResultFile, histograms: &[LoggedHistogram]) -> io::Result<()> {
        write_atomically(&self.path.join("timeline.csv"), timeline_csv(result).as_bytes())?;
        write_atomically(&self.path.join("clients.csv"), clients_csv(result).as_bytes())?;
        write_atomically(&self.path.join("latency.hlog"), &interval_log(result, histograms)?)?;
        let mut json = serde_json::to_vec_pretty(result).map_err(io::Error::other)?;
        json.push(b'\n');
        write_atomically(&self.result_path(), &json)
    }

    /// Adds the data of one mix to the raw data.
    pub fn append_raw(&self, mix: &RawMix) -> io::Result<()> {
        let mut line = serde_json::to_vec(mix).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.path.join(crate::raw::FILE_NAME))?;
        file.write_all(&line)
    }

    /// Adds the received bytes of the cases of conformance.
    pub fn append_conformance(&self, lines: &[Line]) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(io::Error::other)?;
            text.push(b'\n');
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(self.path.join(record::FILE_NAME))?;
        file.write_all(&text)
    }

    /// Removes the directory again if the run was refused before it wrote anything.
    pub fn remove_if_empty(&self) {
        // A directory is removed only if it is empty.
        let _ = fs::remove_dir(self.path.join("systems"));
        for directory in &self.created_directories {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Writes a file under a temporary name and renames it.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let temporary = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    fs::write(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// A name that is safe as a file name: a URL's slashes and colons become underscores.
pub fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    name.chars().map(safe).collect::<String>().trim_start_matches('.').to_string()
}

fn rows(result: &ResultFile) -> impl Iterator<Item = (&SystemResult, &MixResult)> {
    result.systems.iter().flat_map(|system| system.mixes.iter().map(move |mix| (system, mix)))
}

/// The time line of every mix.
pub fn timeline_csv(result: &ResultFile) -> String {
    let mut csv = String::from(
        "system,interface,mix,run,clients,at_s,requests_per_second,errors,p50_us,p99_us,server_cpus,server_resident_bytes,\
         machine_cpu_share,load_cpus\n",
    );
    for (system, mix) in rows(result) {
        for row in &mix.timeline {
            // Writing to a String cannot fail.
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{:.3},{:.1},{},{},{},{},{},{},{}",
                csv_text(&system.name),
                csv_text(&mix.interface),
                csv_text(&mix.name),
                mix.run,
                mix.clients,
                row.at_s,
                row.requests_per_second,
                row.errors,
                csv_number(row.p50_us),
                csv_number(row.p99_us),
                csv_number(row.server_cpus),
                row.server_resident_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                csv_number(row.machine_cpu_share),
                csv_number(row.load_cpus),
            );
        }
    }
    csv
}

/// Every virtual client of every mix.
pub fn clients_csv(result: &ResultFile) -> String {
    let mut csv =
        String::from("system,interface,mix,run,clients,client,requests,errors,bytes,mean_us,p95_us,max_us\n");
    for (system, mix) in rows(result) {
        for row in &mix.client_rows {
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{:.3},{:.3},{:.3}",
                csv_text(&system.name),
                csv_text(&mix.interface),
                csv_text(&mix.name),
                mix.run,
                mix.clients,
                row.client,
                row.requests,
                row.errors,
                row.bytes,
                row.mean_us,
                row.p95_us,
                row.max_us,
            );
        }
    }
    csv
}

/// A field by RFC 4180: quoted where it must be. A text that a spreadsheet would interpret as a formula gets
/// a `'` before it, so that a name from outside is not executed.
pub fn csv_text(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        return csv_text(&format!("'{text}"));
    }
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// Empty for what was not measured.
fn csv_number(number: Option<f64>) -> String {
    number.map(|number| format!("{number:.3}")).unwrap_or_default()
}

/// The interval log of HdrHistogram, one line a run of a mix, tagged `system/mix` or `system/interface/mix`,
/// from the second run on with `/run2` and so on; values are nanoseconds, and the column of the greatest
/// value is in milliseconds.
fn interval_log(result: &ResultFile, histograms: &[LoggedHistogram]) -> io::Result<Vec<u8>> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start = histograms.iter().map(|logged| logged.window_start).min().unwrap_or_else(SystemTime::now);
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment(&format!("{} {}, started {}", result.tool.name, result.suite.name, result.started_at))
        .add_comment(
            "latency in nanoseconds; a line for each run of a mix, tagged system/mix or system/interface/mix",
        )
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut log, &mut serializer)?;
    for logged in histograms {
        let tag: String =
            logged.tag.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect();
        let since_start = logged.window_start.duration_since(start).unwrap_or_default();
        writer
            .write_histogram(&logged.latency_ns, since_start, logged.window, Tag::new(&tag))
            .map_err(|error| io::Error::other(format!("latency.hlog: {error:?}")))?;
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn the_directory_must_be_new_or_empty_and_writable() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("results/one");
        let directory = ResultDirectory::create(&path).unwrap();
        directory.remove_if_empty();
        assert!(!path.exists() && !place.path().join("results").exists() && place.path().exists());
        let directory = ResultDirectory::create(&path).unwrap();
        fs::write(directory.result_path(), "{}").unwrap();
        assert!(ResultDirectory::create(&path).unwrap_err().contains("is not empty"));
        directory.remove_if_empty();
        assert!(directory.result_path().exists());
        fs::write(place.path().join("file"), "").unwrap();
        assert!(
            ResultDirectory::create(&place.path().join("file/below")).unwrap_err().contains("cannot be made")
        );
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let place = tempfile::tempdir().unwrap();
        let directory = ResultDirectory::create(place.path()).unwrap();
        let result = sample::result();
        let mut latency_ns = Histogram::new(3).unwrap();
        latency_ns.record_n(250_000, 40).unwrap();
        let window_start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let logged = LoggedHistogram {
            tag: "http://a b,c/1_client".to_string(),
            window_start,
            window: Duration::from_secs(5),
            latency_ns: latency_ns.clone(),
        };
        directory.write(&result, &[logged]).unwrap();
        assert_eq!(crate::read_result::read(directory.path()).unwrap().0, result);

        let timeline = fs::read_to_string(place.path().join("timeline.csv")).unwrap();
        let rows: usize = result.systems.iter().flat_map(|s| &s.mixes).map(|mix| mix.timeline.len()).sum();
        assert_eq!(timeline.lines().count(), rows + 1);
        let columns = timeline.lines().next().unwrap().matches(',').count();
        assert!(timeline.lines().all(|line| line.matches(',').count() == columns));

        let log = fs::read(place.path().join("latency.hlog")).unwrap();
        let mut deserializer = hdrhistogram::serialization::Deserializer::new();
        let found = IntervalLogIterator::new(&log)
            .find_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .unwrap();
        assert_eq!(found.tag().unwrap().as_str(), "http://a_b_c/1_client");
        let bytes = decode_base64(found.encoded_histogram());
        let read: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read, latency_ns);
    }

    #[test]
    fn names_are_made_safe() {
        assert_eq!(file_name("http://127.0.0.1:80/x"), "http___127.0.0.1_80_x");
        assert_eq!(file_name("../up"), "_up");
        assert_eq!(csv_text("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_text("=1+1"), "'=1+1");
        assert_eq!(csv_text("@SUM(a,b)"), "\"'@SUM(a,b)\"");
    }

    fn decode_base64(text: &str) -> Vec<u8> {
        let value = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').collect();
        let bits = |chunk: &[u8]| chunk.iter().fold(0u32, |bits, c| bits << 6 | u32::from(value(*c)));
        let bytes = |chunk: &[u8]| {
            let all = (bits(chunk) << (6 * (4 - chunk.len()))).to_be_bytes();
            all[1..chunk.len()].to_vec()
        };
        digits.chunks(4).flat_map(bytes).collect()
    }
}
