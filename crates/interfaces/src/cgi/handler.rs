//! Answers requests with CGI programs (RFC 3875).
//!
//! ```text
//! path -> program -> body (stored first, if its length is unknown) -> place in the queue -> start -> header
//! -> answer
//! ```
//!
//! The program's output is sent to the client as it arrives, and the client's body is written to the
//! program's standard input as it arrives. The slower side sets the pace. If all of the output arrives at
//! once, as with most programs, the answer is sent in one write. When the client disconnects, the handler's
//! future is dropped, and with it the program.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface, Level, LocalBoxFuture, Server};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::pipe::{Sender, pipe};
use touchstone_handler::request::Request;
use touchstone_http::request::Method;

use super::connection::{ProgramEnd, connection};
use super::message::{Start, Status};
use super::queue::{Queue, QueueError};
use super::resolve::{CgiProgram, ResolveError, Resolver};
use super::run::{Pipes, RunError, RunningProgram, Times};
use super::settings::CgiSettings;
use super::spawn::Stage;
use super::spool::{SpoolError, spool};
use crate::body_end::BodyEnd;
use crate::cgi_response::{DocumentHead, ProgramResponse, ResponseError, ResponseParser, pass_interim};
use crate::meta_variables::{MetaVariables, RequestFacts};

/// Bytes of a program's output that are held for a slower client.
const HELD_BYTES: usize = 128 * 1024;

/// A complete answer is sent in one piece up to this size.
const WHOLE_BYTES: usize = 256 * 1024;

/// How long the server waits for the rest of a short answer, so that it can be sent in one piece.
const GATHER: Duration = Duration::from_millis(2);

/// How long the server waits for the end of a program that has closed its output without a header, so that
/// the log can state how it ended.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// CGI programs of one route.
pub struct CgiInterface {
    settings: CgiSettings,
    resolver: Resolver,
    queue: Queue,
}

impl CgiInterface {
    /// Opens the directory of the programs.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(settings: CgiSettings) -> io::Result<CgiInterface> {
        let resolver = Resolver::new(settings.programs.clone(), settings.symlinks, settings.hidden_files)?;
        let queue = Queue::new(settings.concurrency, settings.queue, settings.queue_timeout);
        Ok(CgiInterface { settings, resolver, queue })
    }

    /// The handler of one core, for a caller that finds the programs itself.
    pub fn on_core(self: &Arc<Self>, server: Rc<dyn Server>) -> Rc<CgiHandler> {
        Rc::new(CgiHandler { interface: self.clone(), server })
    }

    /// This as a shared interface.
    pub fn shared(self) -> Arc<dyn Interface> {
        Arc::new(SharedCgi(Arc::new(self)))
    }
}

struct SharedCgi(Arc<CgiInterface>);

impl Interface for SharedCgi {
    fn name(&self) -> &'static str {
        "cgi"
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        self.0.on_core(server)
    }
}

/// CGI programs of one route on one core.
pub struct CgiHandler {
    interface: Arc<CgiInterface>,
    server: Rc<dyn Server>,
}

impl Handler for CgiHandler {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(async move {
            let handled = match self.resolve(&request) {
                Ok(program) => self.answer(request, program).await,
                Err(failure) => Err(failure),
            };
            handled.unwrap_or_else(|failure| Handled::Answer(failure.answer()))
        })
    }
}

/// A request that no program answers.
struct Failure {
    status: u16,
    /// The client may try again soon.
    is_passing: bool,
}

impl Failure {
    fn status(status: u16) -> Failure {
        Failure { status, is_passing: false }
    }

    fn answer(&self) -> Answer {
        let answer = Answer::error(self.status);
        if self.is_passing { answer.field("Retry-After", "1") } else { answer }
    }
}

impl CgiHandler {
    /// Answers with a program that was already found.
    pub async fn run(self: Rc<Self>, request: Request, program: CgiProgram) -> Handled {
        let handled = self.answer(request, program).await;
        handled.unwrap_or_else(|failure| Handled::Answer(failure.answer()))
    }

