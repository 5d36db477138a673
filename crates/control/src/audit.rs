//! The audit log: a line of JSON for each change, accepted or refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use touchstone_observe::log::error::ErrorLog;

/// The maximum number of lines a minute for requests of unauthenticated clients.
const MOST_UNKNOWN: u32 = 60;

/// The audit log.
pub struct AuditLog {
    file: Option<(PathBuf, File)>,
    error_log: ErrorLog,
    unknown: UnknownClients,
}

/// Counts the lines for unauthenticated clients.
struct UnknownClients {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl AuditLog {
    /// Opens the file. Without a path the lines go to the error log.
    pub fn open(path: Option<&Path>, error_log: ErrorLog) -> Result<AuditLog, String> {
        let open = |path: &Path| {
            let file = open_file(path).map_err(|error| {
                format!("control.audit_log '{}' cannot be written: {error}", path.display())
            })?;
            Ok::<_, String>((path.to_path_buf(), file))
        };
        let unknown = UnknownClients { since: Instant::now(), written: 0, left_out: 0 };
        Ok(AuditLog { file: path.map(open).transpose()?, error_log, unknown })
    }

    /// Reopens the file after it was renamed. If that fails, the old file stays open.
    pub fn reopen(&mut self) -> Result<(), String> {
        if let Some((path, file)) = &mut self.file {
            *file = open_file(path).map_err(|error| {
                format!("control.audit_log '{}' stays as it was: {error}", path.display())
            })?;
        }
        Ok(())
    }

    /// Writes a line. A line that cannot be written to the file goes to the error log.
    pub fn write(&mut self, record: &Value) {
        if let Some((path, file)) = &mut self.file {
            match file.write_all(format!("{record}\n").as_bytes()) {
                Ok(()) => return,
                Err(error) => self
                    .error_log
                    .error(format_args!("control.audit_log '{}' cannot be written: {error}", path.display())),
            }
        }
        self.error_log.info(format_args!("control: {record}"));
    }

    /// Writes a line for an unauthenticated client, unless this minute already has the maximum number of
    /// them.
    pub fn write_of_unknown(&mut self, mut record: Value) {
        let unknown = &mut self.unknown;
        if unknown.since.elapsed() > Duration::from_secs(60) {
            (unknown.since, unknown.written) = (Instant::now(), 0);
        }
        if unknown.written >= MOST_UNKNOWN {
            unknown.left_out += 1;
            return;
        }
        unknown.written += 1;
        let left_out = std::mem::take(&mut unknown.left_out);
        if left_out > 0 {
            record["left_out_before"] = left_out.into();
        }
        self.write(&record);
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// The present time, for example `2026-11-27T06:12:25.123Z`.
pub fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let millisecond = now.replace_nanosecond(now.nanosecond() / 1_000_000 * 1_000_000).unwrap_or(now);
    millisecond.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use touchstone_observe::log::{ErrorLogConfig, LogDestination, LogLevel};

    #[test]
    fn lines_are_kept_after_a_rotation_and_those_of_unknown_clients_are_limited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let error_log = ErrorLog::start(&ErrorLogConfig::new(LogDestination::Off, LogLevel::Info)).unwrap();
        let mut log = AuditLog::open(Some(&path), error_log.clone()).unwrap();
        log.write(&json!({ "number": 1 }));
        let rotated = directory.path().join("audit.log.1");
        std::fs::rename(&path, &rotated).unwrap();
        log.reopen().unwrap();
        for number in 0..u64::from(MOST_UNKNOWN) + 5 {
            log.write_of_unknown(json!({ "number": number }));
        }
        log.write(&json!({ "number": 2 }));
        assert_eq!(std::fs::read_to_string(&rotated).unwrap(), "{\"number\":1}\n");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), MOST_UNKNOWN as usize + 1);
        log.unknown.since -= Duration::from_secs(61);
        log.write_of_unknown(json!({}));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().last(), Some("{\"left_out_before\":5}"));
        assert!(AuditLog::open(Some(directory.path()), error_log).is_err());
    }

    #[test]
    fn times_have_milliseconds() {
        let now = now();
        assert!(now.len() <= 24 && now.ends_with('Z') && now.contains('T'), "{now}");
    }
}
