//! Programs behind the server that record each request as it reaches them, one for each protocol: where the
//! server and a program disagree about a target or the length of a body, it shows here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Tree, skipped, write_program};

/// A request as a program has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) target: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// It was complete by its framing.
    pub(crate) is_whole: bool,
}

/// A recording program and its route.
pub(crate) struct Recorder {
    pub(crate) name: &'static str,
    /// The key of the route.
    pub(crate) way: String,
    requests: Records,
}

enum Records {
    Memory(Arc<Mutex<Vec<Recorded>>>),
    /// A line a request: the target, a space, the body in hexadecimal digits, a full stop.
    File(PathBuf),
}

/// Serves one connection, and passes on each request.
type Serve = fn(&mut TcpStream, &mut dyn FnMut(Recorded)) -> Option<()>;

impl Recorder {
    /// One of each protocol; those that need a compiler are left out, visibly, where there is none.
    pub(crate) fn all(tree: &Tree) -> Vec<Recorder> {
        let mut all = vec![
            Recorder::listening("proxy", http, |to| format!("proxy = {{ to = \"http://{to}\" }}")),
            Recorder::listening("accelerator", http, |to| {
                format!("proxy = {{ to = \"http://{to}\" }}\ncache = {{}}")
            }),
            Recorder::http_2(),
            Recorder::listening("FastCGI", fastcgi, |to| format!("fastcgi = {{ backends = [\"{to}\"] }}")),
            Recorder::listening("SCGI", scgi, |to| format!("scgi = {{ backends = [\"{to}\"] }}")),
            Recorder::listening("AJP", ajp, |to| format!("ajp = {{ backends = [\"{to}\"] }}")),
        ];
        all.extend(Recorder::nsapi(tree));
        all
    }

    fn listening(name: &'static str, serve: Serve, way: fn(SocketAddr) -> String) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = way(listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, recorded) = (stream.unwrap(), recorded.clone());
                thread::spawn(move || {
                    serve(&mut stream, &mut |request| recorded.lock().unwrap().push(request))
                });
            }
        });
        Recorder { name, way, requests: Records::Memory(requests) }
    }

    /// An origin with HTTP/2.
    fn http_2() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let way =
            format!("proxy = {{ to = \"http://{}\", version = \"2\" }}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = requests.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(http_2_connection(stream, recorded.clone()));
                }
            });
        });
        Recorder { name: "HTTP/2 origin", way, requests: Records::Memory(requests) }
    }

    /// A plug-in.
    fn nsapi(tree: &Tree) -> Option<Recorder> {
        let record = tree.beside("nsapi-requests");
        compile_plugin(tree)?;
        tree.write(
            "obj.conf",
            "<Object name=default>\nObjectType fn=force-type type=text/plain\n\
             Service fn=record method=(GET|POST)\n</Object>\n",
        );
        tree.write(
            "magnus.conf",
            format!(
                "Init fn=load-modules shlib=recorder.so funcs=record,record-init\n\
                 Init fn=record-init to={}\n",
                record.display()
            ),
        );
        let [obj_conf, magnus_conf] = ["obj.conf", "magnus.conf"].map(|name| tree.file(name));
        let way = format!("nsapi = {{ obj_conf = {obj_conf:?}, magnus_conf = {magnus_conf:?} }}");
        Some(Recorder { name: "NSAPI", way, requests: Records::File(record) })
    }

    /// A CGI program at `/p`.
    pub(crate) fn cgi(tree: &Tree) -> Recorder {
        let record = tree.beside("cgi-requests");
        let program = format!(
            "#!/bin/sh\nbody=$(od -An -v -tx1 | tr -d ' \\n')\n\
             printf '%s %s/%s.\\n' \"$REQUEST_URI\" \"$body\" \"$CONTENT_LENGTH\" >> {}\n\
             printf 'Content-Type: text/plain\\n\\n%s' \"$REQUEST_URI\"\n",
            record.display()
        );
        write_program(&tree.file("p"), program);
        Recorder { name: "CGI", way: "cgi = {}".to_string(), requests: Records::File(record) }
    }

    /// What has been recorded since the last time.
    pub(crate) fn take(&self) -> Vec<Recorded> {
        match &self.requests {
            Records::Memory(requests) => std::mem::take(&mut requests.lock().unwrap()),
            Records::File(path) => {
                let bytes = std::fs::read(path).unwrap_or_default();
                let _ = std::fs::remove_file(path);
                bytes.split_inclusive(|&byte| byte == b'\n').map(of_line).collect()
            }
        }
    }
}