    async fn answer(self: Rc<Self>, mut request: Request, program: CgiProgram) -> Result<Handled, Failure> {
        let name = log_name(&program, &request);
        let kept = self.keep_body(&mut request, &name).await?;
        let variables =
            self.variables(&program, &request, kept.as_ref().map(|(_, length)| *length), &name)?;
        let permit = self.interface.queue.enter().await.map_err(|error| self.refused(error, &name))?;
        let is_head = request.method() == Method::Head;
        let interim = request.interim.clone();
        let is_nph = program.file.file_name().is_some_and(|name| name.as_bytes().starts_with(b"nph-"));
        let mut running = match self.start(&program, &variables, request, kept, permit, name.clone()).await {
            Ok(running) => running,
            Err(error) => return Err(self.failed(&error, &name)),
        };
        let mut buffer = Vec::new();
        let response = self.read_header(&mut running, &mut buffer, &name, interim.as_deref()).await?;
        match response {
            ProgramResponse::LocalRedirect(target) => {
                self.discard(running, name);
                Ok(Handled::LocalRedirect { target })
            }
            ProgramResponse::Document(DocumentHead { accel_redirect: Some(target), .. }) => {
                self.discard(running, name);
                Ok(Handled::LocalRedirect { target })
            }
            ProgramResponse::Document(head) if is_head || matches!(head.status, 204 | 304) => {
                self.discard(running, name);
                let declared_length = head.content_length;
                let answer = Answer { reason: head.reason, fields: head.fields, ..Answer::new(head.status) };
                Ok(Handled::Answer(Answer { declared_length, ..answer }))
            }
            ProgramResponse::Document(head) => {
                self.document(head, running, buffer, name, is_nph).await.map(Handled::Answer)
            }
        }
    }

    fn resolve(&self, request: &Request) -> Result<CgiProgram, Failure> {
        self.interface.resolver.resolve(&request.path).map_err(|why| match why {
            ResolveError::NotFound => Failure::status(404),
            ResolveError::Forbidden => Failure::status(403),
            ResolveError::Failed(error) => {
                let message = format!("cgi: cannot look for {}: {error}", request.path.escape_ascii());
                self.server.log(Level::Error, "programs that cannot be looked for", &message);
                Failure { status: 503, is_passing: true }
            }
        })
    }

    /// Stores a body of unknown length in a file. Returns the file and its length.
    async fn keep_body(&self, request: &mut Request, name: &str) -> Result<Option<(File, u64)>, Failure> {
        if request.body_length().is_some() {
            return Ok(None);
        }
        let settings = &self.interface.settings;
        match spool(&mut request.body, settings.spool_bytes, &settings.spool_directory).await {
            Ok(kept) => Ok(Some(kept)),
            Err(SpoolError::TooLarge) => Err(Failure::status(413)),
            Err(SpoolError::Body(_)) => Err(Failure::status(400)),
            Err(SpoolError::File(error)) => {
                let directory = settings.spool_directory.display();
                let message = format!("{name}: cannot keep the request's body in {directory}: {error}");
                self.server.log(Level::Error, "request bodies that cannot be kept", &message);
                Err(Failure::status(500))
            }
        }
    }

    fn variables(
        &self,
        program: &CgiProgram,
        request: &Request,
        kept_length: Option<u64>,
        name: &str,
    ) -> Result<MetaVariables, Failure> {
        let settings = &self.interface.settings;
        let facts = RequestFacts {
            script_name: &program.script_name,
            path_info: &program.path_info,
            document_root: settings.document_root.as_deref(),
            script_filename: Some(&program.file),
            pass_authorization: settings.pass_authorization,
            ..RequestFacts::of(request)
        };
        let content_length = kept_length.or(facts.content_length);
        let facts = RequestFacts { content_length, ..facts };
        let mut variables = MetaVariables::of(&facts, request.received.fields()).map_err(|error| {
            self.server.log(
                Level::Information,
                "requests that no program can get",
                &format!("{name}: {error}"),
            );
            Failure::status(400)
        })?;
        variables.set("PATH", b"/usr/local/bin:/usr/bin:/bin");
        if settings.interpreter.is_some() {
            // Without it php-cgi assumes that it was called directly, and refuses to run.
            variables.set("REDIRECT_STATUS", b"200");
        }
        for (name, value) in &settings.environment {
            variables.set(name, value.as_bytes());
        }
        Ok(variables)
    }

    fn refused(&self, error: QueueError, name: &str) -> Failure {
        let settings = &self.interface.settings;
        let message = match error {
            QueueError::Full => format!(
                "{name}: {} programs run and {} requests wait; see 'concurrency' and 'queue'",
                settings.concurrency, settings.queue
            ),
            QueueError::Timeout => {
                format!("{name}: a request has waited for {:?}; see 'queue_timeout'", settings.queue_timeout)
            }
        };
        self.server.log(Level::Warning, "requests that no program was free for", &message);
        Failure { status: 503, is_passing: true }
    }

