//! A request as the dictionary of ASGI, the scope of a connection.
//!
//! A scope is a copy of one that has all items, so that the copy need not grow. Items that many requests have
//! in common are in that one; names, header fields, addresses and paths are shared objects.

use rustc_hash::FxHashMap;

use super::names::Names;
use crate::api::{Gil, Object, PythonException};
use crate::shared::request::{Field, Fields, IS_HTTPS, WorkerRequestHead};
use crate::worker::object_cache::ObjectCache;

/// The most names and values that are cached, and the longest of them.
const MOST_KEPT: usize = 512;
const LONGEST_KEPT: usize = 64;

/// The longest text of an IP address.
const LONGEST_ADDRESS: usize = 64;

/// Fields whose values are secrets. They are not kept when their request has ended.
const SECRETS: [&[u8]; 3] = [b"cookie", b"authorization", b"proxy-authorization"];

/// Makes scopes.
pub struct Scopes {
    http: Template,
    websocket: Template,
    /// The state that the application has made in its lifespan; each request gets a copy.
    state: Option<Object>,
    names: FxHashMap<Box<[u8]>, Object>,
    texts: FxHashMap<Box<[u8]>, Object>,
    /// Pairs of name and value.
    fields: ObjectCache<Object>,
    /// Pairs of address and port.
    clients: ObjectCache<Object>,
    /// Paths, and the same as they were sent.
    paths: ObjectCache<(Object, Object)>,
    root_path: Vec<u8>,
}

/// A scope with all items.
struct Template {
    scope: Object,
    /// What the items in it that rarely change were made of.
    version: u8,
    is_https: bool,
    method: Vec<u8>,
    server_name: Vec<u8>,
    server_port: u16,
}

impl Scopes {
    /// Makes the items that all scopes have. `asgi` and `extensions` are the dictionaries of these names.
    pub fn new(
        gil: Gil,
        names: &Names,
        [asgi, extensions, ws_extensions]: [&Object; 3],
        state: Option<Object>,
        root_path: &str,
    ) -> Result<Scopes, PythonException> {
        let template = |kind: &Object, extensions: &Object, last: &Object| {
            let dict = gil.dict()?;
            gil.set(&dict, &names.kind, kind)?;
            gil.set(&dict, &names.asgi, asgi)?;
            gil.set(&dict, &names.extensions, extensions)?;
            gil.set(&dict, &names.root_path, &gil.utf8(root_path.as_bytes())?)?;
            gil.set(&dict, &names.query_string, &gil.make_bytes(b"")?)?;
            let of_request =
                [&names.http_version, &names.scheme, &names.path, &names.raw_path, &names.client];
            for name in of_request.into_iter().chain([&names.server, &names.headers, last]) {
                gil.set(&dict, name, &gil.none())?;
            }
            if state.is_some() {
                gil.set(&dict, &names.state, &gil.none())?;
            }
            Ok(Template {
                scope: dict,
                version: 0,
                is_https: false,
                method: Vec::new(),
                server_name: Vec::new(),
                server_port: 0,
            })
        };
        Ok(Scopes {
            http: template(&names.http, extensions, &names.method)?,
            websocket: template(&names.websocket, ws_extensions, &names.subprotocols)?,
            state,
            names: FxHashMap::default(),
            texts: FxHashMap::default(),
            fields: ObjectCache::new(8),
            clients: ObjectCache::new(8),
            paths: ObjectCache::new(6),
            root_path: root_path.as_bytes().to_vec(),
        })
    }

    /// The scope of a request.
    pub fn of(
        &mut self,
        gil: Gil,
        names: &Names,
        request_head: &WorkerRequestHead<'_>,
        fields: Fields<'_>,
        is_websocket: bool,
    ) -> Result<Object, PythonException> {
        self.update_template(gil, names, request_head, is_websocket)?;
        let scope = gil.copy_dict(if is_websocket { &self.websocket.scope } else { &self.http.scope })?;
        // The path includes the root path, as in the specification from version 2.3 on.
        debug_assert!(self.root_path.is_ascii());
        let (path, raw_path) = self.path(gil, request_head)?;
        gil.set(&scope, &names.path, &path)?;
        gil.set(&scope, &names.raw_path, &raw_path)?;
        if !request_head.query.is_empty() {
            gil.set(&scope, &names.query_string, &gil.make_bytes(request_head.query)?)?;
        }
        if !request_head.client.is_empty() {
            gil.set(&scope, &names.client, &self.client(gil, request_head)?)?;
        }
        if is_websocket {
            gil.set(&scope, &names.subprotocols, &subprotocols(gil, fields.clone())?)?;
        }
        gil.set(&scope, &names.headers, &self.headers(gil, fields)?)?;
        if let Some(state) = &self.state {
            gil.set(&scope, &names.state, &gil.copy_dict(state)?)?;
        }
        if !request_head.id.is_empty() {
            gil.set(&scope, &names.request_id, &gil.latin1(request_head.id)?)?;
        }
        Ok(scope)
    }

