//! The child process: the command `nsapi-host`, which only the server starts.
//!
//! Its standard input is its listening socket. On its standard output it sends `ready`, `problem TEXT` and
//! `log DEGREE TEXT` lines to the server.

use std::io::{self, Write as _};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use super::answer::Head;
use super::wire::{Kind, OwnedRequest, encode_head, encode_request_end, read_frame, write_frame};
use crate::connection::{AnswerHead, ClientDisconnected, Connection, RequestEnd};
use crate::engine::{Engine, Log, Settings};
use crate::pipeline::{self, ThreadKind};
use crate::plugin_request::PluginRequest;
use crate::plugin_request::current;

/// The file with the settings, in the directory that is the child's argument.
pub const SETTINGS_FILE: &str = "settings.json";

/// Runs the child. Returns its exit code.
pub fn run(directory: &Path) -> i32 {
    crate::slots::install();
    crate::crash::install();
    crate::ending::install(crate::ending::Process::Child);
    match serve(directory) {
        Ok(()) => 0,
        Err(problems) => {
            problems.iter().for_each(|problem| print_line("problem", problem));
            1
        }
    }
}

fn serve(directory: &Path) -> Result<(), Vec<String>> {
    let one = |text: String| vec![text];
    let text =
        std::fs::read(directory.join(SETTINGS_FILE)).map_err(|error| one(format!("no settings: {error}")))?;
    let settings: Settings =
        serde_json::from_slice(&text).map_err(|error| one(format!("wrong settings: {error}")))?;
    if settings.is_check {
        let problems = crate::check(&settings);
        return if problems.is_empty() { Ok(()) } else { Err(problems) };
    }
    // SAFETY: the server passes the socket as standard input, and no other code uses it.
    let listener = UnixListener::from(unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) });
    let engine = Engine::start(&settings, Arc::new(Lines))?;
    print_line("ready", "");
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let engine = engine.clone();
                let spawned = std::thread::Builder::new()
                    .name("nsapi-worker".to_string())
                    .spawn(move || requests(&engine, stream));
                if let Err(error) = spawned {
                    print_line("log", &format!("3 a thread for a connection cannot be started: {error}"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(one(format!("cannot listen on the socket: {error}"))),
        }
    }
}

/// Lines to the server.
struct Lines;

impl Log for Lines {
    fn write(&self, degree: i32, message: &str) {
        print_line("log", &format!("{degree} {message}"));
    }
}

fn print_line(what: &str, text: &str) {
    let line = format!("{what} {}\n", text.replace('\n', " "));
    // If writing fails, the server has ended, and this process will end soon.
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

fn requests(engine: &Arc<Engine>, mut stream: UnixStream) {
    let mut plugin_request = PluginRequest::new();
    let mut payload = Vec::new();
    loop {
        match read_frame(&mut stream, &mut payload) {
            Ok(Kind::Request) => {}
            Ok(Kind::Quit) => {
                engine.end();
                std::process::exit(0);
            }
            _ => return,
        }
        let Some(request) = OwnedRequest::decode(&payload) else { return };
        request.with(|host_request| plugin_request.begin(engine, host_request));
        let mut client =
            ThroughServer { stream: &mut stream, body_is_over: !request.has_body(), held: Vec::new() };
        let pointer: *mut PluginRequest = &mut *plugin_request;
        // SAFETY: only this thread uses the plug-in request, and the connection outlives its use.
        let request_end = unsafe {
            (*pointer).attach(&mut client);
            let entered = current::enter(pointer);
            let request_end = pipeline::run(pointer, ThreadKind::Worker).unwrap_or(RequestEnd::Close);
            drop(entered);
            (*pointer).detach();
            request_end
        };
        plugin_request.clear();
        if write_frame(&mut stream, Kind::End, &encode_request_end(&request_end)).is_err() {
            return;
        }
    }
}

/// The client as the child sees it.
struct ThroughServer<'a> {
    stream: &'a mut UnixStream,
    body_is_over: bool,
    held: Vec<u8>,
}

impl Connection for ThroughServer<'_> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, ClientDisconnected> {
        if self.held.is_empty() && !self.body_is_over {
            write_frame(self.stream, Kind::Want, &[]).map_err(|_| ClientDisconnected)?;
            match read_frame(self.stream, &mut self.held) {
                Ok(Kind::Body) => self.body_is_over = self.held.is_empty(),
                _ => return Err(ClientDisconnected),
            }
        }
        let read = self.held.len().min(to.len());
        to[..read].copy_from_slice(&self.held[..read]);
        self.held.drain(..read);
        Ok(read)
    }

    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), ClientDisconnected> {
        write_frame(self.stream, Kind::Head, &encode_head(&Head::of(head))).map_err(|_| ClientDisconnected)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnected> {
        for piece in bytes.chunks(super::wire::LONGEST_FRAME_BYTES) {
            write_frame(self.stream, Kind::Data, piece).map_err(|_| ClientDisconnected)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ClientDisconnected> {
        write_frame(self.stream, Kind::Flush, &[]).map_err(|_| ClientDisconnected)
    }

    fn is_alive(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&*self.stream), events: 0, revents: 0 };
        // SAFETY: one descriptor, which is open.
        unsafe { libc::poll(&mut poll, 1, 0) == 0 }
    }
}