    async fn start(
        &self,
        program: &CgiProgram,
        variables: &MetaVariables,
        request: Request,
        kept: Option<(File, u64)>,
        permit: super::queue::Permit,
        name: Rc<str>,
    ) -> Result<RunningProgram, RunError> {
        let settings = &self.interface.settings;
        let (output, output_end) = output_pipe().map_err(RunError::Pipe)?;
        let (errors, errors_end) = output_pipe().map_err(RunError::Pipe)?;
        let has_body = request.body_length().is_some_and(|length| length > 0);
        let (input_end, input) = match (kept, has_body) {
            (Some((file, _)), _) => (Some(OwnedFd::from(file)), None),
            (None, true) => {
                let (read, write) = input_pipe().map_err(RunError::Pipe)?;
                (Some(read), Some((write, request.body)))
            }
            (None, false) => (None, None),
        };
        let words = ExecStrings::new(settings, program).map_err(RunError::Pipe)?;
        let start = Start {
            id: 0,
            has_input: input_end.is_some(),
            is_reported: true,
            no_new_privileges: settings.no_new_privileges,
            dies_with_spawner: true,
            umask: settings.umask,
            niceness: settings.niceness,
            identity: settings.user.as_ref().map(|user| (user.user, user.group, user.groups.clone())),
            limits: settings.limits.clone(),
            directory: &words.directory,
            program: words.arguments.first().map_or(c"", CString::as_c_str),
            arguments: words.arguments.iter().map(CString::as_c_str).collect(),
            // In MetaVariables the only zero byte of a variable is its last byte.
            environment: variables
                .environment()
                .filter_map(|line| CStr::from_bytes_with_nul(line).ok())
                .collect(),
        };
        let descriptors: Vec<_> =
            input_end.iter().chain([&output_end, &errors_end]).map(|end| end.as_fd()).collect();
        let connection = connection().map_err(|error| {
            self.server.log(Level::Error, "programs that cannot be started", &format!("{name}: {error}"));
            RunError::SpawnerLost
        })?;
        let started = connection.start(start, &descriptors, settings.grace, settings.background).await;
        let program = started.map_err(|error| match error.kind() {
            io::ErrorKind::ArgumentListTooLong => {
                RunError::NotStarted(Stage::Execute, io::Error::from_raw_os_error(libc::E2BIG))
            }
            _ => RunError::SpawnerLost,
        })?;
        let times = Times {
            first_byte: settings.first_byte_timeout,
            idle: settings.idle_timeout,
            total: settings.total_timeout,
        };
        let pipes = Pipes { output, errors, input };
        RunningProgram::new(program, pipes, times, name, self.server.clone(), permit).map_err(RunError::Pipe)
    }

    /// Reads up to the end of the header. The bytes after it are left in `buffer`.
    async fn read_header(
        &self,
        running: &mut RunningProgram,
        buffer: &mut Vec<u8>,
        name: &str,
        interim: Option<&dyn TakesInterim>,
    ) -> Result<ProgramResponse, Failure> {
        let mut parser = ResponseParser::new(self.interface.settings.header);
        loop {
            let read = poll_fn(|context| running.poll_output(context, buffer)).await;
            let count = read.map_err(|error| self.failed(&error, name))?;
            if count == 0 {
                return Err(self.ended_without_header(running, &parser.ended(), name).await);
            }
            let fed = parser.feed(buffer);
            pass_interim(&mut parser, interim);
            match fed {
                Ok(Some((response, end))) => {
                    buffer.drain(..end);
                    return Ok(response);
                }
                Ok(None) => buffer.clear(),
                Err(error) => return Err(self.bad_response(&error, "", name)),
            }
        }
    }

    async fn ended_without_header(
        &self,
        running: &mut RunningProgram,
        error: &ResponseError,
        name: &str,
    ) -> Failure {
        match running.end_within(END_TIMEOUT).await {
            Some(ProgramEnd::NotStarted { stage, errno }) => {
                self.failed(&RunError::NotStarted(stage, io::Error::from_raw_os_error(errno)), name)
            }
            Some(ProgramEnd::Lost) => self.failed(&RunError::SpawnerLost, name),
            Some(ProgramEnd::Ended { status, .. }) => self.bad_response(error, &format!(" ({status})"), name),
            None => self.bad_response(error, " (and it still runs)", name),
        }
    }

