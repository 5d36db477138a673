//! Requests that vary: they contain variables or cookies, or follow a redirect. They are compiled to
//! templates before the run. During the run, a request is written by concatenating the pieces of its
//! template.

use crate::fields::{Field, header_fields, pseudo_method_and_scheme};
use crate::header_blocks::{HeaderBlocks, http3_request};
use crate::messages::MessageForm;
use crate::plan::{ConnectionUse, Plan, PlanError, PlannedRequest};
use crate::target::HttpVersion;
use crate::target::Target;
use std::io::Write;
use touchstone_http::h2::hpack::encode_fields_block;
use touchstone_http::h3::qpack;
use touchstone_session::{RequestPart, Script, State, Template, has_variables};

/// The templates of a request that varies, one for each form.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    usual: FormTemplate,
    /// The forms after a redirect: as a GET without a body, and with the same method and body.
    redirected: Option<[FormTemplate; 2]>,
}

/// The form of a request, which depends on redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RedirectForm {
    #[default]
    None,
    /// After a redirect that changes the method to GET (301, 302 and 303).
    AsGet,
    /// After a redirect that keeps method and body (307 and 308).
    SameMethod,
}

/// The template of one form of a request.
#[derive(Debug)]
struct FormTemplate {
    version: HttpVersion,
    target: usize,
    is_secure: bool,
    keeps_cookies: bool,
    /// The body is a message of the WebSocket, and is not sent with the request.
    is_websocket: bool,
    path: Template,
    /// HTTP/1: the method and a space.
    method: Box<[u8]>,
    /// HTTP/1: the head after the path, except for Cookie, Content-Length and the empty line.
    head: Template,
    /// The same for the last request on a connection, if a share of the requests closes its connection.
    last_head: Option<Template>,
    /// HTTP/2 and 3: names and values.
    fields: Vec<(Box<[u8]>, Template)>,
    /// The Cookie field of the plan.
    cookie: Option<Template>,
    body: Option<Template>,
}

/// A rendered request of one client. The buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct WrittenRequest {
    /// HTTP/1.
    pub(crate) bytes: Vec<u8>,
    /// HTTP/2 and 3.
    pub(crate) blocks: HeaderBlocks,
    /// Path and query.
    pub(crate) path: Vec<u8>,
    pub(crate) body: Vec<u8>,
    cookie: Vec<u8>,
    values: Vec<u8>,
    ends: Vec<usize>,
}

impl RequestTemplate {
    /// Compiles a request; `None`: it does not vary.
    pub(crate) fn compile(
        plan: &Plan,
        request: &PlannedRequest,
        script: &Script,
    ) -> Result<Option<RequestTemplate>, PlanError> {
        if plan.script.is_none() {
            return Ok(None);
        }
        let redirects = request.step.as_ref().is_some_and(|step| step.redirects > 0);
        if !redirects && !script.has_cookies() && !texts(plan, request).any(has_variables) {
            return Ok(None);
        }
        let form =
            |path: Template, request: &PlannedRequest| FormTemplate::compile(plan, request, script, path);
        let path = compiled(&request.path, RequestPart::Target, script)?;
        let redirected = match redirects {
            false => None,
            true => {
                let location = || Template::variable(script.location_variable());
                let method = if request.method == "HEAD" { "HEAD" } else { "GET" };
                let get = PlannedRequest { method: method.to_string(), body: None, ..request.clone() };
                Some([form(location(), &get)?, form(location(), request)?])
            }
        };
        Ok(Some(RequestTemplate { usual: form(path, request)?, redirected }))
    }

    /// The variables that the request contains.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        let FormTemplate { path, head, fields, cookie, body, .. } = &self.usual;
        let fields = fields.iter().map(|(_, value)| value);
        [path, head].into_iter().chain(fields).chain(cookie).chain(body).flat_map(Template::variables)
    }

    /// Writes the request of a client.
    pub(crate) fn write(
        &self,
        redirect_form: RedirectForm,
        is_last: bool,
        state: &State,
        out: &mut WrittenRequest,
    ) {
        match (redirect_form, &self.redirected) {
            (RedirectForm::AsGet, Some([get, _])) => get.write(is_last, state, out),
            (RedirectForm::SameMethod, Some([_, same])) => same.write(is_last, state, out),
            _ => self.usual.write(is_last, state, out),
        }
    }
}

