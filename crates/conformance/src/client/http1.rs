//! Sends cases of HTTP/1, byte by byte.

use super::{TimeLimits, Watch, now};
use crate::case::{Facts, Step, bytes};
use crate::transcript::{BYTES_MAX, Bytes, EndState, Part, Transcript};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one attempt to read waits.
const TICK: Duration = Duration::from_millis(10);
/// How long `{pause}` is.
const PAUSE: Duration = Duration::from_millis(150);

/// Sends a text on one connection. `{pause}` waits, `{fin}` closes the client's side.
pub(super) fn connection(address: SocketAddr, text: &str, watch: &Watch<'_>) -> Result<Transcript, String> {
    let stream = connect(address, watch.patience)?;
    let mut transcript = Transcript { parts: vec![Part::default()], ..Transcript::default() };
    let mut rest = text;
    while !rest.is_empty() {
        let pause = rest.find("{pause}");
        let (now, then) = pause.map_or((rest, ""), |at| (&rest[..at], &rest[at + "{pause}".len()..]));
        let ends = now.ends_with("{fin}");
        let piece = bytes(now.trim_end_matches("{fin}")).ok_or("a character above U+00FF")?;
        // A server may close the connection before it has read the whole request.
        if write(&stream, &piece).is_err() {
            break;
        }
        if ends {
            // If the server has closed first, there is nothing to close.
            let _ = stream.shutdown(Shutdown::Write);
        }
        if pause.is_some() {
            std::thread::sleep(PAUSE);
        }
        rest = then;
    }
    let started = Instant::now();
    let mut kept = None;
    loop {
        let part = &mut transcript.parts[0];
        read(&stream, part);
        if part.ending != EndState::Open || part.bytes.0.len() >= BYTES_MAX {
            return Ok(transcript);
        }
        match (watch.is_kept)(&transcript) {
            true => _ = kept.get_or_insert_with(|| started.elapsed()),
            false => kept = None,
        }
        if watch.is_over(started.elapsed(), kept) {
            return Ok(transcript);
        }
    }
}

/// Sends requests, each on its own connection.
pub(super) fn steps(
    address: SocketAddr,
    steps: &[Step],
    facts: &Facts,
    url: &str,
    patience: TimeLimits,
) -> Result<Transcript, String> {
    let mut transcript = Transcript::default();
    let mut known = facts.clone();
    for step in steps {
        match step {
            Step::Wait(milliseconds) => std::thread::sleep(Duration::from_millis(*milliseconds)),
            Step::Send(text) => {
                let watch = Watch { is_kept: &is_answered, patience, lingers: false };
                let one = connection(address, &known.fill(text, url, now()), &watch)?;
                let number = transcript.parts.len() as u64;
                transcript.parts.extend(one.parts.into_iter().map(|part| Part { id: number, ..part }));
                learn(&transcript, &mut known);
            }
        }
    }
    Ok(transcript)
}

/// The validators in a cache's answers become the values of `{etag}` and `{modified}`.
fn learn(transcript: &Transcript, facts: &mut Facts) {
    let text = transcript.parts.last().map(|part| String::from_utf8_lossy(&part.bytes.0).into_owned());
    for line in text.unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "etag" => facts.etag = Some(value.trim().to_owned()),
            "last-modified" => facts.modified = Some(value.trim().to_owned()),
            _ => {}
        }
    }
}

/// Whether a complete final answer was received.
pub(super) fn is_answered(transcript: &Transcript) -> bool {
    let Some(part) = transcript.parts.last() else { return false };
    crate::judge::is_answered(part)
}

fn connect(address: SocketAddr, patience: TimeLimits) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("no connection: {error}");
    let stream = TcpStream::connect_timeout(&address, patience.whole).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(TICK)).map_err(failed)?;
    stream.set_write_timeout(Some(patience.whole)).map_err(failed)?;
    Ok(stream)
}

fn write(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes)
}

/// Reads the bytes that are available, or waits one tick for them.
pub(super) fn read(mut stream: impl Read, part: &mut Part) {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(0) => part.ending = EndState::Closed,
        Ok(count) => part.bytes = Bytes([&part.bytes.0[..], &buffer[..count]].concat()),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) => {}
        // A reset, or an end without close_notify.
        Err(_) => part.ending = EndState::Closed,
    }
}
