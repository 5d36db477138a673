//! A directive that is ready to run: its function was found, its patterns compiled, its parameters converted
//! for C.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use crate::abi::{Pblock, Request, Session};
use crate::conf::expression::Template;
use crate::conf::{self, Branch, Client, ClientMatch, Parameters, SourceLocation, Stage, parameter};
use crate::functions::Function;
use crate::pattern::Pattern;
use crate::pblock;

/// A directive that is ready to run.
pub struct Directive {
    function: &'static Function,
    block: *mut Pblock,
    branch: Option<Arc<Branch>>,
    /// If parameters contain variables: all parameters, and the templates of those with variables.
    templates: Option<(Parameters, Vec<(usize, Template)>)>,
    client: Option<Arc<ClientRules>>,
    method: Option<Pattern>,
    media_type: Option<Pattern>,
    query: Option<Pattern>,
    code: Option<Vec<u8>>,
    reason: Option<Vec<u8>>,
    is_service: bool,
}

// SAFETY: the block is made once and never freed; plug-ins must synchronise their own changes to it, as in
// the original servers.
unsafe impl Send for Directive {}
// SAFETY: as above.
unsafe impl Sync for Directive {}

impl Directive {
    /// Prepares a directive; the error states what is wrong with its parameters.
    pub fn new(
        directive: &conf::Directive,
        function: &'static Function,
        client: Option<Arc<ClientRules>>,
    ) -> Result<Directive, String> {
        let is_service = directive.stage == Stage::Service;
        let pattern = |name: &str| match parameter(&directive.parameters, name) {
            Some(text) if is_service => Pattern::new(text)
                .map(Some)
                .map_err(|error| format!("the pattern of {name} is not valid: {error}")),
            _ => Ok(None),
        };
        let is_error = directive.stage == Stage::Error;
        let text =
            |name: &str| parameter(&directive.parameters, name).filter(|_| is_error).map(<[u8]>::to_vec);
        Ok(Directive {
            function,
            block: permanent_block(&with_stage(directive)),
            branch: directive.branch.clone(),
            templates: (!directive.templates.is_empty())
                .then(|| (with_stage(directive), directive.templates.clone())),
            client,
            method: pattern("method")?,
            media_type: pattern("type")?,
            query: pattern("query")?,
            code: text("code"),
            reason: text("reason"),
            is_service,
        })
    }

    /// Its function.
    pub fn function(&self) -> &'static Function {
        self.function
    }

    /// The `<If>`, `<ElseIf>` or `<Else>` that contains it.
    pub fn branch(&self) -> Option<&Branch> {
        self.branch.as_deref()
    }

    /// Its parameters. If they contain variables, the request fills them in, in a block of the current pool.
    pub fn block<E>(
        &self,
        fill: impl FnOnce(&[(usize, Template)], &mut Parameters) -> Result<(), E>,
    ) -> Result<*mut Pblock, E> {
        let Some((parameters, templates)) = &self.templates else { return Ok(self.block) };
        let mut parameters = parameters.clone();
        fill(templates, &mut parameters)?;
        Ok(block_of(&parameters))
    }

    /// Whether it applies to this request.
    ///
    /// # Safety
    /// Session and request must be valid.
    pub unsafe fn applies(
        &self,
        session: *mut Session,
        request: *mut Request,
        client_name: ClientName,
    ) -> bool {
        if !self.is_service && self.client.is_none() && self.code.is_none() && self.reason.is_none() {
            return true;
        }
        let method = pblock::find((*request).reqpb, b"method").unwrap_or_default();
        (!self.is_service || self.takes_method(method))
            && self.applies_but_for_method(session, request, client_name)
    }

    /// Whether it applies to requests with this method. Without a `method` parameter, it does not apply to
    /// OPTIONS and TRACE.
    pub fn takes_method(&self, method: &[u8]) -> bool {
        match &self.method {
            Some(pattern) => pattern.matches_any_case(method),
            None => !matches!(method, b"OPTIONS" | b"TRACE"),
        }
    }

    /// Whether it applies to this request, apart from the method.
    ///
    /// # Safety
    /// Session and request must be valid.
    pub unsafe fn applies_but_for_method(
        &self,
        session: *mut Session,
        request: *mut Request,
        client_name: ClientName,
    ) -> bool {
        let media_type = |pattern: &Pattern| {
            pattern.matches_any_case(pblock::find((*request).srvhdrs, b"content-type").unwrap_or_default())
        };
        let query = |pattern: &Pattern| {
            pblock::find((*request).reqpb, b"query").is_some_and(|query| pattern.matches_any_case(query))
        };
        self.media_type.as_ref().is_none_or(media_type)
            && self.query.as_ref().is_none_or(query)
            && self.status_applies(request)
            && self.client.as_ref().is_none_or(|client| client.apply(session, request, client_name))
    }

    unsafe fn status_applies(&self, request: *mut Request) -> bool {
        let status = || pblock::find((*request).srvhdrs, b"status").unwrap_or_default();
        match (&self.reason, &self.code) {
            (Some(reason), _) => status().get(4..).unwrap_or_default().eq_ignore_ascii_case(reason),
            (None, Some(code)) => status().starts_with(code),
            (None, None) => true,
        }
    }
}