    fn bad_response(&self, error: &ResponseError, addition: &str, name: &str) -> Failure {
        self.server.log(Level::Warning, "bad answers of programs", &format!("{name}: {error}{addition}"));
        Failure::status(502)
    }

    /// The answer for the client when a program could not run to its end.
    fn failed(&self, error: &RunError, name: &str) -> Failure {
        self.server.log(Level::Warning, "programs that failed", &format!("{name}: {error}"));
        match error {
            RunError::NotStarted(stage, why) => match (stage, why.raw_os_error()) {
                (Stage::Execute, Some(libc::EACCES)) => Failure::status(403),
                (Stage::Execute, Some(libc::E2BIG)) => Failure::status(431),
                (_, Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE)) => {
                    Failure { status: 503, is_passing: true }
                }
                _ => Failure::status(500),
            },
            RunError::SpawnerLost => Failure { status: 503, is_passing: true },
            RunError::FirstByte(_) | RunError::Idle(_) | RunError::Total(_) => Failure::status(504),
            RunError::RequestBody(_) => Failure::status(400),
            RunError::Pipe(_) => Failure { status: 503, is_passing: true },
        }
    }

    /// The answer with a body: in one piece if the program has already written all of it, otherwise streamed.
    async fn document(
        self: &Rc<Self>,
        head: DocumentHead,
        mut running: RunningProgram,
        mut buffer: Vec<u8>,
        name: Rc<str>,
        is_nph: bool,
    ) -> Result<Answer, Failure> {
        let mut end = BodyEnd::of(&head);
        let answer = Answer { reason: head.reason, fields: head.fields, ..Answer::new(head.status) };
        let mut ended = false;
        let rest = poll_fn(|context| {
            while buffer.len() < WHOLE_BYTES {
                match ready!(running.poll_output(context, &mut buffer)) {
                    Ok(0) => {
                        ended = true;
                        break;
                    }
                    Ok(_) => {}
                    // The next poll returns the error again.
                    Err(_) => break,
                }
            }
            Poll::Ready(())
        });
        // The output of an NPH program is sent as it arrives (RFC 3875 section 5).
        let gather = if is_nph { Duration::ZERO } else { GATHER };
        let _ = tokio::time::timeout(gather, rest).await;
        let length = head.content_length;
        if let Err(reason) = end.take(&mut buffer) {
            return Err(self.bad_body(&reason, &name));
        }
        if ended && let Some(reason) = end.missing().filter(|_| head.is_chunked) {
            return Err(self.bad_body(&reason, &name));
        }
        if end.is_reached() || ended && end.missing().is_none() {
            match ended {
                true => self.finish(running, name),
                false => self.discard(running, name),
            }
            return Ok(answer.part(BodyPart::Bytes(buffer.into())));
        }
        let (sender, body) = pipe(HELD_BYTES);
        let stream = Stream { running, sender, end };
        let handler = self.clone();
        tokio::task::spawn_local(async move { handler.stream(stream, buffer, name).await });
        Ok(answer.part(BodyPart::Stream { body, length }))
    }

    fn bad_body(&self, reason: &str, name: &str) -> Failure {
        self.server.log(Level::Warning, "bad answers of programs", &format!("{name}: {reason}"));
        Failure::status(502)
    }

    /// Sends a program's output to the client as it arrives.
    async fn stream(self: Rc<Self>, mut stream: Stream, first: Vec<u8>, name: Rc<str>) {
        let mut piece = first;
        loop {
            if stream.push(std::mem::take(&mut piece)).await.is_err() {
                // The client has disconnected. Dropping the stream ends the program.
                return;
            }
            if stream.end.is_reached() {
                // The client has the whole answer, whatever the program still does.
                stream.sender.finish();
                return self.discard(stream.running, name);
            }
            match stream.next(&mut piece).await {
                Some(Ok(0)) => break,
                Some(Ok(_)) => {
                    if let Err(reason) = stream.end.take(&mut piece) {
                        self.bad_body(&reason, &name);
                        return stream.sender.fail(io::ErrorKind::InvalidData.into());
                    }
                }
                None => return,
                Some(Err(error)) => {
                    self.server.log(Level::Warning, "programs that failed", &format!("{name}: {error}"));
                    stream.sender.fail(io::Error::other("the program failed"));
                    return;
                }
            }
        }
        let Stream { running, sender, end } = stream;
        match end.missing() {
            Some(reason) => {
                self.bad_body(&reason, &name);
                sender.fail(io::ErrorKind::UnexpectedEof.into());
            }
            None => sender.finish(),
        }
        self.finish(running, name);
    }

    /// Discards the rest of the output. The program runs to its end, within its time limits.
    fn discard(self: &Rc<Self>, mut running: RunningProgram, name: Rc<str>) {
        let handler = self.clone();
        tokio::task::spawn_local(async move {
            let mut buffer = Vec::new();
            loop {
                buffer.clear();
                match poll_fn(|context| running.poll_output(context, &mut buffer)).await {
                    Ok(0) => return handler.finish(running, name),
                    Ok(_) => {}
                    Err(error) => {
                        let message = format!("{name}: {error}");
                        return handler.server.log(Level::Warning, "programs that failed", &message);
                    }
                }
            }
        });
    }

    /// Called when the program has closed its output. Most programs have ended by then.
    fn finish(self: &Rc<Self>, mut running: RunningProgram, name: Rc<str>) {
        if let Some(end) = running.known_end() {
            return self.note_end(Some(end), &name);
        }
        let handler = self.clone();
        tokio::task::spawn_local(async move {
            let end = running.finish(handler.interface.settings.background).await;
            handler.note_end(end, &name);
        });
    }

    fn note_end(&self, end: Option<ProgramEnd>, name: &str) {
        let (level, message) = match end {
            Some(ProgramEnd::Ended { status: Status::Exit(0), .. }) => return,
            Some(ProgramEnd::Ended { status: status @ Status::Exit(_), .. }) => {
                (Level::Information, format!("{name}: {status}"))
            }
            Some(ProgramEnd::Ended { status, .. }) => (Level::Warning, format!("{name}: {status}")),
            None => {
                let idle = self.interface.settings.idle_timeout;
                (Level::Warning, format!("{name}: it had closed its output but did not end within {idle:?}"))
            }
            Some(ProgramEnd::NotStarted { .. } | ProgramEnd::Lost) => return,
        };
        self.server.log(level, "ends of programs", &message);
    }
}

