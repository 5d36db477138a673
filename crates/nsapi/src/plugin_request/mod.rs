//! One request in the stages: its C structures, its memory, and the state of its answer.
//!
//! Exchanges are used again for later requests. The structures and the first block of memory stay, so that a
//! request needs some copies but no allocation. `current` is the request that a thread works on.

pub mod current;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use smallvec::SmallVec;
use touchstone_http::authorization::authentication_scheme;
use touchstone_http::chunked::ChunkedDecoder;
use touchstone_http::grammar::{is_field_value_byte, is_token};
use touchstone_http::ip_text::IpText;

use crate::abi::{
    ATTRIBUTE_KEEP_ALIVE, ConfGlobals, Netbuf, Pblock, REQ_NOACTION, REQ_PROCEED, Request, Session,
    method_number,
};
use crate::connection::{AnswerHead, ClientDisconnected, Connection, HostRequest};
use crate::engine::Engine;
use crate::functions::Function;
use crate::handle::{Handle, handle};
use crate::memory::Pool;
use crate::pblock;
use crate::pipeline::Pipeline;

/// Names and values of a head, without an allocation for up to 16 fields.
pub type Fields<'a> = SmallVec<[(&'a [u8], &'a [u8]); 16]>;

/// The longest head that a plug-in can write itself.
const LONGEST_RAW_HEAD_BYTES: usize = 64 * 1024;

/// The size of `sn->inbuf`, the buffer for the body.
pub const BODY_BUFFER_BYTES: c_int = 8_192;

/// A request, with its C structures first.
#[repr(C)]
pub struct PluginRequest {
    pub session: Session,
    pub request: Request,
    pub inbuf: Netbuf,
    csd: Handle,
    pub globals: ConfGlobals,
    pub pool: Pool,
    pub engine: Option<Arc<Engine>>,
    pub pipeline: Pipeline,
    /// Requests that plug-ins have made from this one.
    pub internal: Vec<*mut Request>,
    connection: *mut (dyn Connection + 'static),
    answer: AnswerState,
    /// The rest of the answer's declared length; `None`: no length was declared.
    remaining: Option<u64>,
    /// The plug-in has written the head itself and writes the body in chunks.
    chunks: Option<Box<ChunkedDecoder>>,
    no_body: bool,
    is_head: bool,
    pub gone: bool,
    pub body_bytes_written: u64,
    raw_head: Vec<u8>,
}

/// The state of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Nothing,
    /// The plug-in writes the head itself, and the head is not complete yet.
    RawHead,
    Started,
}

// SAFETY: all pointers point into the plug-in request's own memory or to memory that is never freed.
// `connection` is only used between `attach` and `detach`, on one thread.
unsafe impl Send for PluginRequest {}

impl PluginRequest {
    /// Makes a plug-in request that has not started.
    pub fn new() -> Box<PluginRequest> {
        // SAFETY: the C structures hold only integers and pointers.
        let (session, request, inbuf) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        let mut plugin_request = Box::new(PluginRequest {
            session,
            request,
            inbuf,
            csd: Handle::client(ptr::null_mut()),
            globals: current::blank_globals(),
            pool: Pool::new(),
            engine: None,
            pipeline: Pipeline::new(),
            internal: Vec::new(),
            connection: no_connection(),
            answer: AnswerState::Nothing,
            remaining: None,
            chunks: None,
            no_body: false,
            is_head: false,
            gone: false,
            body_bytes_written: 0,
            raw_head: Vec::new(),
        });
        let itself: *mut PluginRequest = &mut *plugin_request;
        plugin_request.csd = Handle::client(itself.cast());
        plugin_request
    }

