//! Files and directories that a handler has found itself: pages with directives and directories to list, for
//! the functions `parse-html` and `index-common` of an obj.conf.
//!
//! The directories that an obj.conf names are separate sites: `plugin_directories` of the crate `sites`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_files::cache::ConnectionForm;
use touchstone_files::mime;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{FileAnswer, Show};
use touchstone_http::request::Method;
use touchstone_sites::site::Snapshot;

use crate::core::Core;
use crate::files::file_request::FileRequest;
use crate::files::includes::{self, FoundPage, PageAnswer};
use crate::files::site_files;
use crate::files::static_files;

/// Answers with what was found on disk.
pub async fn answer(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    site: usize,
    form: ConnectionForm,
    found: &FileAnswer,
) -> Answer {
    let Some((place, below)) = place_of(snapshot, site, &found.path) else { return Answer::error(404) };
    let request = FileRequest {
        snapshot,
        site: place,
        request: &found.request,
        head: &found.request.received.head,
        buffer: &found.request.received.buffer,
        path: &found.request.encoded_path,
        query: found.request.query.as_deref(),
        form,
    };
    let mut answer = match request.head.method {
        Method::Get | Method::Head if found.show == Show::Page => page(core, &request, &below).await,
        Method::Get | Method::Head => {
            let directory = if below.ends_with(b"/") { below } else { [&below[..], b"/"].concat() };
            site_files::list(core, &request, &directory, &found.request.path).await
        }
        _ => return Answer::error(405).field("Allow", "GET, HEAD"),
    };
    answer.fields.extend_from_slice(&found.fields);
    answer
}

/// The site that a path of the disk is in, and the path below its root.
fn place_of(snapshot: &Snapshot, site: usize, path: &Path) -> Option<(usize, Vec<u8>)> {
    snapshot.sites[site].plugin_directories.clone().find_map(|place| {
        let below = path.strip_prefix(snapshot.sites[place].config.root.as_ref()?).ok()?;
        // A slash at the end marks a directory, and is not part of the path for the file library.
        let slash: &[u8] = if path.as_os_str().as_bytes().ends_with(b"/") { b"/" } else { b"" };
        let below = [b"/", below.as_os_str().as_bytes(), slash].concat();
        Some((place, if below == b"//" { b"/".to_vec() } else { below }))
    })
}

async fn page(core: &Rc<Core>, request: &FileRequest<'_>, file_path: &[u8]) -> Answer {
    let site = request.site();
    let Some(includes) = &site.includes else { return Answer::error(404) };
    let page = match includes::kept(core, request.snapshot, request.site, file_path) {
        Some(page) => page,
        None => {
            let opened = match site.root.open(file_path) {
                Ok(opened) => opened,
                Err(refused) => return site_files::refusal(core, file_path, &refused),
            };
            match includes::load(core, request.snapshot, request.site, includes, file_path, opened).await {
                Ok(page) => page,
                Err(error) => return static_files::unusable_page(core, file_path, &error),
            }
        }
    };
    let path = &request.request.path;
    let found = FoundPage { key: file_path, path, file_path, page, ticket: None };
    let mut answer = match includes::answer(core, request, includes, found).await {
        PageAnswer::Answer(_, answer) => answer,
        // Only a page with a ticket is stored, and this one has none.
        PageAnswer::Kept(..) => Answer::error(500),
    };
    name_the_type(&mut answer.fields);
    answer
}

/// Sets the type: a page is HTML whatever its file name is.
fn name_the_type(fields: &mut Vec<u8>) {
    let unknown = format!("Content-Type: {}\r\n", mime::UNKNOWN);
    let at = fields.windows(unknown.len()).position(|line| line == unknown.as_bytes());
    if let Some(at) = at {
        fields.splice(at..at + unknown.len(), *b"Content-Type: text/html\r\n");
    }
}