fn of_line(line: &[u8]) -> Recorded {
    let line = line.strip_suffix(b"\n").unwrap();
    let space = line.iter().rposition(|&byte| byte == b' ').unwrap();
    let received = std::str::from_utf8(line[space + 1..].strip_suffix(b".").unwrap()).unwrap();
    // A program that gets fewer bytes than announced detects that the body was cut (RFC 3875 section 4.2).
    let (digits, length) = received.split_once('/').unwrap_or((received, ""));
    let body = super::parsers::from_hexadecimal(digits);
    let is_whole = length.parse().map_or(true, |length: usize| body.len() == length);
    Recorded { target: line[..space].to_vec(), body, is_whole }
}

fn read(input: &mut impl Read, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    input.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// A line without its CRLF.
fn line(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).ok()?;
    Some(line.strip_suffix(b"\r\n")?.to_vec())
}

/// An HTTP/1.1 origin that reads requests exactly by RFC 9112.
fn http(stream: &mut TcpStream, record: &mut dyn FnMut(Recorded)) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    loop {
        let start = line(&mut input)?;
        let target = start.split(|&byte| byte == b' ').nth(1)?.to_vec();
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let field = String::from_utf8_lossy(&line(&mut input)?).to_ascii_lowercase();
            match field.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap(),
                Some(("transfer-encoding", value)) => is_chunked = value.trim() == "chunked",
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        let end = match is_chunked {
            true => chunks(&mut input, &mut body),
            false => read(&mut input, length).map(|bytes| body = bytes),
        };
        record(Recorded { target: target.clone(), body, is_whole: end.is_some() });
        end?;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", target.len());
        stream.write_all(&[answer.as_bytes(), &target].concat()).ok()?;
    }
}

fn chunks(input: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let size = line(input)?;
        let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap(), 16).unwrap();
        if size == 0 {
            while !line(input)?.is_empty() {}
            return Some(());
        }
        body.extend(read(input, size)?);
        assert_eq!(read(input, 2)?, b"\r\n");
    }
}

async fn http_2_connection(stream: tokio::net::TcpStream, records: Arc<Mutex<Vec<Recorded>>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let records = records.clone();
        tokio::spawn(async move {
            let target = request.uri().path_and_query().unwrap().as_str().as_bytes().to_vec();
            let mut input = request.into_body();
            let (mut body, mut is_whole) = (Vec::new(), true);
            while let Some(data) = input.data().await {
                match data {
                    Ok(data) => {
                        let _ = input.flow_control().release_capacity(data.len());
                        body.extend_from_slice(&data);
                    }
                    Err(_) => {
                        is_whole = false;
                        break;
                    }
                }
            }
            is_whole = is_whole && input.trailers().await.is_ok();
            records.lock().unwrap().push(Recorded { target: target.clone(), body, is_whole });
            let Ok(mut answer) = respond.send_response(http::Response::new(()), false) else { return };
            let _ = answer.send_data(target.into(), true);
        });
    }
}

const PARAMS: u8 = 4;
const STDIN: u8 = 5;

