//! The variables that a program gets for a request.

use std::path::PathBuf;

use touchstone_http::request::RequestBody;

use super::script::Script;
use super::settings::{Paths, Settings};
use crate::meta_variables::{MetaVariables, RequestFacts, VariableSink, ZeroByte, write_variables};
use crate::request::Request;

/// What a program is told of a request.
pub struct ProgramVariables<'a> {
    request: &'a Request,
    script: &'a Script,
    settings: &'a Settings,
    body_bytes: u64,
    /// The script's file, where scripts are files.
    file: Option<PathBuf>,
}

impl<'a> ProgramVariables<'a> {
    /// Of a request for this script.
    pub fn new(
        request: &'a Request,
        script: &'a Script,
        settings: &'a Settings,
        body_bytes: u64,
    ) -> ProgramVariables<'a> {
        let is_scripts = matches!(settings.paths, Paths::Scripts(_));
        let file = is_scripts.then(|| script.file_below(&settings.document_root));
        ProgramVariables { request, script, settings, body_bytes, file }
    }

    /// Length of the request's body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            script_name: &self.script.name,
            path_info: &self.script.path_info,
            document_root: Some(&self.settings.document_root),
            script_filename: self.file.as_deref(),
            content_length: (self.request.received.head.body != RequestBody::None).then_some(self.body_bytes),
            pass_authorization: self.settings.pass_authorization,
            ..RequestFacts::of(self.request)
        }
    }

    /// All of them in one piece.
    ///
    /// # Errors
    /// A value cannot be passed on.
    pub fn in_one_piece(&self) -> Result<MetaVariables, ZeroByte> {
        let mut variables = MetaVariables::of(&self.facts(), self.request.received.fields())?;
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
        if self.request.path.contains(&0) {
            return Err(ZeroByte);
        }
        let fields: Vec<(&[u8], &[u8])> = self.request.received.fields().collect();
        write_variables(&facts, &fields, sink);
        if self.file.is_some() {
            sink.add_pieces(b"REDIRECT_STATUS", &[b"200"]);
        }
        Ok(())
    }
}
