//! Requests that another server answers: HTTP/1.1 to an origin over TCP or a unix socket.
//!
//! Each core keeps connections of its own. Request and response stream, both at once, so that a long upload, a stream of
//! events and a WebSocket all pass. A kept connection that the origin has closed in the meantime costs a second try on a
//! new one, where that is safe (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1).
//!
//! | module | |
//! |---|---|
//! | `settings` | where the origin is, and how long it may take |
//! | `fields` | what of a head goes on, and what is said about the client |
//! | `connection` | how a connection to the origin comes about |
//! | `transfer` | one request on it: the body there, the response back |

mod connection;
mod fields;
mod settings;
mod transfer;

pub use settings::{Address, HostField, OriginUrl, ProxySettings};

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_http::request::Method;

use crate::answer::Answer;
use crate::handler::{Handled, Handler, Interface, Level, OnCore, Server};
use crate::pipe::Receiver;
use crate::request::Request;
use crate::stream::Stream;
use connection::connect;
use transfer::{Failure, Transfer};

/// An origin, as a configuration has it.
pub struct Proxy {
    settings: Arc<ProxySettings>,
}

impl Proxy {
    /// The origin with these settings.
    pub fn new(settings: ProxySettings) -> Proxy {
        Proxy { settings: Arc::new(settings) }
    }
}

impl Interface for Proxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(ProxyOfCore {
            settings: self.settings.clone(),
            idle: Rc::new(IdleConnections {
                connections: RefCell::default(),
                settings: self.settings.clone(),
            }),
            server,
        })
    }
}

struct ProxyOfCore {
    settings: Arc<ProxySettings>,
    idle: Rc<IdleConnections>,
    server: Rc<dyn Server>,
}

/// Connections without a request; those that were used last are used next.
struct IdleConnections {
    connections: RefCell<VecDeque<(Stream, Instant)>>,
    settings: Arc<ProxySettings>,
}

impl IdleConnections {
    fn take(&self) -> Option<Stream> {
        let mut connections = self.connections.borrow_mut();
        while let Some((connection, since)) = connections.pop_back() {
            if since.elapsed() > self.settings.keep_alive_timeout {
                // The others are older still.
                connections.clear();
                return None;
            }
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Stream) {
        let mut connections = self.connections.borrow_mut();
        if self.settings.idle_connections == 0 {
            return;
        }
        while connections.len() >= self.settings.idle_connections {
            connections.pop_front();
        }
        connections.push_back((connection, Instant::now()));
    }
}

impl Handler for ProxyOfCore {
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled> {
        Box::pin(async move {
            let answer = match self.pass_on(request).await {
                Ok(answer) => answer,
                Err(failure) => {
                    let message = format!("origin {}: {failure}", self.settings.origin);
                    self.server.log(Level::Warning, "origin", &message);
                    Answer::error(failure.status())
                }
            };
            Handled::Answer(answer)
        })
    }
}

impl ProxyOfCore {
    async fn pass_on(&self, mut request: Request) -> Result<Answer, Failure> {
        let Some(head) = fields::request_head(&self.settings, &request) else {
            return Ok(Answer::error(400));
        };
        let is_head = request.method() == Method::Head;
        let body_length = request.body_length();
        let switches = fields::wants_to_switch(&request);
        let mut body = std::mem::replace(&mut request.body, Receiver::of(bytes::Bytes::new()));
        // What may be sent twice without harm: nothing of a body was read, and the method asks for nothing to happen twice.
        let may_repeat = body_length == Some(0) && !switches && is_idempotent(request.method());
        if let Some(connection) = self.idle.take() {
            let transfer = Transfer {
                connection,
                head: head.clone(),
                body,
                body_length,
                is_head,
                switches,
                settings: self.settings.clone(),
            };
            match transfer.run(self.give_back()).await {
                Err(Failure::ClosedBeforeResponse(_)) if may_repeat => {
                    body = Receiver::of(bytes::Bytes::new())
                }
                result => return result,
            }
        }
        let connection = self.connect().await?;
        let settings = self.settings.clone();
        Transfer { connection, head, body, body_length, is_head, switches, settings }
            .run(self.give_back())
            .await
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let connecting = connect(&self.settings.origin.address);
        match tokio::time::timeout(self.settings.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Failure::Connect(error)),
            Err(_) => Err(Failure::Connect(io::ErrorKind::TimedOut.into())),
        }
    }

    fn give_back(&self) -> impl FnOnce(Stream) + 'static {
        let idle = self.idle.clone();
        move |connection| idle.give_back(connection)
    }
}

/// RFC 9110 section 9.2.2.
fn is_idempotent(method: Method) -> bool {
    matches!(
        method,
        Method::Get | Method::Head | Method::Put | Method::Delete | Method::Options | Method::Trace
    )
}