/// A FastCGI application.
fn fastcgi(stream: &mut TcpStream, record: &mut dyn FnMut(Recorded)) -> Option<()> {
    loop {
        let (mut params, mut body) = (Vec::new(), Vec::new());
        let id = loop {
            let Some(header) = read(stream, 8) else {
                if !params.is_empty() {
                    record(Recorded { target: param(&params), body, is_whole: false });
                }
                return None;
            };
            let content = read(stream, usize::from(u16::from_be_bytes([header[4], header[5]])))?;
            read(stream, usize::from(header[6]))?;
            match header[1] {
                PARAMS => params.extend(content),
                STDIN if content.is_empty() => break [header[2], header[3]],
                STDIN => body.extend(content),
                _ => {}
            }
        };
        let target = param(&params);
        record(Recorded { target: target.clone(), body, is_whole: true });
        let answer = [b"Content-Type: text/plain\r\n\r\n", &target[..]].concat();
        let size = u16::try_from(answer.len()).unwrap().to_be_bytes();
        let head = |kind: u8, size: [u8; 2]| [1, kind, id[0], id[1], size[0], size[1], 0, 0];
        let records = [&head(6, size)[..], &answer, &head(3, [0, 8]), &[0; 8]].concat();
        stream.write_all(&records).ok()?;
    }
}

/// `REQUEST_URI` among name-value pairs.
fn param(mut pairs: &[u8]) -> Vec<u8> {
    let length = |pairs: &mut &[u8]| match pairs[0] {
        short if short < 128 => {
            *pairs = &pairs[1..];
            usize::from(short)
        }
        _ => {
            let (size, rest) = pairs.split_first_chunk::<4>().unwrap();
            *pairs = rest;
            (u32::from_be_bytes(*size) & 0x7fff_ffff) as usize
        }
    };
    while !pairs.is_empty() {
        let (name, value) = (length(&mut pairs), length(&mut pairs));
        let (pair, rest) = pairs.split_at(name + value);
        if &pair[..name] == b"REQUEST_URI" {
            return pair[name..].to_vec();
        }
        pairs = rest;
    }
    panic!("a request without REQUEST_URI");
}

/// An SCGI server.
fn scgi(stream: &mut TcpStream, record: &mut dyn FnMut(Recorded)) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut size = Vec::new();
    input.read_until(b':', &mut size).ok()?;
    let size = std::str::from_utf8(size.strip_suffix(b":")?).unwrap().parse().unwrap();
    let head = read(&mut input, size)?;
    read(&mut input, 1)?;
    let texts: Vec<&[u8]> = head.split(|&byte| byte == 0).collect();
    let value = |name: &str| {
        texts.chunks_exact(2).find(|pair| pair[0] == name.as_bytes()).map(|pair| pair[1].to_vec()).unwrap()
    };
    let length = String::from_utf8(value("CONTENT_LENGTH")).unwrap().parse().unwrap();
    let body = read(&mut input, length);
    let target = value("REQUEST_URI");
    let is_whole = body.is_some();
    record(Recorded { target: target.clone(), body: body.unwrap_or_default(), is_whole });
    stream.write_all(&[b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n", &target[..]].concat()).ok()
}

/// A packet of the container.
fn packet(content: &[u8]) -> Vec<u8> {
    let size = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"AB", &size[..], content].concat()
}

/// An AJP container.
fn ajp(stream: &mut TcpStream, record: &mut dyn FnMut(Recorded)) -> Option<()> {
    const FORWARD: u8 = 2;
    const CPING: u8 = 10;
    loop {
        let content = from_server(stream)?;
        match content[0] {
            CPING => stream.write_all(&packet(&[9])).ok()?,
            FORWARD => {
                let (target, length) = forwarded(&content[1..]);
                let (mut body, mut is_whole) = (Vec::new(), true);
                let mut is_unasked = length.is_some_and(|length| length > 0);
                while length.is_none_or(|length| (body.len() as u64) < length) {
                    if !std::mem::take(&mut is_unasked) {
                        stream.write_all(&packet(&[6, 0x1f, 0xf0])).ok()?;
                    }
                    let Some(data) = from_server(stream) else {
                        is_whole = false;
                        break;
                    };
                    if data.len() <= 2 {
                        is_whole = length.is_none();
                        break;
                    }
                    body.extend_from_slice(&data[2..]);
                }
                record(Recorded { target: target.clone(), body, is_whole });
                if !is_whole {
                    return None;
                }
                let size = u16::try_from(target.len()).unwrap().to_be_bytes();
                let head = [4, 0, 200, 0, 2, b'O', b'K', 0, 0, 0];
                let chunk = [&[3], &size[..], &target, &[0]].concat();
                stream.write_all(&[packet(&head), packet(&chunk), packet(&[5, 1])].concat()).ok()?;
            }
            other => panic!("an AJP packet of type {other}"),
        }
    }
}