/// All texts of a request that may contain variables.
fn texts<'a>(plan: &'a Plan, request: &'a PlannedRequest) -> impl Iterator<Item = &'a str> {
    let headers = plan.headers.iter().chain(&request.headers).map(String::as_str);
    let body = request.body.as_deref().filter(|_| !is_grpc(request));
    let body = body.and_then(|body| std::str::from_utf8(body).ok());
    [request.path.as_str()].into_iter().chain(headers).chain(body)
}

/// Whether the body is a gRPC message. It is sent without changes, because its length prefix would be wrong
/// after a substitution.
fn is_grpc(request: &PlannedRequest) -> bool {
    request.messages.is_some_and(|messages| messages.form == MessageForm::Grpc)
}

fn compiled(text: &str, place: RequestPart, script: &Script) -> Result<Template, PlanError> {
    Template::compile(text, place, |name| script.variable(name)).map_err(|error| PlanError(error.0))
}

impl FormTemplate {
    fn compile(
        plan: &Plan,
        request: &PlannedRequest,
        script: &Script,
        path: Template,
    ) -> Result<FormTemplate, PlanError> {
        let target = plan.targets().nth(request.target).unwrap_or(&plan.target);
        let version = plan.version_of(target);
        let body = match &request.body {
            None => None,
            Some(body) if is_grpc(request) => Some(Template::text(body)),
            // Bytes that are not UTF-8 contain no variables.
            Some(body) => Some(match std::str::from_utf8(body) {
                Ok(text) => compiled(text, RequestPart::Body, script)?,
                Err(_) => Template::text(body),
            }),
        };
        let is_cookie = |(name, _): &Field| name.eq_ignore_ascii_case("cookie");
        let is_length = |(name, _): &Field| name.eq_ignore_ascii_case("content-length");
        let mut form = FormTemplate {
            version,
            target: request.target,
            is_secure: target.tls.is_some(),
            keeps_cookies: script.has_cookies(),
            is_websocket: request.websocket.is_some(),
            path,
            method: format!("{} ", request.method).into_bytes().into(),
            head: Template::text(b""),
            last_head: None,
            fields: Vec::new(),
            cookie: None,
            body,
        };
        let connections = match plan.connections {
            ConnectionUse::NewShare(_) => ConnectionUse::Kept,
            other => other,
        };
        let all = header_fields(plan, request, target, connections);
        if let Some((_, value)) = all.iter().find(|field| is_cookie(field)) {
            form.cookie = Some(compiled(value, RequestPart::Field, script)?);
        }
        let fields: Vec<Field> =
            all.into_iter().filter(|field| !is_cookie(field) && !is_length(field)).collect();
        if matches!(version, HttpVersion::Http2 | HttpVersion::Http3) {
            form.fields = multiplexed(request, target, &fields, script)?;
            return Ok(form);
        }
        form.head = head(version, &fields, script)?;
        if matches!(plan.connections, ConnectionUse::NewShare(_)) {
            let all = header_fields(plan, request, target, ConnectionUse::New);
            let fields: Vec<Field> =
                all.into_iter().filter(|field| !is_cookie(field) && !is_length(field)).collect();
            form.last_head = Some(head(version, &fields, script)?);
        }
        Ok(form)
    }

    fn write(&self, is_last: bool, state: &State, out: &mut WrittenRequest) {
        out.path.clear();
        self.path.render(&state.values, &mut out.path);
        into_origin_form(&mut out.path);
        out.cookie.clear();
        if let Some(cookie) = &self.cookie {
            cookie.render(&state.values, &mut out.cookie);
        }
        if self.keeps_cookies {
            let before = out.cookie.len();
            if before > 0 {
                out.cookie.extend_from_slice(b"; ");
            }
            if !state.append_cookies(self.target, &out.path, self.is_secure, &mut out.cookie) {
                out.cookie.truncate(before);
            }
        }
        out.body.clear();
        if let Some(body) = &self.body {
            body.render(&state.values, &mut out.body);
        }
        match self.version {
            HttpVersion::Http10 | HttpVersion::Http11 => self.write_http1(is_last, state, out),
            HttpVersion::Http2 | HttpVersion::Http3 => self.write_multiplexed(state, out),
        }
    }

