//! The variables that a program gets for a request.

use std::path::PathBuf;

use touchstone_handler::request::{PlainGet, Request};
use touchstone_http::request::{RequestBody, RequestHead};

use super::script::Script;
use super::settings::{Paths, Settings};
use crate::meta_variables::{MetaVariables, RequestFacts, VariableSink, ZeroByte, write_variables};

/// What a program is told of a request.
pub struct ProgramVariables<'a> {
    /// All but what the settings and the script say.
    facts: RequestFacts<'a>,
    head: &'a RequestHead,
    /// What the head was parsed from.
    buffer: &'a [u8],
    script: &'a Script<'a>,
    settings: &'a Settings,
    body_bytes: u64,
    /// The script's file, where scripts are files.
    file: Option<PathBuf>,
}

impl<'a> ProgramVariables<'a> {
    /// Of a request for this script.
    pub fn new(
        request: &'a Request,
        script: &'a Script<'a>,
        settings: &'a Settings,
        body_bytes: u64,
    ) -> ProgramVariables<'a> {
        let received = &request.received;
        ProgramVariables {
            facts: RequestFacts::of(request),
            head: &received.head,
            buffer: &received.buffer,
            script,
            settings,
            body_bytes,
            file: file_of(script, settings),
        }
    }

    /// Of a request for this script that lies in its connection's buffer.
    pub fn of_plain_get(
        get: &PlainGet<'a>,
        script: &'a Script<'a>,
        settings: &'a Settings,
    ) -> ProgramVariables<'a> {
        ProgramVariables {
            facts: RequestFacts::of_plain_get(get),
            head: get.head,
            buffer: get.buffer,
            script,
            settings,
            body_bytes: 0,
            file: file_of(script, settings),
        }
    }

    /// Length of the request's body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            script_name: &self.script.name,
            path_info: self.script.path_info,
            document_root: Some(&self.settings.document_root),
            script_filename: self.file.as_deref(),
            content_length: (self.head.body != RequestBody::None).then_some(self.body_bytes),
            pass_authorization: self.settings.pass_authorization,
            ..self.facts.clone()
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.head.fields.iter().map(|line| (line.name.of(self.buffer), line.value.of(self.buffer)))
    }

    /// All of them in one piece.
    ///
    /// # Errors
    /// A value cannot be passed on.
    pub fn in_one_piece(&self) -> Result<MetaVariables, ZeroByte> {
        let mut variables = MetaVariables::of(&self.facts(), self.fields())?;
        if self.file.is_some() {
            // A PHP that was built to be called by redirection only (cgi.force_redirect) looks for it.
            variables.set("REDIRECT_STATUS", b"200");
        }
        for (name, value) in &self.settings.parameters {
            variables.set(name, value.as_bytes());
        }
        Ok(variables)
    }

    /// Writes them one by one: without a copy in between, unless one might take the place of another.
    ///
    /// # Errors
    /// A value cannot be passed on.
    pub fn write_to(&self, sink: &mut impl VariableSink) -> Result<(), ZeroByte> {
        let facts = self.facts();
        if !self.settings.parameters.is_empty() || !facts.page_variables.is_empty() {
            self.in_one_piece()?.iter().for_each(|(name, value)| sink.add_pieces(name, &[value]));
            return Ok(());
        }
        // Nothing else of a request can hold one: paths alone are decoded.
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
    matches!(settings.paths, Paths::Scripts(_)).then(|| script.file_below(&settings.document_root))
}
