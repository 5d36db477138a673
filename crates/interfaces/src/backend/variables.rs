//! The variables that a program gets for a request.

use touchstone_http::request::RequestBody;

use super::script::Script;
use super::settings::{Paths, Settings};
use crate::meta_variables::{MetaVariables, RequestFacts, ZeroByte};
use crate::request::Request;

/// The variables of a request for this script.
///
/// # Errors
/// A value cannot be passed on.
pub fn variables_of(
    request: &Request,
    script: &Script,
    settings: &Settings,
    body_bytes: u64,
) -> Result<MetaVariables, ZeroByte> {
    let is_scripts = matches!(settings.paths, Paths::Scripts(_));
    let file = is_scripts.then(|| script.file_below(&settings.document_root));
    let facts = RequestFacts {
        script_name: &script.name,
        path_info: &script.path_info,
        document_root: Some(&settings.document_root),
        script_filename: file.as_deref(),
        content_length: (request.received.head.body != RequestBody::None).then_some(body_bytes),
        pass_authorization: settings.pass_authorization,
        ..RequestFacts::of(request)
    };
    let mut variables = MetaVariables::of(&facts, request.received.fields())?;
    if is_scripts {
        // A PHP that was built to be called by redirection only (cgi.force_redirect) looks for it.
        variables.set("REDIRECT_STATUS", b"200");
    }
    for (name, value) in &settings.parameters {
        variables.set(name, value.as_bytes());
    }
    Ok(variables)
}