    /// Fills the structures for a request.
    pub fn begin(&mut self, engine: &Arc<Engine>, host_request: &HostRequest<'_>) {
        self.clear();
        // SAFETY: the C structures hold only integers and pointers.
        unsafe {
            self.session = std::mem::zeroed();
            self.request = std::mem::zeroed();
        }
        let pool = &mut self.pool;
        let chains = pblock::REQUEST_CHAINS;
        let [client, vars, reqpb, headers, srvhdrs] =
            [4, chains, 8, chains, chains].map(|n| pblock::create_in(pool, n));
        // SAFETY: the blocks are new; the pool outlives the request.
        unsafe {
            fill_client(pool, client, host_request);
            fill_reqpb(pool, reqpb, host_request);
            for (name, value) in host_request.fields {
                pblock::insert_field_in(pool, headers, name, value);
            }
            if let Some(user) = host_request.user {
                let scheme = authentication_scheme(host_request.fields.iter().copied()).to_ascii_lowercase();
                pblock::insert_in(pool, vars, b"auth-type", scheme.as_bytes());
                pblock::insert_in(pool, vars, b"auth-user", user);
            }
            if let Some(certificate) = host_request.tls.and_then(|tls| tls.client_certificate) {
                pblock::insert_in(pool, vars, b"auth-cert", certificate);
            }
        }
        self.inbuf.pos = 0;
        self.inbuf.cursize = 0;
        self.inbuf.maxsize = BODY_BUFFER_BYTES;
        self.inbuf.inbuf = ptr::null_mut();
        self.inbuf.errmsg = ptr::null_mut();
        self.inbuf.sd = (&raw mut self.csd).cast();
        let session = &mut self.session;
        session.client = client;
        session.csd = (&raw mut self.csd).cast();
        session.inbuf = &raw mut self.inbuf;
        session.csd_open = 1;
        session.pool = (&raw mut self.pool).cast();
        session.ssl = c_int::from(host_request.tls.is_some());
        session.clientauth =
            c_int::from(host_request.tls.is_some_and(|tls| tls.client_certificate.is_some()));
        if let std::net::IpAddr::V4(address) = host_request.client.ip() {
            session.iaddr.s_addr = u32::from_ne_bytes(address.octets());
        }
        if let std::net::SocketAddr::V4(address) = host_request.local {
            session.local_addr.sin_family = libc::AF_INET as libc::sa_family_t;
            session.local_addr.sin_port = address.port().to_be();
            session.local_addr.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
        }
        let host = self.pool.text(host_request.host);
        let request = &mut self.request;
        request.vars = vars;
        request.reqpb = reqpb;
        request.loadhdrs = 0;
        request.headers = headers;
        request.srvhdrs = srvhdrs;
        request.req_start = host_request.now_unix_seconds as libc::time_t;
        request.protv_num = if host_request.is_http10 { 100 } else { 101 };
        request.method_num = method_number(host_request.method);
        request.rq_attr = if host_request.keep_alive { ATTRIBUTE_KEEP_ALIVE } else { 0 };
        request.hostname = host;
        request.os = (&raw mut self.pipeline).cast();
        self.globals = engine.globals();
        self.globals.port = c_int::from(host_request.port);
        self.globals.security_active = c_int::from(host_request.is_https);
        self.globals.server_hostname = host;
        self.is_head = host_request.method == b"HEAD";
        match &self.engine {
            Some(before) if Arc::ptr_eq(before, engine) => {}
            _ => self.engine = Some(engine.clone()),
        }
    }

    /// Frees the memory that the last request has used.
    pub fn clear(&mut self) {
        for request in self.internal.drain(..) {
            // SAFETY: the list holds requests of `internal_request::create`, each once.
            unsafe { crate::api::request::drop_pipeline(request) };
        }
        self.pool.reset();
        self.pipeline.reset();
        self.connection = no_connection();
        self.answer = AnswerState::Nothing;
        self.remaining = None;
        self.chunks = None;
        self.no_body = false;
        self.gone = false;
        self.body_bytes_written = 0;
        self.raw_head.clear();
        if self.raw_head.capacity() > LONGEST_RAW_HEAD_BYTES {
            self.raw_head = Vec::new();
        }
    }