/// The parameters, and the stage as in the original servers: functions that are used in two stages read it
/// (PHP uses it to detect whether it makes an error page).
fn with_stage(directive: &conf::Directive) -> Parameters {
    let mut parameters = directive.parameters.clone();
    parameters.push(("Directive".into(), directive.stage.name().into()));
    parameters
}

/// A block that is never freed.
pub fn permanent_block(parameters: &Parameters) -> *mut Pblock {
    let before = crate::memory::set_current_pool(std::ptr::null_mut());
    let block = block_of(parameters);
    crate::memory::set_current_pool(before);
    block
}

/// A block of the current pool, or of the heap if there is none.
fn block_of(parameters: &Parameters) -> *mut Pblock {
    // SAFETY: the block is new.
    unsafe {
        let block = pblock::pblock_create((parameters.len() as i32).clamp(1, 32));
        // Later entries are found first, so inserting in reverse order makes the first of two values count.
        for (name, value) in parameters.iter().rev() {
            pblock::insert(block, name, value);
        }
        block
    }
}

/// Finds the name of a session's client: the C function of the interface.
pub type ClientName = unsafe extern "C" fn(*mut Session, c_int) -> *mut c_char;

/// A `<Client>` that is ready to be compared.
pub struct ClientRules {
    conditions: Vec<(Condition, Pattern)>,
    needed: ClientMatch,
}

