//! One exchange with a DNS server: by UDP, and by TCP where an answer does not fit or must not be forged.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::message::Message;

/// How long one answer by UDP may take before the request is repeated.
const UDP_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a request is sent by UDP.
const UDP_ATTEMPTS: usize = 2;

/// How long an exchange by TCP may take.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer by UDP that is received.
const MOST_UDP_BYTES: usize = 4096;

/// A number for a request that others cannot guess.
pub fn new_id() -> Result<u16, String> {
    let mut bytes = [0; 2];
    rand::fill(&mut bytes).map_err(|_| "the system returns no random numbers".to_string())?;
    Ok(u16::from_be_bytes(bytes))
}

/// Sends a query by UDP; the answer is sent by TCP if it is too long for that.
pub async fn query(server: SocketAddr, request: &[u8]) -> Result<Message, String> {
    let about = |error: io::Error| format!("{server}: {error}");
    for _ in 0..UDP_ATTEMPTS {
        match by_udp(server, request).await.map_err(about)? {
            Some(answer) if answer.is_truncated() => return Ok(exchange_by_tcp(server, request).await?.0),
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
    Err(format!("{server}: no answer in {} s", UDP_TIMEOUT.as_secs() * UDP_ATTEMPTS as u64))
}

/// Sends a request by TCP. The answer is returned with its bytes, which a signature covers.
pub async fn exchange_by_tcp(server: SocketAddr, request: &[u8]) -> Result<(Message, Vec<u8>), String> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(request.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), request].concat();
        stream.write_all(&framed).await?;
        let mut bytes = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut bytes).await?;
        Ok::<Vec<u8>, io::Error>(bytes)
    };
    let bytes = match timeout(TCP_TIMEOUT, exchange).await {
        Ok(bytes) => bytes.map_err(|error| format!("{server}: {error}"))?,
        Err(_) => return Err(format!("{server}: no answer by TCP in {} s", TCP_TIMEOUT.as_secs())),
    };
    match Message::parse(&bytes) {
        Some(message) if message.is_answer() && is_of(&message, request) => Ok((message, bytes)),
        _ => Err(format!("{server}: its answer is not a DNS answer to the request")),
    }
}

/// One attempt; `None` if no answer arrived in time.
async fn by_udp(server: SocketAddr, request: &[u8]) -> io::Result<Option<Message>> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(request).await?;
    let until = Instant::now() + UDP_TIMEOUT;
    let mut buffer = vec![0; MOST_UDP_BYTES];
    loop {
        let count = match timeout_at(until, socket.recv(&mut buffer)).await {
            Ok(count) => count?,
            Err(_) => return Ok(None),
        };
        // All other messages are answers to other requests, or forged.
        if let Some(answer) = Message::parse(&buffer[..count])
            && answer.is_answer()
            && is_of(&answer, request)
        {
            return Ok(Some(answer));
        }
    }
}

/// Whether an answer belongs to a request: by its number, and by its question if it repeats one.
fn is_of(answer: &Message, request: &[u8]) -> bool {
    let Some(asked) = Message::parse(request) else { return false };
    answer.id == asked.id && (answer.question.is_none() || answer.question == asked.question)
}