    /// Reads and writes through `connection` from now on.
    ///
    /// # Safety
    /// Until [`PluginRequest::detach`], the connection must live and must not be used elsewhere.
    pub unsafe fn attach(&mut self, connection: &mut dyn Connection) {
        let pointer: *mut (dyn Connection + '_) = connection;
        // This only removes the lifetime; `detach` ends the use.
        self.connection =
            std::mem::transmute::<*mut (dyn Connection + '_), *mut (dyn Connection + 'static)>(pointer);
    }

    /// Ends what [`PluginRequest::attach`] began.
    pub fn detach(&mut self) {
        self.connection = no_connection();
    }

    fn connection(&mut self) -> &mut dyn Connection {
        // SAFETY: the caller of `attach` keeps it alive. Without one it is `no_connection`, which holds no
        // data.
        unsafe { &mut *self.connection }
    }

    /// Called when the function does not return. Bytes that were not sent yet are dropped, so that the client
    /// can get an error.
    pub fn break_off(&mut self) {
        self.gone = true;
        self.connection().break_off();
    }

    /// Notifies the connection which function begins.
    pub fn begin_function(&mut self, function: &'static Function) {
        self.connection().runs(function);
    }

    /// Whether the head of the answer was sent.
    pub fn is_started(&self) -> bool {
        self.answer == AnswerState::Started
    }

    /// Whether the plug-in has written anything.
    pub fn has_written(&self) -> bool {
        self.answer != AnswerState::Nothing
    }

    /// Whether the answer has all of its declared length or chunks.
    pub fn is_complete(&self) -> bool {
        let has_ended = match &self.chunks {
            Some(chunks) => chunks.is_done(),
            None => self.remaining.is_none_or(|bytes| bytes == 0),
        };
        self.is_started() && (self.no_body || has_ended) && !self.gone
    }

    /// Whether the answer is certainly complete: it has no body, all of its declared length, or the last
    /// chunk.
    pub fn is_whole(&self) -> bool {
        let is_last =
            self.remaining == Some(0) || self.chunks.as_ref().is_some_and(|chunks| chunks.is_done());
        self.is_started() && (self.no_body || is_last) && !self.gone
    }

    /// Whether the client is still there.
    pub fn is_alive(&mut self) -> bool {
        !self.gone && self.connection().is_alive()
    }

    /// `protocol_start_response`: sends the head from `srvhdrs`.
    pub fn start_response(&mut self) -> c_int {
        if self.has_written() {
            return if self.no_body { REQ_NOACTION } else { REQ_PROCEED };
        }
        // SAFETY: the structures are those of this plug-in request, and plug-ins keep them valid.
        let (status, reason, fields) = unsafe { head_of(&mut self.request) };
        if self.start(status, reason, fields).is_err() {
            return crate::abi::REQ_EXIT;
        }
        if self.no_body { REQ_NOACTION } else { REQ_PROCEED }
    }

    fn start(
        &mut self,
        status: u16,
        reason: &[u8],
        mut fields: Fields<'_>,
    ) -> Result<(), ClientDisconnected> {
        self.answer = AnswerState::Started;
        self.request.senthdrs = 1;
        self.no_body = self.is_head || matches!(status, 204 | 205 | 304);
        let mut content_length = None;
        fields.retain(|(name, value)| {
            let is_length = name.eq_ignore_ascii_case(b"content-length");
            if is_length {
                content_length =
                    std::str::from_utf8(value).ok().and_then(|digits| digits.trim().parse().ok());
            }
            !is_length
                && !is_servers_own(name)
                && is_token(name)
                && value.iter().all(|byte| is_field_value_byte(*byte))
        });
        self.remaining = content_length;
        let head = AnswerHead { status, reason, fields: &fields, content_length };
        let started = self.connection().start(&head);
        self.gone |= started.is_err();
        started
    }

    /// `net_write`: writes the body, or a whole answer if the data begins with `HTTP/`.
    pub fn write(&mut self, data: &[u8]) -> Result<(), ClientDisconnected> {
        if self.gone {
            return Err(ClientDisconnected);
        }
        match self.answer {
            AnswerState::Started => self.write_piece(data),
            AnswerState::Nothing if !is_raw_head(data) => {
                self.start_response();
                self.write_body(data)
            }
            _ => self.write_raw(data),
        }
    }

    /// Writes a piece of the body in the plug-in's framing.
    fn write_piece(&mut self, mut data: &[u8]) -> Result<(), ClientDisconnected> {
        let Some(mut decoder) = self.chunks.take().filter(|_| !self.no_body) else {
            return self.write_body(data);
        };
        let mut written = Ok(());
        while written.is_ok() && !data.is_empty() && !decoder.is_done() {
            written = match decoder.decode(data) {
                Ok(decoded) => {
                    let piece = &data[decoded.data];
                    data = &data[decoded.consumed..];
                    self.write_body(piece)
                }
                Err(_) => {
                    self.gone = true;
                    Err(ClientDisconnected)
                }
            };
        }
        self.chunks = Some(decoder);
        written
    }

    fn write_body(&mut self, mut data: &[u8]) -> Result<(), ClientDisconnected> {
        if self.no_body || data.is_empty() {
            return if self.gone { Err(ClientDisconnected) } else { Ok(()) };
        }
        if let Some(remaining) = &mut self.remaining {
            // The client would take bytes beyond the declared length for the next answer.
            data = &data[..data.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX))];
            *remaining -= data.len() as u64;
        }
        self.body_bytes_written += data.len() as u64;
        let written = self.connection().write(data);
        self.gone |= written.is_err();
        written
    }

    /// Writes for a plug-in that writes status line and fields itself. They are parsed, so that the answer
    /// can be framed for the client's version and the connection can be kept.
    fn write_raw(&mut self, data: &[u8]) -> Result<(), ClientDisconnected> {
        self.answer = AnswerState::RawHead;
        let mut joined = std::mem::take(&mut self.raw_head);
        let has_head_part = !joined.is_empty();
        if has_head_part {
            joined.extend_from_slice(data);
        }
        let all = if has_head_part { &joined[..] } else { data };
        let mut begin = 0;
        while let Some(head_bytes) = end_of_head(&all[begin..]) {
            let (head, body) = all[begin..].split_at(head_bytes);
            if !is_interim(head) {
                self.start_raw(head)?;
                return self.write_piece(body);
            }
            begin += head_bytes;
        }
        if all.len() - begin > LONGEST_RAW_HEAD_BYTES {
            self.gone = true;
            return Err(ClientDisconnected);
        }
        if has_head_part {
            joined.drain(..begin);
            self.raw_head = joined;
        } else {
            self.raw_head.extend_from_slice(&data[begin..]);
        }
        Ok(())
    }

    fn start_raw(&mut self, head: &[u8]) -> Result<(), ClientDisconnected> {
        let mut lines =
            head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let status_line = lines.next().unwrap_or_default();
        let (status, reason) = parse_status_line(status_line).unwrap_or((502, b""));
        let mut fields = Fields::new();
        for line in lines {
            if let Some(colon) = line.iter().position(|byte| *byte == b':') {
                fields.push((&line[..colon], line[colon + 1..].trim_ascii()));
            }
        }
        self.request.status_num = status as i16;
        let is_chunked = fields.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked")
        });
        if is_chunked {
            // RFC 9112 section 6.3: chunks override the length.
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-length"));
            self.chunks = Some(Box::default());
        }
        self.start(status, reason, fields)
    }

    /// Sends an incomplete head of a plug-in as a body.
    pub fn finish_raw(&mut self) {
        if self.answer == AnswerState::RawHead {
            let pending = std::mem::take(&mut self.raw_head);
            self.answer = AnswerState::Nothing;
            self.start_response();
            let _ = self.write_body(&pending);
        }
    }

    /// Sends the buffered bytes.
    pub fn flush(&mut self) -> Result<(), ClientDisconnected> {
        if self.gone {
            return Err(ClientDisconnected);
        }
        if self.answer != AnswerState::Started {
            return Ok(());
        }
        let flushed = self.connection().flush();
        self.gone |= flushed.is_err();
        flushed
    }

    /// Reads more of the body; 0: the body has ended.
    pub fn read_body(&mut self, to: &mut [u8]) -> Result<usize, ClientDisconnected> {
        if self.gone {
            return Err(ClientDisconnected);
        }
        let read = self.connection().read(to);
        self.gone |= read.is_err();
        read
    }
}

