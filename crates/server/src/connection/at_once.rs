//! Programs that answer in passing, on an HTTP/1 connection: a plain GET that lies in the connection's buffer is given
//! to the handler there, and the answer leaves in the same turn.
//!
//! Only where nothing but the program stands between request and answer: no rewrites, fields or error pages of the
//! site's own, nothing that access rules would have to wait for. Everything else takes the exchange.

use std::cell::RefMut;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use touchstone_files::cache::Variant;
use touchstone_http::request::{FieldLine, Parsed, RequestHead};
use touchstone_http::trace_context;
use touchstone_interfaces::answer::{Answer, Framing, Part};
use touchstone_interfaces::handler::{Called, Caller, Handler};
use touchstone_interfaces::request::{PlainGet, ReceivedHead};

use super::request_body::BodyFeed;
use super::response::TOGETHER_BYTES;
use super::{Connection, Hit, Next, protocol_of};
use crate::access::{HeadFields, RequestView};
use crate::account::{self, Account};
use crate::calls::CallOf;
use crate::core::Hot;
use crate::exchange::{self, Answered, Progress};
use crate::route::SiteRules;

/// An answer that a program has made, and what it was made for.
pub struct Made {
    answered: Answered,
    progress: Progress,
    started: Instant,
}

impl Connection {
    /// Has the program of a route answer the request in `hot.head`, if it is one that does so at once.
    pub(super) fn ask_program(
        &mut self,
        hot: &mut Hot,
        bytes: &[u8],
        site: usize,
        path: &[u8],
        last: bool,
    ) -> Hit {
        let core = self.core.clone();
        let callers = core.callers.as_ref();
        let may_answer = |rules: &SiteRules| match callers {
            Some(_) => rules.has_called_programs(),
            None => rules.has_programs_at_once(),
        };
        // While a call goes on, nothing before or behind it is to wait on this thread.
        let is_alone = callers.is_none() || (last && hot.gathered.is_empty());
        if !is_alone || !hot.snapshot.sites[site].rules.as_ref().is_some_and(may_answer) {
            return Hit::Not;
        }
        let snapshot = hot.snapshot.clone();
        let site_now = &snapshot.sites[site];
        let Some(rules) = &site_now.rules else { return Hit::Not };
        // An error page of the site may have to be read first, and an id that is handed on changes the request's head.
        if !site_now.config.error_pages.is_empty() || snapshot.config.request_id.forward {
            return Hit::Not;
        }
        let head = &hot.head;
        let target = head.target.of(bytes);
        let host = head.host.map(|host| host.of(bytes));
        let fields = HeadFields { head, buffer: bytes };
        let client = exchange::client_of(&snapshot, self.peer, &fields);
        let query = (path.len() < target.len()).then(|| &target[path.len() + 1..]);
        let view = RequestView {
            client: client.map(|client| client.ip()),
            method: b"GET",
            path,
            query,
            host,
            fields: &fields,
        };
        let Some(program) = rules.program_at_once(&view) else { return Hit::Not };
        let asked = match callers {
            Some(callers) => callers.get(program.interface).map(Asked::Caller),
            None if program.interface.answers_at_once() => {
                Some(Asked::Handler(exchange::handler_of(&core, &snapshot, program.interface)))
            }
            None => None,
        };
        let Some(mut asked) = asked else { return Hit::Not };
        let is_handed_on = |line: &FieldLine| trace_context::is_handed_on(line.name.of(bytes), None);
        if !head.fields.iter().all(is_handed_on) {
            return Hit::Not;
        }
        let tls = self.tls_facts();
        let mut get = PlainGet {
            head,
            buffer: bytes,
            protocol: protocol_of(head),
            path,
            target,
            query,
            host,
            client,
            server: self.listener,
            tls: tls.as_deref(),
            user: None,
            unix_seconds: core.clock.second().unix_seconds,
        };
        if let Asked::Caller(caller) = &mut asked
            && !caller.takes(&get)
        {
            return Hit::Not;
        }
        let Some(admitted) = program.admit(&view) else { return Hit::Not };
        get.user = admitted.user.as_ref().map(|user| user.name());
        let started = Instant::now();
        let client = client.map(|client| client.ip());
        let user = admitted.user.as_ref().map(|user| String::from_utf8_lossy(user.name()).into());
        let mut answered = match (asked, callers) {
            (Asked::Caller(mut caller), Some(callers)) => {
                let of = CallOf { site, route: program.route, client, user, started };
                callers.station.begin_call(callers.guest.get(), bytes, of);
                match (caller.call(&get), callers.station.end_call()) {
                    (Called::Answer(answer), Some(CallOf { client, user, .. })) => {
                        Answered { answer, client, user }
                    }
                    _ => return Hit::WentBack,
                }
            }
            (Asked::Handler(handler), _) => Answered { answer: handler.answer_at_once(&get), client, user },
            (Asked::Caller(_), None) => return Hit::Not,
        };
        answered.answer.fields.extend_from_slice(&site_now.fields);
        let progress = Progress::default();
        progress.site.set(Some(site));
        progress.route.set(Some(program.route));
        progress.handler.set(program.interface.name());
        let made = Made { answered, progress, started };
        let variant = self.variant(hot);
        match whole_body(&made.answered.answer) {
            Some(body) => self.give_now(hot, bytes, &made, body, variant, last),
            None => Hit::Made(Box::new(made)),
        }
    }