    fn write_http1(&self, is_last: bool, state: &State, out: &mut WrittenRequest) {
        out.bytes.clear();
        out.bytes.extend_from_slice(&self.method);
        out.bytes.extend_from_slice(&out.path);
        let head = self.last_head.as_ref().filter(|_| is_last).unwrap_or(&self.head);
        head.render(&state.values, &mut out.bytes);
        if !out.cookie.is_empty() {
            out.bytes.extend_from_slice(b"Cookie: ");
            out.bytes.extend_from_slice(&out.cookie);
            out.bytes.extend_from_slice(b"\r\n");
        }
        if self.body.is_some() && !self.is_websocket {
            // Writing to memory does not fail.
            let _ = write!(out.bytes, "Content-Length: {}\r\n", out.body.len());
        }
        out.bytes.extend_from_slice(b"\r\n");
        if !self.is_websocket {
            out.bytes.extend_from_slice(&out.body);
        }
    }

    fn write_multiplexed(&self, state: &State, out: &mut WrittenRequest) {
        out.values.clear();
        out.ends.clear();
        for (_, value) in &self.fields {
            value.render(&state.values, &mut out.values);
            out.ends.push(out.values.len());
        }
        let length = out.body.len().to_string();
        let more = [
            (b"cookie".as_slice(), &out.cookie[..], !out.cookie.is_empty()),
            (b"content-length", length.as_bytes(), self.body.is_some()),
        ];
        let (values, ends) = (&out.values, &out.ends);
        let own = self.fields.iter().enumerate().map(|(place, (name, _))| {
            let start = place.checked_sub(1).map_or(0, |before| ends[before]);
            (&name[..], &values[start..ends[place]])
        });
        let path = (b":path".as_slice(), &out.path[..]);
        let more = more.into_iter().filter(|(_, _, is_there)| *is_there);
        let fields = [path].into_iter().chain(own).chain(more.map(|(name, value, _)| (name, value)));
        if self.version == HttpVersion::Http3 {
            let mut section = Vec::new();
            qpack::encode_fields(fields, &mut section);
            out.blocks.h3 = http3_request(&section, &out.body);
        } else {
            out.blocks.without_table.clear();
            encode_fields_block(fields, &mut out.blocks.without_table);
            out.blocks.body = self.body.is_some().then(|| out.body.as_slice().into());
        }
    }
}

/// Converts the value of a path to origin form (RFC 9112, section 3.2.1): it may be a whole URL, or lack the
/// slash at the beginning.
fn into_origin_form(path: &mut Vec<u8>) {
    if path.starts_with(b"/") {
        return;
    }
    if let Some(scheme) = path.windows(3).position(|bytes| bytes == b"://") {
        let after = scheme + 3;
        let authority = path[after..].iter().position(|byte| b"/?".contains(byte));
        path.drain(..authority.map_or(path.len(), |length| after + length));
    }
    if !path.starts_with(b"/") {
        path.insert(0, b'/');
    }
}

/// HTTP/1: the head after the path.
fn head(version: HttpVersion, fields: &[Field], script: &Script) -> Result<Template, PlanError> {
    let mut head = Template::text(format!(" {}\r\n", version.name()).as_bytes());
    for (name, value) in fields {
        head.append(&Template::text(format!("{name}: ").as_bytes()));
        head.append(&compiled(value, RequestPart::Field, script)?);
        head.append(&Template::text(b"\r\n"));
    }
    Ok(head)
}

/// The name of a field, and its value as a template.
type VaryingField = (Box<[u8]>, Template);

/// HTTP/2 and 3: names and values, beginning with the pseudo-header fields except for the path.
fn multiplexed(
    request: &PlannedRequest,
    target: &Target,
    fields: &[Field],
    script: &Script,
) -> Result<Vec<VaryingField>, PlanError> {
    let mut all: Vec<VaryingField> = pseudo_method_and_scheme(request, target)
        .iter()
        .map(|(name, value)| (name.as_bytes().into(), Template::text(value.as_bytes())))
        .collect();
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    for (name, value) in fields.iter().filter(|(name, _)| is_host(name)) {
        debug_assert!(is_host(name));
        all.push((b":authority".as_slice().into(), compiled(value, RequestPart::Field, script)?));
    }
    for (name, value) in fields.iter().filter(|(name, _)| !is_host(name)) {
        all.push((
            name.to_ascii_lowercase().into_bytes().into(),
            compiled(value, RequestPart::Field, script)?,
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::into_origin_form;

    #[test]
    fn values_are_converted_to_origin_form() {
        for (value, path) in [
            ("/a", "/a"),
            ("a?b", "/a?b"),
            ("", "/"),
            ("http://h:8/a?b", "/a?b"),
            ("https://h", "/"),
            ("http://h?q", "/?q"),
        ] {
            let mut bytes = value.as_bytes().to_vec();
            into_origin_form(&mut bytes);
            assert_eq!(bytes, path.as_bytes(), "{value}");
        }
    }
}