/// The part of a request that a condition tests.
enum Condition {
    /// A field of the request.
    Header(Vec<u8>),
    /// A variable.
    Variable(Vec<u8>),
    /// The parameters of the request.
    Requested(&'static [u8]),
    /// A value of the client's block.
    Client(&'static [u8]),
    /// A value of the answer's block.
    Answer(&'static [u8]),
    Host,
    Security,
    Internal,
    Restarted,
    KeepAlive,
    Chunked,
}

impl ClientRules {
    /// Reads the conditions; the error states what is wrong.
    pub fn new(client: &Client, location: &SourceLocation) -> Result<ClientRules, String> {
        let mut conditions = Vec::new();
        for (name, value) in &client.conditions {
            let name = name.to_ascii_lowercase();
            let (condition, text) = condition(&name, value).ok_or_else(|| {
                format!("{:?} is not an attribute of <Client>", String::from_utf8_lossy(&name))
            })?;
            let pattern = Pattern::new(text).map_err(|error| {
                format!("the pattern of {} is not valid: {error}", String::from_utf8_lossy(&name))
            })?;
            conditions.push((condition, pattern));
        }
        if conditions.is_empty() {
            return Err(format!("the <Client> at {location} has no attribute to compare"));
        }
        Ok(ClientRules { conditions, needed: client.needed })
    }

    unsafe fn apply(&self, session: *mut Session, request: *mut Request, client_name: ClientName) -> bool {
        let mut each = self.conditions.iter().map(|(condition, pattern)| {
            condition
                .values(session, request, client_name)
                .iter()
                .any(|value| pattern.matches_any_case(value))
        });
        match self.needed {
            ClientMatch::All => each.all(|is_so| is_so),
            ClientMatch::Any => each.any(|is_so| is_so),
            ClientMatch::None => !each.any(|is_so| is_so),
        }
    }
}

fn condition<'a>(name: &[u8], value: &'a [u8]) -> Option<(Condition, &'a [u8])> {
    let text = match name {
        b"browser" => Condition::Header(b"user-agent".to_vec()),
        b"urlhost" => Condition::Host,
        b"ip" => Condition::Client(b"ip"),
        b"dns" => Condition::Client(b"dns"),
        b"keysize" => Condition::Client(b"keysize"),
        b"secret-keysize" => Condition::Client(b"secret-keysize"),
        b"method" => Condition::Requested(b"method"),
        b"uri" => Condition::Requested(b"uri"),
        b"query" => Condition::Requested(b"query"),
        b"path" => Condition::Variable(b"path".to_vec()),
        b"ppath" => Condition::Variable(b"ppath".to_vec()),
        b"name" => Condition::Variable(b"name".to_vec()),
        b"type" => Condition::Answer(b"content-type"),
        b"code" | b"reason" => Condition::Answer(if name == b"code" { b"clf-status" } else { b"status" }),
        b"security" => Condition::Security,
        b"internal" => Condition::Internal,
        b"restarted" => Condition::Restarted,
        b"keep-alive" => Condition::KeepAlive,
        b"chunked" => Condition::Chunked,
        // The value is a name and a pattern: variable="x=y*", variable-headers="referer=*".
        b"variable" | b"variable-vars" | b"variable-headers" => {
            let equals = value.iter().position(|byte| *byte == b'=')?;
            let (variable, pattern) = (value[..equals].to_ascii_lowercase(), &value[equals + 1..]);
            let condition = match name {
                b"variable-headers" => Condition::Header(variable),
                _ => Condition::Variable(variable),
            };
            return Some((condition, pattern));
        }
        _ => return None,
    };
    Some((text, value))
}

impl Condition {
    /// The texts of which one must match.
    unsafe fn values(
        &self,
        session: *mut Session,
        request: *mut Request,
        client_name: ClientName,
    ) -> Vec<Vec<u8>> {
        use crate::abi::{ATTRIBUTE_CHUNKED, ATTRIBUTE_INTERNAL, ATTRIBUTE_KEEP_ALIVE, ATTRIBUTE_RESTARTED};
        let value_in =
            |block: *const Pblock, name: &[u8]| vec![pblock::find(block, name).unwrap_or_default().to_vec()];
        let flag = |is_so: bool| {
            let words: [&[u8]; 4] =
                if is_so { [b"true", b"on", b"yes", b"1"] } else { [b"false", b"off", b"no", b"0"] };
            words.map(<[u8]>::to_vec).to_vec()
        };
        let attribute = |bit| flag((*request).rq_attr & bit != 0);
        match self {
            Condition::Header(name) => value_in((*request).headers, name),
            Condition::Variable(name) => value_in((*request).vars, name),
            Condition::Requested(name) => value_in((*request).reqpb, name),
            Condition::Client(b"dns") => {
                let name = client_name(session, 0);
                vec![crate::memory::bytes(name).to_vec()]
            }
            Condition::Client(name) => value_in((*session).client, name),
            Condition::Answer(name) => {
                let mut value =
                    value_in((*request).srvhdrs, if *name == b"clf-status" { b"status" } else { name });
                match *name {
                    b"clf-status" => value[0].truncate(3),
                    b"status" => value[0] = value[0].get(4..).unwrap_or_default().to_vec(),
                    _ => {}
                }
                value
            }
            Condition::Host => vec![crate::memory::bytes((*request).hostname).to_vec()],
            Condition::Security => flag((*session).ssl != 0),
            Condition::Internal => attribute(ATTRIBUTE_INTERNAL),
            Condition::Restarted => attribute(ATTRIBUTE_RESTARTED),
            Condition::KeepAlive => attribute(ATTRIBUTE_KEEP_ALIVE),
            Condition::Chunked => attribute(ATTRIBUTE_CHUNKED),
        }
    }
}
