//! The variables that a program gets for a request.

use std::path::PathBuf;

use touchstone_handler::request::{PlainGet, Request};
use touchstone_http::request::{RequestBody, RequestHead};
use touchstone_http::request_view::{HeadFields, RequestView};
use touchstone_route::TargetRequest;

use super::script::Script;
use super::settings::{Paths, Settings};
use crate::meta_variables::{MetaVariables, RequestFacts, VariableSink, ZeroByte, write_variables};

/// The variables of a request for a program.
pub struct ProgramVariables<'a> {
    /// All variables except those of the settings and the script.
    facts: RequestFacts<'a>,
    head: &'a RequestHead,
    /// The bytes that the head was parsed from.
    buffer: &'a [u8],
    script: &'a Script<'a>,
    settings: &'a Settings,
    body_bytes: u64,
    /// The script's file, if scripts are files.
    file: Option<PathBuf>,
    /// The query that the script gets in place of that of the request.
    query: Option<Vec<u8>>,
}

impl<'a> ProgramVariables<'a> {
    /// The variables of a request for this script; `None`: the request lacks a value of its query.
    pub fn new(
        request: &'a Request,
        script: &'a Script<'a>,
        settings: &'a Settings,
        body_bytes: u64,
    ) -> Option<ProgramVariables<'a>> {
        let received = &request.received;
        let target = TargetRequest {
            path: &request.path,
            query: request.query.as_deref(),
            host: request.host.as_deref(),
            source: request,
        };
        Some(ProgramVariables {
            query: match script.query {
                Some(query) => Some(query.query(&target)?),
                None => None,
            },
            facts: RequestFacts::of(request),
            head: &received.head,
            buffer: &received.buffer,
            script,
            settings,
            body_bytes,
            file: file_of(script, settings),
        })
    }

    /// The variables of a plain GET for this script, in its connection's buffer; `None`: only the whole
    /// request has all values of its query.
    pub fn of_plain_get(
        get: &PlainGet<'a>,
        script: &'a Script<'a>,
        settings: &'a Settings,
    ) -> Option<ProgramVariables<'a>> {
        let query = match script.query {
            Some(target) if target.is_of_url() => {
                let fields = HeadFields { head: get.head, buffer: get.buffer };
                let source = RequestView {
                    client: None,
                    locator: None,
                    method: b"GET",
                    path: get.path,
                    query: get.query,
                    host: get.host,
                    fields: &fields,
                    connection: None,
                };
                let (path, query, host) = (get.path, get.query, get.host);
                Some(target.query(&TargetRequest { path, query, host, source: &source })?)
            }
            Some(_) => return None,
            None => None,
        };
        Some(ProgramVariables {
            query,
            facts: RequestFacts::of_plain_get(get),
            head: get.head,
            buffer: get.buffer,
            script,
            settings,
            body_bytes: 0,
            file: file_of(script, settings),
        })
    }

    /// Length of the request's body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            script_name: &self.script.name,
            path_info: self.script.path_info,
            query: self.query.as_deref().or(self.facts.query),
            document_root: self.settings.document_root.as_deref(),
            script_filename: self.file.as_deref(),
            content_length: (self.head.body != RequestBody::None).then_some(self.body_bytes),
            pass_authorization: self.settings.pass_authorization,
            ..self.facts.clone()
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.head.fields.iter().map(|line| (line.name.of(self.buffer), line.value.of(self.buffer)))
    }

    /// All variables in one piece.
    ///
    /// # Errors
    /// A value cannot be passed on.
    pub fn in_one_piece(&self) -> Result<MetaVariables, ZeroByte> {
        let mut variables = MetaVariables::of(&self.facts(), self.fields())?;
        if self.file.is_some() {
            // A PHP that was built to be called by redirection only (cgi.force_redirect) checks this
            // variable.
            variables.set("REDIRECT_STATUS", b"200");
        }
        for (name, value) in &self.settings.parameters {
            variables.set(name, value.as_bytes());
        }
        Ok(variables)
    }

    /// Writes the variables one by one: without a copy in between, unless one might replace another.
    ///
    /// # Errors
    /// A value cannot be passed on.
    pub fn write_to(&self, sink: &mut impl VariableSink) -> Result<(), ZeroByte> {
        let facts = self.facts();
        if !self.settings.parameters.is_empty() || !facts.page_variables.is_empty() {
            self.in_one_piece()?.iter().for_each(|(name, value)| sink.add_pieces(name, &[value]));
            return Ok(());
        }
        // Only decoded paths can contain a zero byte.
        if self.script.name.contains(&0) || self.script.path_info.contains(&0) {
            return Err(ZeroByte);
        }
        write_variables(&facts, self.fields(), sink);
        if self.file.is_some() {
            sink.add_pieces(b"REDIRECT_STATUS", &[b"200"]);
        }
        Ok(())
    }
}

fn file_of(script: &Script<'_>, settings: &Settings) -> Option<PathBuf> {
    let root = settings.document_root.as_deref().filter(|_| matches!(settings.paths, Paths::Scripts(_)));
    root.map(|root| script.file_below(root))
}
