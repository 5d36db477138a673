//! Answers that are gathered and sent in one write. Each is counted and logged after the write, with the
//! bytes of its body that were sent; what one write did not send waits in `output`.

use std::io;
use std::ops::Range;
use std::time::Instant;

use touchstone_access::AdmittedRequest;
use touchstone_handler::request::Protocol;
use touchstone_http::request::RequestHead;

use super::outcome::ReadyAnswer;
use super::request_body::BodyFeed;
use super::{Connection, protocol_of};
use crate::accounting::{self, AnsweredRequest};
use touchstone_exchange::core::CoreState;
use touchstone_exchange::core::cache_lookup::HitRoute;

/// How many heads are kept for further answers.
const MOST_SPARE_HEADS: usize = 64;

/// The answers of a connection that are not counted and logged yet.
#[derive(Default)]
pub struct GatheredAnswers {
    /// Where the present request begins in the bytes that are served.
    pub request_at: usize,
    /// Those in the buffer of the core.
    answers: Vec<GatheredAnswer>,
    /// Those whose end is in `output`.
    unsent: Vec<UnsentAnswer>,
    /// Heads that were used, for further answers.
    #[allow(clippy::vec_box, reason = "an answer gets the box itself, so that no head is copied")]
    spare_heads: Vec<Box<GatheredHead>>,
}

struct GatheredAnswer {
    /// Where it ends, and with it its body.
    end: usize,
    body_bytes: u64,
    source: Source,
    /// `None`: neither a log nor a span needs it.
    head: Option<Box<GatheredHead>>,
}

/// What has answered.
enum Source {
    Cache(HitRoute, Protocol),
    Program(Box<ReadyAnswer>),
}

/// The head of a request.
#[derive(Default)]
struct GatheredHead {
    head: RequestHead,
    /// Its place in the bytes that are served.
    place: Range<usize>,
    admitted: AdmittedRequest,
}

struct UnsentAnswer {
    answer: GatheredAnswer,
    /// The bytes of the head.
    bytes: Vec<u8>,
    started: Instant,
    /// That of the configuration under which it was found.
    generation: u64,
}

impl GatheredAnswer {
    /// How many bytes of its body are among the first `sent` bytes.
    fn sent_body_bytes(&self, sent: usize) -> u64 {
        self.body_bytes.saturating_sub(self.end.saturating_sub(sent) as u64)
    }
}

impl GatheredAnswers {
    /// Takes the head of the present request, whose bytes are `bytes`, out of `state.head`.
    fn take_head(&mut self, state: &mut CoreState, bytes: &[u8]) -> Box<GatheredHead> {
        let mut gathered_head = self.spare_heads.pop().unwrap_or_default();
        std::mem::swap(&mut gathered_head.head, &mut state.head);
        gathered_head.place = self.request_at..self.request_at + bytes.len();
        gathered_head
    }
}

impl Connection {
    /// Notes that the answer of a cache was gathered, for the request in `state.head`, whose bytes are
    /// `bytes`.
    pub(super) fn gathered_hit(
        &mut self,
        state: &mut CoreState,
        of: HitRoute,
        body_bytes: u64,
        bytes: &[u8],
    ) {
        let (end, source) = (state.gathered.len(), Source::Cache(of, protocol_of(&state.head)));
        let head = state.needs_facts().then(|| {
            let mut head = self.gathered.take_head(state, bytes);
            if of.has_user {
                head.admitted = std::mem::take(&mut state.caches.admitted);
            }
            head
        });
        self.gathered.answers.push(GatheredAnswer { end, body_bytes, source, head });
    }

    /// The same for the answer of a program.
    pub(super) fn gathered_program(
        &mut self,
        state: &mut CoreState,
        ready_answer: ReadyAnswer,
        body_bytes: u64,
        bytes: &[u8],
    ) {
        let (head, source) = (Some(self.gathered.take_head(state, bytes)), program(ready_answer));
        let end = state.gathered.len();
        self.gathered.answers.push(GatheredAnswer { end, body_bytes, source, head });
    }

    /// Notes that the last `unsent` bytes of a program's answer are in `output`.
    pub(super) fn unsent_program(
        &mut self,
        state: &mut CoreState,
        ready_answer: ReadyAnswer,
        unsent: usize,
        body_bytes: u64,
        bytes: &[u8],
    ) {
        let (started, generation) = (ready_answer.started, state.generation);
        let (head, source) = (Some(self.gathered.take_head(state, bytes)), program(ready_answer));
        let answer = GatheredAnswer { end: unsent, body_bytes, source, head };
        self.gathered.unsent.push(UnsentAnswer { answer, bytes: bytes.to_vec(), started, generation });
    }

