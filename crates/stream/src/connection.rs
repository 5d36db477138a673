//! The life of a connection: from its acceptance to the end of both sides.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use touchstone_access::StreamPermit;
use touchstone_access::proxy_header;
use touchstone_access::proxy_protocol::ProxySource;
use touchstone_handler::stream_counts::End;
use touchstone_http::request_view::{UNIX_CLIENT, client_name};
use touchstone_proxy::{Preface, RelayConnection};
use touchstone_transport::{Socket, Transport};

use crate::copy::copy;
use crate::first_bytes::{self, Hello, PostgresRequest};
use crate::record::Record;
use crate::stream_of_core::StreamOfCore;

/// Where a connection goes.
struct Destination {
    /// The position of the target.
    target: usize,
    /// The condition that the origin must first accept.
    preface: Option<Preface>,
}

/// Serves a connection until its end. If there is no permit, the connection is from a proxy, and begins with
/// a header.
pub async fn serve(
    stream: Rc<StreamOfCore>,
    record: Record,
    descriptor: OwnedFd,
    permit: Option<StreamPermit>,
) {
    let whole = run(&stream, &record, descriptor, permit);
    let limit = stream.setup.config.total_timeout;
    let end = match limit.is_zero() {
        true => whole.await,
        false => timeout(limit, whole).await.unwrap_or(End::Lifetime),
    };
    record.end(end);
}

async fn run(
    stream: &Rc<StreamOfCore>,
    record: &Record,
    descriptor: OwnedFd,
    permit: Option<StreamPermit>,
) -> End {
    let Ok(mut socket) = TcpStream::from_std(descriptor.into()) else { return End::Client };
    // A unix socket has no address that could be sent to an origin.
    let mut server = match socket.local_addr() {
        Ok(server) => server,
        Err(_) if record.client.get().ip() == UNIX_CLIENT => record.client.get(),
        Err(_) => return End::Client,
    };
    let hello_timeout = stream.setup.config.hello_timeout;
    let _permit = match permit {
        Some(permit) => permit,
        None => match behind_proxy(stream, record, &socket, &mut server).await {
            Ok(permit) => permit,
            Err(end) => return end,
        },
    };
    let destination = match destination(stream, record, &mut socket).await {
        Ok(destination) => destination,
        Err(end) => return end,
    };
    let ends_tls = stream.setup.targets[destination.target].ends_tls;
    let client = match stream.setup.endpoint.as_ref().filter(|_| ends_tls) {
        None => Transport::Plain(Socket::Registered(socket)),
        Some(endpoint) => {
            let (records, counts) = (stream.core.records.clone(), stream.core.counts.clone());
            let mut client = Transport::tls(Socket::Registered(socket), endpoint.session(), records, counts);
            let agreed = std::future::poll_fn(|context| {
                stream.scratch.with(RECORDS_BYTES, |buffer| client.poll_handshake(context, buffer))
            });
            if !matches!(timeout(hello_timeout, agreed).await, Ok(Ok(()))) {
                return End::Tls;
            }
            if let Some(facts) = client.tls_facts() {
                *record.server_name.borrow_mut() = facts.server_name;
            }
            if client.is_acme_challenge() {
                return End::Done;
            }
            client
        }
    };
    match connect(stream, record, &destination, server).await {
        Some(origin) => {
            let config = &stream.setup.config;
            copy(client, origin.stream(), &stream.scratch, record, config.idle_timeout, config.buffer_bytes)
                .await
        }
        None => End::NoOrigin,
    }
}

/// How many bytes of a handshake are received at once.
const RECORDS_BYTES: usize = 16 * 1024;

/// Removes the PROXY header from a connection, and admits the client that it names.
async fn behind_proxy(
    stream: &StreamOfCore,
    record: &Record,
    socket: &TcpStream,
    server: &mut SocketAddr,
) -> Result<StreamPermit, End> {
    let limit = stream.setup.config.hello_timeout;
    match timeout(limit, proxy_header::read(socket)).await {
        Ok(Ok(ProxySource::Client { client, server: named })) => {
            record.client.set(client);
            *server = named;
        }
        Ok(Ok(ProxySource::Local)) => {}
        _ => return Err(End::ProxyHeader),
    }
    stream.admit(record.client.get())
}

/// Finds the target of a connection, by its ClientHello if that chooses one.
async fn destination(
    stream: &StreamOfCore,
    record: &Record,
    socket: &mut TcpStream,
) -> Result<Destination, End> {
    let (setup, config) = (&stream.setup, &stream.setup.config);
    let limit: Duration = config.hello_timeout;
    let mut preface = None;
    if config.is_postgresql {
        let wish = timeout(limit, first_bytes::postgresql(socket)).await.map_err(|_| End::Hello)?;
        match wish.map_err(|_| End::Client)? {
            PostgresRequest::Tls => preface = Some(first_bytes::POSTGRESQL),
            PostgresRequest::DirectTls => {}
            PostgresRequest::Plain => {
                let target = setup.default_target().ok_or(End::NoRoute)?;
                // If TLS must end here, a client without it is refused.
                let is_open = !setup.targets[target].ends_tls;
                return if is_open { Ok(Destination { target, preface: None }) } else { Err(End::Tls) };
            }
        }
    }
    let target = if setup.reads_hello() {
        let hello = first_bytes::hello(socket, &stream.scratch, config.hello_bytes);
        match timeout(limit, hello).await.map_err(|_| End::Hello)?.map_err(|_| End::Client)? {
            Hello::Destination(destination) => {
                let target = setup.target_of(&destination);
                *record.server_name.borrow_mut() = destination.server_name;
                target
            }
            Hello::None => setup.default_target(),
            Hello::TooLong => return Err(End::Hello),
        }
    } else {
        setup.default_target()
    };
    let target = target.ok_or(End::NoRoute)?;
    // If TLS ends here, it is not requested from the origin.
    let preface = preface.filter(|_| !setup.targets[target].ends_tls);
    Ok(Destination { target, preface })
}

/// Connects to an origin of the target.
async fn connect(
    stream: &StreamOfCore,
    record: &Record,
    destination: &Destination,
    server: SocketAddr,
) -> Option<RelayConnection> {
    let client = record.client.get();
    let name = format!("stream {}, client {}", stream.setup.config.name, client_name(client.ip()));
    let relay = &stream.relays[destination.target];
    // Each failure has been logged with its origin.
    let origin = relay.connect((client, server), destination.preface, &name).await?;
    record.origin.replace(origin.origin.clone());
    Some(origin)
}