/// A program's output on its way to the client.
struct Stream {
    running: RunningProgram,
    sender: Sender,
    end: BodyEnd,
}

impl Stream {
    /// Sends a piece. The time that a slow client takes does not count against the program's limits.
    async fn push(&mut self, piece: Vec<u8>) -> Result<(), touchstone_handler::pipe::ReceiverDropped> {
        if !piece.is_empty() {
            self.sender.send(Bytes::from(piece)).await?;
        }
        poll_fn(|context| self.sender.poll_ready(context)).await?;
        self.running.excuse();
        Ok(())
    }

    /// The next piece of output; `None`: the client has disconnected.
    async fn next(&mut self, piece: &mut Vec<u8>) -> Option<Result<usize, RunError>> {
        poll_fn(|context| {
            if pin!(self.sender.gone()).poll(context).is_ready() {
                return Poll::Ready(None);
            }
            self.running.poll_output(context, piece).map(Some)
        })
        .await
    }
}

/// Strings for `execve`.
struct ExecStrings {
    directory: CString,
    /// The first is the program.
    arguments: Vec<CString>,
}

impl ExecStrings {
    fn new(settings: &CgiSettings, program: &CgiProgram) -> io::Result<ExecStrings> {
        let string = |path: &std::path::Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
        let mut arguments = Vec::with_capacity(2);
        if let Some(interpreter) = &settings.interpreter {
            arguments.push(string(interpreter)?);
        }
        arguments.push(string(&program.file)?);
        Ok(ExecStrings { directory: string(&program.directory)?, arguments })
    }
}

/// The name of a program in the log, with the request that it answers.
fn log_name(program: &CgiProgram, request: &Request) -> Rc<str> {
    let script = program.script_name.escape_ascii();
    match &*request.id {
        "" => format!("cgi {script}"),
        id => format!("cgi {script} [{id}]"),
    }
    .into()
}

/// A pipe for a program's output. The server's end is non-blocking, the program's end blocks.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// A pipe for a program's input, the program's end first.
fn input_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&write, true)?;
    Ok((read, write))
}