    /// Counts and logs the gathered answers after a write. `sent`: how many bytes of them were sent, and the
    /// others are in `output`; `None`: the write has failed. `bytes` are those that are served.
    pub(super) fn note_gathered(&mut self, state: &mut CoreState, bytes: &[u8], sent: Option<usize>) {
        self.gathered.request_at = 0;
        let mut answers = std::mem::take(&mut self.gathered.answers);
        for mut answer in answers.drain(..) {
            let received = answer.head.as_ref().map_or(&[][..], |head| &bytes[head.place.clone()]);
            match sent.filter(|sent| *sent < answer.end) {
                Some(sent) => {
                    answer.end -= sent;
                    let started = state.received_at.unwrap_or_else(Instant::now);
                    let (bytes, generation) = (received.to_vec(), state.generation);
                    self.gathered.unsent.push(UnsentAnswer { answer, bytes, started, generation });
                }
                None => {
                    let body_bytes = answer.sent_body_bytes(sent.unwrap_or(0));
                    self.note_sent(state, answer, received, body_bytes);
                }
            }
        }
        self.gathered.answers = answers;
    }

    /// Sends `output`, and then counts and logs the answers that end in it.
    pub(super) async fn flush_output(&mut self) -> io::Result<()> {
        // The capacity is not kept: most connections never collect answers again.
        let output = std::mem::take(&mut self.output);
        let mut sent = 0;
        let result = self.write_counted(&output, &mut sent).await;
        self.note_unsent(sent);
        result
    }

    /// Counts and logs the answers that end in `output`, of which `sent` bytes were sent.
    pub(super) fn note_unsent(&mut self, sent: usize) {
        let core = self.core.clone();
        for unsent in std::mem::take(&mut self.gathered.unsent) {
            let UnsentAnswer { mut answer, bytes, started, generation } = unsent;
            let state = &mut *core.state.borrow_mut();
            if let Source::Cache(of, _) = &mut answer.source
                && generation != state.generation
            {
                // The positions may be those of other sites.
                (of.site, of.route) = (usize::MAX, None);
            }
            state.metrics.begin_turn_at(started);
            state.received_at = Some(started);
            let body_bytes = answer.sent_body_bytes(sent);
            self.note_sent(state, answer, &bytes, body_bytes);
        }
    }

    /// Counts and logs one answer. `bytes` are those of its head.
    fn note_sent(&mut self, state: &mut CoreState, answer: GatheredAnswer, bytes: &[u8], body_bytes: u64) {
        let GatheredAnswer { source, head, .. } = answer;
        let Some(mut head) = head else {
            if let Source::Cache(of, protocol) = source {
                state.metrics.hit(of.site, of.route, protocol, body_bytes, of.is_accelerated);
            }
            return;
        };
        self.tls_facts();
        std::mem::swap(&mut head.head, &mut state.head);
        state.caches.admitted = std::mem::take(&mut head.admitted);
        match source {
            Source::Cache(of, protocol) => {
                accounting::note_hit(state, self.client_connection(protocol), of, body_bytes, bytes);
            }
            Source::Program(ready_answer) => self.note_program(state, &ready_answer, bytes, body_bytes),
        }
        std::mem::swap(&mut head.head, &mut state.head);
        if self.gathered.spare_heads.len() < MOST_SPARE_HEADS {
            self.gathered.spare_heads.push(head);
        }
    }

    /// Counts and logs the answer of a program to the request in `state.head`, whose bytes are `bytes`.
    pub(super) fn note_program(
        &mut self,
        state: &mut CoreState,
        ready_answer: &ReadyAnswer,
        bytes: &[u8],
        body_bytes: u64,
    ) {
        let received = std::mem::take(&mut state.head);
        let request = AnsweredRequest {
            connection: self.client_connection(protocol_of(&received)),
            received: Some((&received, bytes)),
            unread_line: &[],
            table: &ready_answer.snapshot.route_table,
            progress: &ready_answer.progress,
            client: ready_answer.answered.client,
            user: ready_answer.answered.user.as_deref(),
            status: ready_answer.answered.answer.status,
            body_bytes,
            started: ready_answer.started,
        };
        accounting::note(state, request);
        drop(ready_answer.progress.take_under_way());
        state.head = received;
    }

    /// Writes bytes, waiting as needed, and adds to `sent` how many were sent, also with an error.
    pub(super) async fn write_counted(&mut self, mut bytes: &[u8], sent: &mut usize) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.transport.try_send(bytes, &[])?;
            self.timing.sent_since_wait += count as u64;
            *sent += count;
            bytes = &bytes[count..];
            if !bytes.is_empty() {
                self.wait_sendable(&mut BodyFeed::none()).await?;
            }
        }
        Ok(())
    }
}

fn program(ready_answer: ReadyAnswer) -> Source {
    Source::Program(Box::new(ready_answer))
}
