//! A request as the dictionary of ASGI, the scope of a connection.

use rustc_hash::FxHashMap;

use super::names::Names;
use crate::api::{Gil, Object, PythonException};
use crate::shared::request::{Fields, IS_HTTPS, WorkerRequestHead};

/// The most names and values that are cached, and the longest of them.
const MOST_KEPT: usize = 512;
const LONGEST_KEPT: usize = 64;

/// Makes scopes.
pub struct Scopes {
    http: Object,
    websocket: Object,
    /// The state that the application has made in its lifespan; each request gets a copy.
    state: Option<Object>,
    names: FxHashMap<Box<[u8]>, Object>,
    texts: FxHashMap<Box<[u8]>, Object>,
    root_path: Vec<u8>,
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
        let base = |kind: &Object, extensions: &Object| {
            let dict = gil.dict()?;
            gil.set(&dict, &names.kind, kind)?;
            gil.set(&dict, &names.asgi, asgi)?;
            gil.set(&dict, &names.extensions, extensions)?;
            gil.set(&dict, &names.root_path, &gil.utf8(root_path.as_bytes())?)?;
            Ok(dict)
        };
        Ok(Scopes {
            http: base(&names.http, extensions)?,
            websocket: base(&names.websocket, ws_extensions)?,
            state,
            names: FxHashMap::default(),
            texts: FxHashMap::default(),
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
        let scope = gil.copy_dict(if is_websocket { &self.websocket } else { &self.http })?;
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
        // The path includes the root path, as in the specification from version 2.3 on.
        gil.set(&scope, &names.path, &gil.utf8(request_head.path)?)?;
        gil.set(&scope, &names.raw_path, &gil.make_bytes(request_head.raw_path)?)?;
        gil.set(&scope, &names.query_string, &gil.make_bytes(request_head.query)?)?;
        debug_assert!(self.root_path.is_ascii());
        let client = match request_head.client.is_empty() {
            true => gil.none(),
            false => {
                let port = gil.number(request_head.client_port.into())?;
                gil.tuple([self.text(gil, request_head.client)?, port])?
            }
        };
        gil.set(&scope, &names.client, &client)?;
        let port = gil.number(request_head.server_port.into())?;
        let server = gil.tuple([self.text(gil, request_head.server_name)?, port])?;
        gil.set(&scope, &names.server, &server)?;
        if is_websocket {
            gil.set(&scope, &names.subprotocols, &subprotocols(gil, fields.clone())?)?;
        }
        let mut pairs = Vec::with_capacity(fields.expected());
        for (name, value) in fields {
            let name = self.name(gil, name)?;
            pairs.push(gil.tuple([name, gil.make_bytes(value)?])?);
        }
        gil.set(&scope, &names.headers, &gil.list(pairs.into_iter())?)?;
        if let Some(state) = &self.state {
            gil.set(&scope, &names.state, &gil.copy_dict(state)?)?;
        }
        if !request_head.id.is_empty() {
            gil.set(&scope, &names.request_id, &gil.latin1(request_head.id)?)?;
        }
        Ok(scope)
    }

    /// The name of a header field, in small letters.
    fn name(&mut self, gil: Gil, name: &[u8]) -> Result<Object, PythonException> {
        if let Some(known) = self.names.get(name) {
            return Ok(known.clone());
        }
        let object = gil.make_bytes(&name.to_ascii_lowercase())?;
        if self.names.len() < MOST_KEPT && name.len() <= LONGEST_KEPT {
            self.names.insert(name.into(), object.clone());
        }
        Ok(object)
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
