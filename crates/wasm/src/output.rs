//! Standard output and error of an instance, which are logged.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use touchstone_handler::handler::{Level, Server};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// The most bytes of one write of a component.
const PIECE_BYTES: usize = 64 << 10;

/// The output of an instance, up to a limit. Further bytes are counted and dropped.
#[derive(Clone)]
pub struct Output {
    written: Arc<Mutex<OutputBuffer>>,
}

struct OutputBuffer {
    bytes: Vec<u8>,
    most_bytes: usize,
    dropped_bytes: u64,
}

impl Output {
    /// An output that keeps up to this many bytes.
    pub fn new(most_bytes: usize) -> Output {
        let written = OutputBuffer { bytes: Vec::new(), most_bytes, dropped_bytes: 0 };
        Output { written: Arc::new(Mutex::new(written)) }
    }

    fn add(&self, bytes: &[u8]) {
        let written = &mut *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = bytes.len().min(written.most_bytes - written.bytes.len());
        written.bytes.extend_from_slice(&bytes[..kept]);
        written.dropped_bytes += (bytes.len() - kept) as u64;
    }

    /// Removes and returns the written lines. Control characters are escaped.
    pub fn take_lines(&self) -> Vec<String> {
        let written = &mut *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut written.bytes);
        let dropped = std::mem::take(&mut written.dropped_bytes);
        let lines = bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut lines: Vec<String> = lines
            .filter(|line| !line.is_empty())
            .map(|line| printable(&String::from_utf8_lossy(line)))
            .collect();
        if dropped > 0 {
            lines.push(format!("{dropped} more bytes are not logged"));
        }
        lines
    }
}

/// Writes the output of an instance to the log when it is dropped, at the end of the request.
pub struct OutputLogger {
    /// The output.
    pub output: Output,
    /// The name of the component.
    pub name: Rc<str>,
    /// The server, whose log is used.
    pub server: Rc<dyn Server>,
}

impl Drop for OutputLogger {
    fn drop(&mut self) {
        for line in self.output.take_lines() {
            self.server.log(Level::Information, "wasm output", &format!("{}: {line}", self.name));
        }
    }
}

fn printable(line: &str) -> String {
    let escape = |letter: char| match letter.is_control() && letter != '\t' {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    line.chars().map(escape).collect()
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.add(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.add(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PIECE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_up_to_the_limit() {
        let output = Output::new(10);
        output.add(b"one\r\n\ntw");
        output.add(b"o\n\x1b[1mthree");
        assert_eq!(output.take_lines(), ["one", "two", "9 more bytes are not logged"]);
        assert_eq!(output.take_lines(), [] as [&str; 0]);
    }

    #[test]
    fn control_characters_are_escaped() {
        let output = Output::new(100);
        output.add(b"a\x1bb\tc");
        assert_eq!(output.take_lines(), ["a\\u{1b}b\tc"]);
    }
}
