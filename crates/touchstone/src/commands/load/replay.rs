//! A recorded load, repeated: every request of an access log or a HAR at its own time, at the recorded speed
//! or some times faster.

use super::Arguments;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use touchstone_load::{HttpUrl, MAXIMUM_REQUESTS, PlannedRequest, Recorded};
use touchstone_suite_import::{LogFormat, RecordedRequest, Recording, access_log, file_text, har};

/// How long the run continues after the last request is due, so that this request starts within it.
const AFTER_THE_LAST: Duration = Duration::from_millis(10);

/// The recorded load.
pub(super) struct Replay {
    /// In words.
    pub(super) subject: String,
    /// The server of the recording, if the recording states it.
    pub(super) origin: Option<String>,
    /// The different requests.
    pub(super) requests: Vec<PlannedRequest>,
    /// All of them with their times.
    pub(super) recorded: Arc<[Recorded]>,
    /// Until the last one was due.
    pub(super) length: Duration,
}

/// Reads the recording that `--replay` names.
pub(super) fn read(arguments: &Arguments, path: &Path) -> Result<Replay, String> {
    if !(0.000_1..=100_000.0).contains(&arguments.speed) {
        return Err(format!("--speed {}: from 0.0001 to 100000", arguments.speed));
    }
    let file = path.display().to_string();
    let opened = std::fs::File::open(path).map_err(|error| format!("{file}: {error}"))?;
    let text = file_text(&file, opened).map_err(|error| error.to_string())?;
    let recording = recording(&file, &text, arguments.log_format.as_ref())?;
    let mut recorded = Vec::with_capacity(recording.requests.len());
    let (mut places, mut requests) = (HashMap::new(), Vec::new());
    for request in &recording.requests {
        let after = request.after.ok_or_else(|| {
            format!(
                "{file}: not every request in it has a time, so that it cannot be replayed; `touchstone \
                     import` makes a suite of it"
            )
        })?;
        let key = (&request.method, &request.path, &request.headers, &request.body, request.status);
        let place = *places.entry(key).or_insert_with(|| {
            requests.push(planned(request));
            requests.len() - 1
        });
        if requests.len() > MAXIMUM_REQUESTS {
            return Err(format!(
                "{file}: more than {MAXIMUM_REQUESTS} different requests; replay a part of it"
            ));
        }
        recorded.push(Recorded { after: after.div_f64(arguments.speed), request: place });
    }
    recorded.sort_by_key(|recorded| recorded.after);
    let length = recorded.last().map_or(Duration::ZERO, |last| last.after) + AFTER_THE_LAST;
    Ok(Replay {
        subject: subject(&file, recorded.len(), arguments.speed, &recording.notes),
        origin: recording.origin,
        requests,
        recorded: recorded.into(),
        length,
    })
}

fn recording(file: &str, text: &str, format: Option<&LogFormat>) -> Result<Recording, String> {
    // A log of JSON has an object in each line, a HAR is one object with the log in it.
    let is_har = format.is_none()
        && (file.ends_with(".har") || text.trim_start().starts_with('{') && har::looks_like(text));
    let read = match is_har {
        true => har::read(file, text, &har::HarOptions { origin: None, with_secrets: true }),
        false => access_log::read(file, text, format),
    };
    read.map_err(|error| error.to_string())
}

fn planned(request: &RecordedRequest) -> PlannedRequest {
    // Requests that failed in the recording may fail again.
    let failed = request.status.filter(|status| *status >= 400);
    PlannedRequest {
        method: request.method.clone(),
        headers: request.headers.clone(),
        body: request.body.as_ref().map(|body| body.as_bytes().into()),
        expected_status: failed.map_or_else(Vec::new, |status| vec![200..=399, status..=status]),
        ..PlannedRequest::get(request.path.clone())
    }
}

fn subject(file: &str, count: usize, speed: f64, notes: &[String]) -> String {
    let count = touchstone_lab::figures::count(count as u64);
    let speed = if speed == 1.0 {
        "as fast as they were made".to_string()
    } else {
        format!("{} times as fast as they were made", touchstone_lab::figures::significant(speed))
    };
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    format!("{count} requests of {file}, {speed}{notes}")
}

/// The URL of the server: that of the command line, or that of the recording.
pub(super) fn server(replay: &Replay, given: Option<&HttpUrl>) -> Result<HttpUrl, String> {
    match (given, &replay.origin) {
        (Some(url), _) if url.path != "/" => {
            Err("a recording has its own paths: state only the server, http://HOST[:PORT]/".to_string())
        }
        (Some(url), _) => Ok(url.clone()),
        (None, Some(origin)) => HttpUrl::parse(origin).map_err(|error| error.0),
        (None, None) => Err("the recording does not contain its server: add its URL".to_string()),
    }
}