    /// Sends an answer whose whole body is there, or gathers it with others.
    fn give_now(
        &mut self,
        hot: &mut Hot,
        bytes: &[u8],
        made: &Made,
        body: Bytes,
        variant: Variant,
        last: bool,
    ) -> Hit {
        let answer = &made.answered.answer;
        let framing = answer.framing(true);
        let body = if framing == Framing::None { Bytes::new() } else { body };
        let date = self.core.clock.second();
        if last && hot.gathered.is_empty() && body.len() > TOGETHER_BYTES {
            let head = answer.head(&date, variant, framing);
            match self.transport.try_send(&head, &body) {
                Ok(sent) if sent == head.len() + body.len() => {}
                Ok(sent) => {
                    self.output.extend_from_slice(head.get(sent..).unwrap_or_default());
                    self.output.extend_from_slice(&body[sent.saturating_sub(head.len())..]);
                }
                Err(_) => return Hit::Broken,
            }
        } else {
            answer.append_head(&date, variant, framing, &mut hot.gathered);
            hot.gathered.extend_from_slice(&body);
        }
        self.requests += 1;
        let received = std::mem::take(&mut hot.head);
        let table = hot.snapshot.route_table.clone();
        let account = Account {
            origin: self.origin(protocol_of(&received)),
            received: Some((&received, bytes)),
            unread_line: &[],
            table: &table,
            progress: &made.progress,
            client: made.answered.client,
            user: made.answered.user.as_deref(),
            status: answer.status,
            body_bytes: body.len() as u64,
            started: made.started,
        };
        account::note(hot, account);
        hot.head = received;
        Hit::Answered { persistent: variant != Variant::Close }
    }

    /// Gives an answer that was made in passing and could not be given so: its body is still to come.
    pub(super) async fn give_made(&mut self, made: Made) -> Next {
        let (snapshot, limits) = {
            let hot = self.core.hot.borrow();
            (hot.snapshot.clone(), hot.limits)
        };
        let mut head = RequestHead::new();
        // It was whole when the answer was made, and nothing has taken from the input since.
        let Ok(Parsed::Complete(length)) = head.parse(&self.input, &limits) else { return Next::Close };
        let received = ReceivedHead { head, buffer: self.input.drain(..length).collect() };
        let Made { answered, progress, started } = made;
        self.give_answer(&snapshot, answered, &received, BodyFeed::none(), &progress, started).await
    }
}

/// What answers in passing.
enum Asked<'c> {
    /// A handler that never waits.
    Handler(Rc<dyn Handler>),
    /// What calls programs on this thread.
    Caller(RefMut<'c, Box<dyn Caller>>),
}

/// The body, where all of it is there and in one piece.
fn whole_body(answer: &Answer) -> Option<Bytes> {
    match answer.body.as_slice() {
        [] => Some(Bytes::new()),
        [Part::Bytes(bytes)] => Some(bytes.clone()),
        _ => None,
    }
}
