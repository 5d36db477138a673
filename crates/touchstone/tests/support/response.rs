//! Answers, parsed strictly: whatever RFC 9112 does not allow a server to send is an error here, so that
//! every test that reads an answer also tests that it is well formed.

/// The method of the request: an answer to HEAD has no body whatever its fields say (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    /// A HEAD request.
    Head,
    /// Any other method.
    Other,
}

/// One answer, as received.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    /// `HTTP/1.1`
    pub(crate) version: String,
    /// `200`
    pub(crate) status: u16,
    /// `OK`
    pub(crate) reason: String,
    /// Names as they were sent, values without the white space around them; in order.
    pub(crate) fields: Vec<(String, String)>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    /// Everything, byte for byte.
    pub(crate) raw: Vec<u8>,
}

impl Response {
    /// The only value of a field; `None` if it is missing or there more than once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.values(name);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }

    /// Every value of a field.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields
            .iter()
            .filter(move |(each, _)| each.eq_ignore_ascii_case(name))
            .map(|(_, value)| &value[..])
    }

    /// Whether the answer states that it is the connection's last.
    pub(crate) fn says_close(&self) -> bool {
        self.values("connection")
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("close"))
    }

    /// An interim answer: the final one follows.
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// The fields without `Date`, for comparing two answers that were given at different moments.
    pub(crate) fn fields_without_date(&self) -> Vec<(String, String)> {
        self.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date")).cloned().collect()
    }
}

/// The length of the body, from the head alone.
enum Framing {
    Bytes(usize),
    Chunked,
    UntilClose,
}

/// Reads one answer from the start of `bytes`, and returns its length.
///
/// `Ok(None)`: more bytes are needed. A body that only the close delimits is complete once `closed` is true.
pub(crate) fn parse_one(
    bytes: &[u8],
    to: AnswerTo,
    closed: bool,
) -> Result<Option<(Response, usize)>, String> {
    let Some(head_length) = head_length(bytes)? else { return Ok(None) };
    let mut response = parse_head(&bytes[..head_length])?;
    let rest = &bytes[head_length..];
    let body_length = match framing(&response, to)? {
        Framing::Bytes(length) if rest.len() < length => return Ok(None),
        Framing::Bytes(length) => {
            response.body = rest[..length].to_vec();
            length
        }
        Framing::Chunked => match parse_chunked(rest)? {
            Some((body, length)) => {
                response.body = body;
                length
            }
            None => return Ok(None),
        },
        Framing::UntilClose if !closed => return Ok(None),
        Framing::UntilClose => {
            response.body = rest.to_vec();
            rest.len()
        }
    };
    let length = head_length + body_length;
    response.raw = bytes[..length].to_vec();
    Ok(Some((response, length)))
}

/// Reads everything that a connection gave until its end as answers to methods other than HEAD.
pub(crate) fn parse_all(mut bytes: &[u8]) -> Result<Vec<Response>, String> {
    let mut responses = Vec::new();
    while !bytes.is_empty() {
        match parse_one(bytes, AnswerTo::Other, true)? {
            Some((response, length)) => {
                responses.push(response);
                bytes = &bytes[length..];
            }
            None => return Err(format!("the last answer is cut short: {}", super::shown(bytes))),
        }
    }
    Ok(responses)
}