impl Drop for PluginRequest {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The plug-in request of a session; null if a plug-in has made the session.
///
/// # Safety
/// `session` is null or a session.
pub unsafe fn of_session(session: *const Session) -> *mut PluginRequest {
    if session.is_null() {
        return current::plugin_request();
    }
    handle((*session).csd).map_or(ptr::null_mut(), |handle| handle.plugin_request().cast())
}

/// Fills the block with the facts about the client.
unsafe fn fill_client(pool: &mut Pool, client: *mut Pblock, host_request: &HostRequest<'_>) {
    pblock::insert_in(pool, client, b"ip", IpText::of(host_request.client.ip()).as_bytes());
    if let Some(tls) = host_request.tls {
        let bits = tls.key_bits.to_string();
        pblock::insert_in(pool, client, b"cipher", tls.cipher);
        pblock::insert_in(pool, client, b"keysize", bits.as_bytes());
        pblock::insert_in(pool, client, b"secret-keysize", bits.as_bytes());
        for (name, value) in [(&b"user_dn"[..], tls.client_subject), (b"issuer_dn", tls.client_issuer)] {
            if let Some(value) = value {
                pblock::insert_in(pool, client, name, value);
            }
        }
    }
}

unsafe fn fill_reqpb(pool: &mut Pool, reqpb: *mut Pblock, host_request: &HostRequest<'_>) {
    let protocol: &[u8] = if host_request.is_http10 { b"HTTP/1.0" } else { b"HTTP/1.1" };
    pblock::insert_in(pool, reqpb, b"method", host_request.method);
    pblock::insert_in(pool, reqpb, b"uri", host_request.path);
    if let Some(query) = host_request.query {
        pblock::insert_in(pool, reqpb, b"query", query);
    }
    pblock::insert_in(pool, reqpb, b"protocol", protocol);
    let line = [host_request.method, b" ", host_request.target, b" ", protocol];
    let line = pool.joined(&line);
    pblock::insert_text_in(pool, reqpb, b"clf-request", line);
}

type Head<'a> = (u16, &'a [u8], Fields<'a>);

/// Status, reason phrase and fields from `srvhdrs`.
unsafe fn head_of<'a>(request: &mut Request) -> Head<'a> {
    if pblock::find(request.srvhdrs, b"status").is_none() {
        crate::api::protocol::set_status(request, 200, &[]);
    }
    if matches!(request.status_num, 301..=303 | 307 | 308) {
        crate::api::protocol::set_location(request);
    }
    let line = pblock::find(request.srvhdrs, b"status").unwrap_or(b"200 OK");
    let status = std::str::from_utf8(&line[..line.len().min(3)]).ok().and_then(|digits| digits.parse().ok());
    let status = status.filter(|status| (200..=999).contains(status)).unwrap_or(500);
    pblock::set(request.srvhdrs, b"clf-status", &line[..line.len().min(3)]);
    let mut fields = Fields::new();
    pblock::for_each(request.srvhdrs, |name, value| {
        if !matches!(name, b"status" | b"clf-status") {
            fields.push((name, value));
        }
    });
    (status, line.get(4..).unwrap_or_default(), fields)
}

fn is_servers_own(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"connection",
        b"keep-alive",
        b"transfer-encoding",
        b"upgrade",
        b"te",
        b"trailer",
        b"date",
        b"server",
    ];
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn is_raw_head(data: &[u8]) -> bool {
    let length = data.len().min(5);
    length > 0 && data[..length] == b"HTTP/"[..length]
}

/// The position after the empty line that ends a head.
fn end_of_head(data: &[u8]) -> Option<usize> {
    let mut line_begin = 0;
    while let Some(length) = data[line_begin..].iter().position(|byte| *byte == b'\n') {
        let line = &data[line_begin..line_begin + length];
        line_begin += length + 1;
        if line.is_empty() || line == b"\r" {
            return Some(line_begin);
        }
    }
    None
}

/// Whether a head is that of an interim response (RFC 9110 section 15.2).
fn is_interim(head: &[u8]) -> bool {
    let status = head.split(|byte| *byte == b' ').nth(1).and_then(|rest| rest.get(..3));
    matches!(status, Some([b'1', b'0'..=b'9', b'0'..=b'9'])) && status != Some(b"101")
}

/// The status of `HTTP/1.0 200 OK`, and its reason phrase.
fn parse_status_line(line: &[u8]) -> Option<(u16, &[u8])> {
    let rest = &line[line.iter().position(|byte| *byte == b' ')? + 1..];
    let status: u16 = std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()?;
    (200..=999).contains(&status).then(|| (status, rest.get(4..).unwrap_or_default()))
}

struct NoConnection;

impl Connection for NoConnection {
    fn read(&mut self, _to: &mut [u8]) -> Result<usize, ClientDisconnected> {
        Err(ClientDisconnected)
    }
    fn start(&mut self, _head: &AnswerHead<'_>) -> Result<(), ClientDisconnected> {
        Err(ClientDisconnected)
    }
    fn write(&mut self, _bytes: &[u8]) -> Result<(), ClientDisconnected> {
        Err(ClientDisconnected)
    }
    fn flush(&mut self) -> Result<(), ClientDisconnected> {
        Err(ClientDisconnected)
    }
    fn is_alive(&self) -> bool {
        false
    }
}

fn no_connection() -> *mut (dyn Connection + 'static) {
    // The type has no size, so any aligned pointer is valid.
    let nothing: *mut NoConnection = ptr::dangling_mut();
    nothing
}

/// The plug-in request behind a `SYS_NETFD` that is a client.
///
/// # Safety
/// As [`handle`].
pub unsafe fn of_handle(pointer: *mut c_void) -> Option<&'static mut PluginRequest> {
    handle(pointer)?.plugin_request().cast::<PluginRequest>().as_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_plugins_write_themselves_are_read() {
        assert_eq!(end_of_head(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody"), Some(25));
        assert_eq!(end_of_head(b"HTTP/1.0 200 OK\nA: b\n\nbody"), Some(22));
        assert_eq!(end_of_head(b"HTTP/1.0 200 OK\r\nA: b\r\n"), None);
        assert_eq!(parse_status_line(b"HTTP/1.0 404 Not here"), Some((404, &b"Not here"[..])));
        assert_eq!(parse_status_line(b"HTTP/1.0 200"), Some((200, &b""[..])));
        assert!(is_interim(b"HTTP/1.1 103 Early Hints\r\n\r\n") && is_interim(b"HTTP/1.1 100\r\n\r\n"));
        assert!(!is_interim(b"HTTP/1.1 101 x\r\n\r\n") && !is_interim(b"HTTP/1.1 200 103\r\n\r\n"));
        assert_eq!(parse_status_line(b"HTTP/1.0 20"), None);
        assert_eq!(parse_status_line(b"HTTP/1.0 100 Continue"), None);
        assert!(
            is_raw_head(b"HTTP/1.1 200")
                && is_raw_head(b"HT")
                && !is_raw_head(b"<html>")
                && !is_raw_head(b"")
        );
    }
}