    /// Sets the items that rarely change, if one differs from that of the request before.
    fn update_template(
        &mut self,
        gil: Gil,
        names: &Names,
        request_head: &WorkerRequestHead<'_>,
        is_websocket: bool,
    ) -> Result<(), PythonException> {
        let known = if is_websocket { &self.websocket } else { &self.http };
        if known.is_of(request_head) {
            return Ok(());
        }
        let scope = known.scope.clone();
        let version: &[u8] = match request_head.version {
            10 => b"1.0",
            20 => b"2",
            30 => b"3",
            _ => b"1.1",
        };
        gil.set(&scope, &names.http_version, &self.text(gil, version)?)?;
        let scheme: &[u8] = match (is_websocket, request_head.flags & IS_HTTPS != 0) {
            (false, false) => b"http",
            (false, true) => b"https",
            (true, false) => b"ws",
            (true, true) => b"wss",
        };
        gil.set(&scope, &names.scheme, &self.text(gil, scheme)?)?;
        if !is_websocket {
            gil.set(&scope, &names.method, &self.text(gil, request_head.method)?)?;
        }
        let port = gil.number(request_head.server_port.into())?;
        let server = gil.tuple([self.text(gil, request_head.server_name)?, port])?;
        gil.set(&scope, &names.server, &server)?;
        let known = if is_websocket { &mut self.websocket } else { &mut self.http };
        known.version = request_head.version;
        known.is_https = request_head.flags & IS_HTTPS != 0;
        known.method = request_head.method.to_vec();
        known.server_name = request_head.server_name.to_vec();
        known.server_port = request_head.server_port;
        Ok(())
    }

    fn path(
        &mut self,
        gil: Gil,
        request_head: &WorkerRequestHead<'_>,
    ) -> Result<(Object, Object), PythonException> {
        let (path, raw_path) = (request_head.path, request_head.raw_path);
        let make = || Ok((gil.utf8(path)?, gil.make_bytes(raw_path)?));
        // A path without escapes is the key of both. One with escapes is made from another text.
        if path == raw_path { self.paths.get(path, make) } else { make() }
    }

    fn client(&mut self, gil: Gil, request_head: &WorkerRequestHead<'_>) -> Result<Object, PythonException> {
        let (address, port) = (request_head.client, request_head.client_port);
        let make = |text: Object| gil.tuple([text, gil.number(port.into())?]);
        let mut key = [0; LONGEST_ADDRESS + 2];
        if address.len() > LONGEST_ADDRESS {
            return make(gil.latin1(address)?);
        }
        key[..address.len()].copy_from_slice(address);
        key[address.len()..address.len() + 2].copy_from_slice(&port.to_le_bytes());
        self.clients.get(&key[..address.len() + 2], || make(gil.latin1(address)?))
    }

    fn headers(&mut self, gil: Gil, mut fields: Fields<'_>) -> Result<Object, PythonException> {
        let mut pairs = Vec::with_capacity(fields.expected());
        while let Some(Field { written, name, value }) = fields.next_field() {
            let known = &mut self.names;
            let mut make = || gil.tuple([field_name(gil, known, name)?, gil.make_bytes(value)?]);
            let is_secret = SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
            pairs.push(if is_secret { make()? } else { self.fields.get(written, make)? });
        }
        gil.list(pairs.into_iter())
    }

    /// A text that many requests have.
    fn text(&mut self, gil: Gil, text: &[u8]) -> Result<Object, PythonException> {
        if let Some(known) = self.texts.get(text) {
            return Ok(known.clone());
        }
        let object = gil.latin1(text)?;
        if self.texts.len() < MOST_KEPT && text.len() <= LONGEST_KEPT {
            self.texts.insert(text.into(), object.clone());
        }
        Ok(object)
    }
}

impl Template {
    /// Whether the items that rarely change are those of this request.
    fn is_of(&self, request_head: &WorkerRequestHead<'_>) -> bool {
        self.version == request_head.version
            && self.is_https == (request_head.flags & IS_HTTPS != 0)
            && self.server_port == request_head.server_port
            && self.method == request_head.method
            && self.server_name == request_head.server_name
    }
}

/// The name of a header field, in small letters.
fn field_name(
    gil: Gil,
    known: &mut FxHashMap<Box<[u8]>, Object>,
    name: &[u8],
) -> Result<Object, PythonException> {
    if let Some(known) = known.get(name) {
        return Ok(known.clone());
    }
    let object = gil.make_bytes(&name.to_ascii_lowercase())?;
    if known.len() < MOST_KEPT && name.len() <= LONGEST_KEPT {
        known.insert(name.into(), object.clone());
    }
    Ok(object)
}

/// The subprotocols that a client of a WebSocket offers.
fn subprotocols(gil: Gil, fields: Fields<'_>) -> Result<Object, PythonException> {
    let mut offered = Vec::new();
    for (_, value) in fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-protocol")) {
        for part in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if !part.is_empty() {
                offered.push(gil.latin1(part)?);
            }
        }
    }
    gil.list(offered.into_iter())
}