/// The parts of a `multipart/byteranges` body (RFC 9110 section 14.6): the fields and data of each.
pub(crate) fn parse_multipart(response: &Response) -> Result<Vec<Response>, String> {
    let content_type = response.field("content-type").ok_or("no Content-Type")?;
    let boundary = content_type
        .strip_prefix("multipart/byteranges; boundary=")
        .ok_or_else(|| format!("Content-Type is {content_type:?}"))?
        .trim_matches('"');
    let opening = format!("--{boundary}\r\n");
    let between = format!("\r\n--{boundary}\r\n");
    let closing = format!("\r\n--{boundary}--\r\n");
    let body = response.body.strip_suffix(closing.as_bytes()).ok_or("no closing boundary")?;
    // The first boundary may follow a CRLF (the end of an empty preamble) or be at the start.
    let body = body.strip_prefix(b"\r\n").unwrap_or(body);
    let mut rest = body.strip_prefix(opening.as_bytes()).ok_or("no opening boundary")?;
    let mut parts = Vec::new();
    loop {
        let (part, after) = match find(rest, between.as_bytes()) {
            Some(at) => (&rest[..at], Some(&rest[at + between.len()..])),
            None => (rest, None),
        };
        let head_end = find(part, b"\r\n\r\n").ok_or("a part has no end of its fields")? + 4;
        let head = [b"HTTP/1.1 206 part\r\n", &part[..head_end]].concat();
        let mut parsed = parse_head(&head)?;
        parsed.body = part[head_end..].to_vec();
        parts.push(parsed);
        match after {
            Some(after) => rest = after,
            None => return Ok(parts),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn head_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    const MOST: usize = 64 * 1024;
    match find(&bytes[..bytes.len().min(MOST)], b"\r\n\r\n") {
        Some(at) => Ok(Some(at + 4)),
        None if bytes.len() >= MOST => Err("no end of the head in 64 KiB".to_owned()),
        None => Ok(None),
    }
}

fn parse_head(head: &[u8]) -> Result<Response, String> {
    let text = std::str::from_utf8(head).map_err(|_| "the head is not ASCII".to_owned())?;
    if let Some(byte) = text.bytes().find(|&byte| !matches!(byte, b'\r' | b'\n' | b'\t' | b' '..=b'~')) {
        return Err(format!("byte {byte:#04x} in the head"));
    }
    let mut lines = text.strip_suffix("\r\n\r\n").ok_or("the head has no end")?.split("\r\n");
    let (version, status, reason) = parse_status_line(lines.next().unwrap_or_default())?;
    let mut fields = Vec::new();
    for line in lines {
        if line.contains(['\r', '\n']) {
            return Err(format!("a bare CR or LF in {line:?}"));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no colon in {line:?}"))?;
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(format!("field name {name:?}"));
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(Response { version, status, reason, fields, body: Vec::new(), raw: Vec::new() })
}

fn parse_status_line(line: &str) -> Result<(String, u16, String), String> {
    let wrong = || format!("status line {line:?}");
    let (version, rest) = line.split_once(' ').ok_or_else(wrong)?;
    let (status, reason) = rest.split_once(' ').ok_or_else(wrong)?;
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || status.len() != 3 || reason.contains('\t') {
        return Err(wrong());
    }
    let status = status.parse().map_err(|_| wrong())?;
    if !(100..600).contains(&status) {
        return Err(wrong());
    }
    Ok((version.to_owned(), status, reason.to_owned()))
}

fn framing(response: &Response, to: AnswerTo) -> Result<Framing, String> {
    let lengths: Vec<&str> = response.values("content-length").collect();
    let codings: Vec<&str> = response.values("transfer-encoding").collect();
    if lengths.len() > 1 || (!lengths.is_empty() && !codings.is_empty()) {
        return Err(format!("Content-Length {lengths:?} with Transfer-Encoding {codings:?}"));
    }
    let without_content = response.is_interim() || response.status == 204;
    if without_content && !(lengths.is_empty() && codings.is_empty()) {
        // RFC 9110 section 8.6 and RFC 9112 section 6.1: MUST NOT.
        return Err(format!("a {} answer with Content-Length or Transfer-Encoding", response.status));
    }
    let length = match lengths.first() {
        Some(text) if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("Content-Length {text:?}"));
        }
        Some(text) => Some(text.parse().map_err(|_| format!("Content-Length {text:?}"))?),
        None => None,
    };
    if to == AnswerTo::Head || without_content || response.status == 304 {
        return Ok(Framing::Bytes(0));
    }
    match (length, codings.as_slice()) {
        (Some(length), _) => Ok(Framing::Bytes(length)),
        (None, []) => Ok(Framing::UntilClose),
        (None, [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        (None, codings) => Err(format!("Transfer-Encoding {codings:?}")),
    }
}

fn parse_chunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line_length) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&bytes[at..at + line_length]).map_err(|_| "chunk size line")?;
        let digits = line.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).map_err(|_| format!("chunk size {digits:?}"))?;
        at += line_length + 2;
        if bytes.len() < at + size + 2 {
            return Ok(None);
        }
        if &bytes[at + size..at + size + 2] != b"\r\n" {
            return Err("a chunk without its CRLF (or with trailers)".to_owned());
        }
        body.extend_from_slice(&bytes[at..at + size]);
        at += size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