fn from_server(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let head = read(stream, 4)?;
    assert_eq!(head[..2], [0x12, 0x34]);
    read(stream, usize::from(u16::from_be_bytes([head[2], head[3]])))
}

/// The target of a FORWARD_REQUEST, and the length of its body, if it is stated.
fn forwarded(content: &[u8]) -> (Vec<u8>, Option<u64>) {
    const CONTENT_LENGTH: u16 = 0xA008;
    const QUERY: u8 = 5;
    const NAMED: u8 = 10;
    const KEY_SIZE: u8 = 11;
    let mut rest = &content[1..];
    let number = |rest: &mut &[u8]| {
        let (bytes, behind) = rest.split_first_chunk::<2>().unwrap();
        *rest = behind;
        u16::from_be_bytes(*bytes)
    };
    let text = |rest: &mut &[u8]| match number(rest) {
        0xffff => Vec::new(),
        size => {
            let (text, behind) = rest.split_at(usize::from(size));
            *rest = &behind[1..];
            text.to_vec()
        }
    };
    text(&mut rest);
    let mut target = text(&mut rest);
    for _address_and_names in 0..3 {
        text(&mut rest);
    }
    number(&mut rest);
    rest = &rest[1..];
    let mut length = None;
    for _ in 0..number(&mut rest) {
        let is_known = rest[0] == 0xA0;
        let code = if is_known { number(&mut rest) } else { 0 };
        let name = if is_known { Vec::new() } else { text(&mut rest).to_ascii_lowercase() };
        let value = String::from_utf8_lossy(&text(&mut rest)).into_owned();
        if code == CONTENT_LENGTH || name == b"content-length" {
            length = Some(value.parse().unwrap());
        }
    }
    while rest[0] != 0xff {
        let attribute = rest[0];
        rest = &rest[1..];
        match attribute {
            KEY_SIZE => _ = number(&mut rest),
            QUERY => target = [&target[..], b"?", &text(&mut rest)].concat(),
            NAMED => _ = (text(&mut rest), text(&mut rest)),
            _ => _ = text(&mut rest),
        }
    }
    (target, length)
}

const PLUGIN: &str = r#"
#include "base/pblock.h"
#include "base/buffer.h"
#include "frame/protocol.h"
#include <stdio.h>

static char *to;

NSAPI_PUBLIC int record_init(pblock *pb, Session *sn, Request *rq)
{
    to = STRDUP(pblock_findval("to", pb));
    return REQ_PROCEED;
}

NSAPI_PUBLIC int record(pblock *pb, Session *sn, Request *rq)
{
    char *uri = pblock_findval("uri", rq->reqpb);
    static char line[100000];
    unsigned char piece[1000];
    int i, got, size = sprintf(line, "%s ", uri);
    FILE *file;

    while (ISMPOST(rq) && (got = netbuf_getbytes(sn->inbuf, (char *)piece, sizeof piece)) > 0)
        for (i = 0; i < got; i++)
            size += sprintf(line + size, "%02x", piece[i]);
    if (ISMPOST(rq) && got < 0 && got != NETBUF_EOF)
        return REQ_EXIT;
    file = fopen(to, "a");
    fprintf(file, "%s.\n", line);
    fclose(file);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    net_write(sn->csd, uri, (int)strlen(uri));
    return REQ_PROCEED;
}
"#;

fn compile_plugin(tree: &Tree) -> Option<()> {
    let source = tree.write("recorder.c", PLUGIN);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-I"]).arg(include).arg(source);
    match command.arg("-o").arg(tree.file("recorder.so")).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(())
        }
        Err(_) => {
            skipped("NSAPI plug-ins that record requests (install gcc)");
            None
        }
    }
}
