//! Sends cases of HTTP/2, frame by frame, over TLS. It acknowledges the server's SETTINGS; the script sends
//! all other frames.

use super::http1::read;
use super::{Watch, now, tls};
use crate::case::{Action, Facts, FrameStep, http2_bytes};
use crate::transcript::{BYTES_MAX, EndState, Part, Transcript};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one attempt to read waits.
const TICK: Duration = Duration::from_millis(10);
/// The acknowledgement of SETTINGS.
const ACKNOWLEDGEMENT: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Sends the steps on one connection.
pub(super) fn connection(
    address: SocketAddr,
    steps: &[FrameStep],
    facts: &Facts,
    watch: &Watch<'_>,
) -> Result<Transcript, String> {
    let mut open = Open {
        stream: connect(address, watch)?,
        transcript: Transcript { parts: vec![Part::default()], ..Transcript::default() },
        acknowledged: false,
    };
    for step in steps {
        match &step.action {
            Action::Wait(milliseconds) => open.read_for(Duration::from_millis(*milliseconds), |_| false),
            Action::Await(stream) => {
                let id = u64::from(*stream);
                open.read_for(watch.patience.whole, |transcript| crate::judge::has_ended(transcript, id));
            }
            action => {
                let bytes = http2_bytes(action, facts, now());
                // A server may close the connection before it has read all frames.
                if open.stream.write_all(&bytes).and_then(|()| open.stream.flush()).is_err() {
                    break;
                }
            }
        }
    }
    let started = Instant::now();
    let mut kept = None;
    while open.read_once() {
        match (watch.is_kept)(&open.transcript) {
            true => _ = kept.get_or_insert_with(|| started.elapsed()),
            false => kept = None,
        }
        if watch.is_over(started.elapsed(), kept) {
            break;
        }
    }
    Ok(open.transcript)
}

struct Open {
    stream: Stream,
    transcript: Transcript,
    acknowledged: bool,
}

impl Open {
    /// Reads the bytes that are available, or waits one tick for them; false at the end.
    fn read_once(&mut self) -> bool {
        let part = &mut self.transcript.parts[0];
        read(&mut self.stream, part);
        // The type of the server's first frame, once its header has arrived.
        if !self.acknowledged && part.bytes.0.len() >= 9 && part.bytes.0[3] == 4 {
            self.acknowledged = true;
            // If the server has already closed, the next read reports it.
            let _ = self.stream.write_all(&ACKNOWLEDGEMENT).and_then(|()| self.stream.flush());
        }
        let part = &self.transcript.parts[0];
        part.ending == EndState::Open && part.bytes.0.len() < BYTES_MAX
    }

    fn read_for(&mut self, time: Duration, is_done: impl Fn(&Transcript) -> bool) {
        let started = Instant::now();
        while started.elapsed() < time && !is_done(&self.transcript) && self.read_once() {}
    }
}

fn connect(address: SocketAddr, watch: &Watch<'_>) -> Result<Stream, String> {
    let failed = |error: std::io::Error| format!("no connection: {error}");
    let mut socket = TcpStream::connect_timeout(&address, watch.patience.whole).map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    socket.set_read_timeout(Some(watch.patience.whole)).map_err(failed)?;
    socket.set_write_timeout(Some(watch.patience.whole)).map_err(failed)?;
    let name = ServerName::from(address.ip());
    let mut session =
        ClientConnection::new(Arc::new(tls::config(b"h2")?), name).map_err(|error| error.to_string())?;
    while session.is_handshaking() {
        session.complete_io(&mut socket).map_err(|error| format!("no TLS: {error}"))?;
    }
    if session.alpn_protocol() != Some(b"h2") {
        return Err("it does not agree to HTTP/2".to_owned());
    }
    socket.set_read_timeout(Some(TICK)).map_err(failed)?;
    Ok(StreamOwned::new(session, socket))
}
