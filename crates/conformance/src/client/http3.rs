//! Sends cases of HTTP/3, frame by frame, on the streams of QUIC.

use super::{Watch, now, tls};
use crate::case::{Action, Facts, FrameStep, StreamName, http3_bytes};
use crate::transcript::{BYTES_MAX, Bytes, EndState, Part, Transcript};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream, VarInt};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval at which received bytes are checked.
const TICK: Duration = Duration::from_millis(10);
/// Marks an error of QUIC itself among the codes of HTTP/3.
const OF_TRANSPORT: u64 = 1 << 40;

/// Sends the steps on one connection.
pub(super) fn connection(
    address: SocketAddr,
    steps: &[FrameStep],
    facts: &Facts,
    watch: &Watch<'_>,
) -> Result<Transcript, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let (endpoint, connection) = connect(address, watch).await?;
        let received = Arc::new(Mutex::new(Transcript::default()));
        tokio::spawn(accept(connection.clone(), Arc::clone(&received)));
        let mut streams = Streams { connection: connection.clone(), received, open: BTreeMap::new() };
        for step in steps {
            if streams.step(step, facts).await.is_err() {
                break;
            }
        }
        let started = Instant::now();
        let mut kept = None;
        loop {
            tokio::time::sleep(TICK).await;
            let transcript = streams.transcript();
            match (watch.is_kept)(&transcript) {
                true => _ = kept.get_or_insert_with(|| started.elapsed()),
                false => kept = None,
            }
            if transcript.connection_close.is_some() || watch.is_over(started.elapsed(), kept) {
                connection.close(VarInt::from_u32(0x100), b"");
                // The rest of the close is sent while the endpoint exists.
                let _ = tokio::time::timeout(Duration::from_millis(50), endpoint.wait_idle()).await;
                return Ok(transcript);
            }
        }
    })
}

struct Streams {
    connection: Connection,
    received: Arc<Mutex<Transcript>>,
    open: BTreeMap<StreamName, SendStream>,
}

impl Streams {
    /// An error means that the server has stopped reading.
    async fn step(&mut self, step: &FrameStep, facts: &Facts) -> Result<(), ()> {
        if let Action::Wait(milliseconds) = step.action {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            return Ok(());
        }
        if !self.open.contains_key(&step.stream) {
            let stream = self.begin(step.stream).await.map_err(|_| ())?;
            self.open.insert(step.stream, stream);
        }
        let Some(stream) = self.open.get_mut(&step.stream) else { return Err(()) };
        match &step.action {
            Action::Finish => stream.finish().map_err(|_| ()),
            Action::Reset(code) => stream.reset(VarInt::from_u64(*code).map_err(|_| ())?).map_err(|_| ()),
            action => stream.write_all(&http3_bytes(action, facts, now())).await.map_err(|_| ()),
        }
    }

    async fn begin(&mut self, name: StreamName) -> Result<SendStream, ConnectionError> {
        if !matches!(name, StreamName::Request | StreamName::Request2) {
            return self.connection.open_uni().await;
        }
        let (send, receive) = self.connection.open_bi().await?;
        tokio::spawn(take(receive, Arc::clone(&self.received)));
        Ok(send)
    }

    fn transcript(&self) -> Transcript {
        let mut transcript = locked(&self.received).clone();
        transcript.connection_close = match self.connection.close_reason() {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
            Some(ConnectionError::ConnectionClosed(close)) => {
                Some(OF_TRANSPORT | u64::from(close.error_code))
            }
            Some(_) => Some(OF_TRANSPORT),
            None => None,
        };
        transcript
    }
}

/// Accepts the streams that the server opens.
async fn accept(connection: Connection, received: Arc<Mutex<Transcript>>) {
    while let Ok(stream) = connection.accept_uni().await {
        tokio::spawn(take(stream, Arc::clone(&received)));
    }
}

/// Receives bytes of a stream.
async fn take(mut stream: RecvStream, received: Arc<Mutex<Transcript>>) {
    let id = VarInt::from(stream.id()).into_inner();
    let place = {
        let mut transcript = locked(&received);
        transcript.parts.push(Part { id, ..Part::default() });
        transcript.parts.len() - 1
    };
    loop {
        let chunk = stream.read_chunk(16 * 1024, true).await;
        let mut transcript = locked(&received);
        let part = &mut transcript.parts[place];
        match chunk {
            Ok(Some(chunk)) => {
                let room = BYTES_MAX.saturating_sub(part.bytes.0.len());
                part.bytes = Bytes([&part.bytes.0[..], &chunk.bytes[..chunk.bytes.len().min(room)]].concat());
            }
            Ok(None) => {
                part.ending = EndState::Closed;
                return;
            }
            Err(ReadError::Reset(code)) => {
                part.ending = EndState::Reset(code.into_inner());
                return;
            }
            Err(_) => return,
        }
    }
}

fn locked(received: &Mutex<Transcript>) -> MutexGuard<'_, Transcript> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn connect(address: SocketAddr, watch: &Watch<'_>) -> Result<(Endpoint, Connection), String> {
    let config = QuicClientConfig::try_from(tls::config(b"h3")?).map_err(|error| error.to_string())?;
    let own: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let failed = |error: &dyn std::fmt::Display| format!("no connection of QUIC: {error}");
    let mut endpoint = Endpoint::client(own).map_err(|error| failed(&error))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(config)));
    let name = address.ip().to_string();
    let connecting = endpoint.connect(address, &name).map_err(|error| failed(&error))?;
    let connection = tokio::time::timeout(watch.patience.whole, connecting).await;
    let connection = connection.map_err(|_| failed(&"no answer"))?.map_err(|error| failed(&error))?;
    Ok((endpoint, connection))
}
