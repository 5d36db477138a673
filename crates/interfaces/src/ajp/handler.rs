//! The handler of AJP: sends a request to one of several containers.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface, Level, LocalBoxFuture, Server};
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::{MOST_DERIVED, Request};
use touchstone_http::grammar::list_members;
use touchstone_http::request::Method;

use super::code::{PACKET_HEADER_BYTES, attribute};
use super::packet::PacketLimits;
use super::path::ServletPath;
use super::settings::Settings;
use super::writer::{RequestWriter, UnsupportedRequest};
use super::{Ajp, State, request};
use crate::backend::{
    Backends, Call, CallRules, Caller, Group, Owner, Protocol as _, RequestLogName, SharedGroup, Upload,
};
use crate::cgi_response::HeaderLimits;

/// Servlet containers, as configured.
pub struct Containers {
    group: Arc<SharedGroup>,
    settings: Arc<Settings>,
}

impl Containers {
    /// The containers of these settings, among the backends of a server.
    pub fn new(settings: Settings, backends: &Backends) -> Containers {
        let group = SharedGroup::new(settings.group.clone(), backends);
        Containers { group, settings: Arc::new(settings) }
    }
}

impl Interface for Containers {
    fn name(&self) -> &'static str {
        Ajp::NAME
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        true
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let group = Group::new(self.group.clone(), Ajp::NAME, server.clone());
        let settings = self.settings.clone();
        let rules =
            CallRules { times: settings.times, header: HeaderLimits::default(), send_files_from: None };
        Rc::new(ContainersOfCore { caller: Caller::new(group, server.clone(), rules), settings, server })
    }
}

struct ContainersOfCore {
    caller: Caller<Ajp>,
    settings: Arc<Settings>,
    server: Rc<dyn Server>,
}

impl Handler for ContainersOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(async move { self.answer(request).await })
    }
}

impl ContainersOfCore {
    async fn answer(&self, mut request: Request) -> Handled {
        let Ok(path) = ServletPath::of(&request.encoded_path) else {
            return Handled::Answer(Answer::error(400));
        };
        // The container will see another path than the one that routes and access rules have judged.
        if path.path != request.path {
            if request.depth >= MOST_DERIVED {
                return Handled::Answer(Answer::error(400));
            }
            request.path = path.path.into();
            request.depth += 1;
            return Handled::Again(Box::new(request));
        }
        if requests_websocket(&request) {
            let message = format!(
                "AJP cannot carry WebSockets ({}); use a proxy route for them",
                RequestLogName::of(&request)
            );
            self.server.log(Level::Warning, "WebSocket over AJP", &message);
            return Handled::Answer(no_websocket());
        }
        let heads = match self.heads(&request, &path.uri) {
            Ok(heads) => heads,
            Err(refusal) => return Handled::Answer(refusal),
        };
        let length = request.body_length();
        let body = std::mem::replace(&mut request.body, Receiver::of(Bytes::new()));
        let upload = match length {
            None => Upload::passed_on(body),
            Some(_) => match Upload::new(body, length).await {
                Ok(upload) => upload,
                Err(error) => {
                    let message = format!("a request's body broke off: {error}");
                    self.server.log(Level::Debug, "request body", &message);
                    return Handled::Answer(Answer::error(400));
                }
            },
        };
        let limits = PacketLimits { bytes: self.settings.packet_bytes, fields: self.settings.most_fields };
        let call = Call {
            head: Box::new(move |index| heads[index].clone()),
            decoder: State::new(limits, length.is_some_and(|length| length > 0)),
            owner: self.owner(&request),
            interim: None,
            is_head: request.method() == Method::Head,
            is_idempotent: request.method().is_idempotent(),
            log_name: RequestLogName::of(&request),
        };
        drop(request);
        self.caller.call(call, upload).await
    }

    /// The packet for each container. The error is the answer to the client.
    fn heads(&self, request: &Request, uri: &[u8]) -> Result<Vec<Bytes>, Answer> {
        let writer = request::begin(request, uri, &self.settings);
        let most_bytes = self.settings.packet_bytes;
        let backends = self.settings.group.backends.iter();
        let finish = |mut writer: RequestWriter, route: &str| {
            if !route.is_empty() {
                writer.attribute(attribute::JVM_ROUTE, route.as_bytes());
            }
            writer.finish(most_bytes).map(Bytes::from)
        };
        let heads: Result<Vec<Bytes>, UnsupportedRequest> =
            backends.map(|backend| finish(writer.clone(), &backend.route)).collect();
        heads.map_err(|problem| match problem {
            UnsupportedRequest::ForbiddenByte => Answer::error(400),
            UnsupportedRequest::TooLong => {
                let message = format!(
                    "a request does not fit into a packet of {most_bytes} bytes ({}); raise packet_bytes \
                     here and packetSize of the container",
                    RequestLogName::of(request)
                );
                self.server.log(Level::Warning, "request too long for AJP", &message);
                let target = uri.len() + request.query.as_ref().map_or(0, Bytes::len);
                let is_target = target > (most_bytes - PACKET_HEADER_BYTES) / 2;
                Answer::error(if is_target { 414 } else { 431 })
            }
        })
    }

    fn owner(&self, request: &Request) -> Option<Owner> {
        let sessions = self.settings.sessions.as_ref()?;
        let routes: Vec<&str> = self.settings.group.backends.iter().map(|backend| &*backend.route).collect();
        let index = sessions.owner(&request.received, &request.encoded_path, &routes)?;
        Some(Owner { index, is_only: sessions.is_binding })
    }
}

/// RFC 6455 section 4.1.
fn requests_websocket(request: &Request) -> bool {
    let has = |name, member: &[u8]| {
        request.received.values(name).flat_map(list_members).any(|other| other.eq_ignore_ascii_case(member))
    };
    has("upgrade", b"websocket") && has("connection", b"upgrade")
}

fn no_websocket() -> Answer {
    let text = "This application is reached over AJP, which cannot carry WebSockets.\n";
    Answer::new(501)
        .field("Content-Type", "text/plain; charset=utf-8")
        .part(BodyPart::Bytes(Bytes::from_static(text.as_bytes())))
}
