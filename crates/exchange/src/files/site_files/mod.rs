//! The files of a site on the disk: the possible files of a path, whether they exist, listings of
//! directories, and the answers if a file cannot be opened.

mod try_files;

use std::io;
use std::rc::Rc;

use touchstone_config::DirectoryListing;
use touchstone_files::listing::{self, ListingOptions};
use touchstone_files::root::{FileKind, OpenError};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_http::accept;
use touchstone_sites::hidden_names::is_refused_name;
use touchstone_sites::site::Site;

use crate::core::Core;
use crate::files::file_request::FileRequest;

pub use try_files::existing_try_file;

/// Whether there is no visible file or directory for a path. `path` is in its normal form.
pub fn is_missing(site: &Site, path: &[u8]) -> bool {
    is_refused_name(site, path) || matches!(site.root.facts(path), Err(OpenError::NotFound))
}

/// Whether there is a visible file, or with `is_directory` a directory with an index file. `path` is in its
/// normal form.
pub fn is_file(site: &Site, path: &[u8], is_directory: bool) -> bool {
    let is_regular = |path: &[u8]| site.root.facts(path).is_ok_and(|facts| facts.kind == FileKind::Regular);
    !is_refused_name(site, path)
        && match is_directory {
            true => candidates(site, path).iter().any(|path| is_regular(path)),
            false => !path.ends_with(b"/") && is_regular(path),
        }
}

/// The possible files of a path, in the order in which they are tried.
pub fn candidates(site: &Site, path: &[u8]) -> Vec<Vec<u8>> {
    if !path.ends_with(b"/") {
        return vec![path.to_vec()];
    }
    site.config.index.iter().map(|index| [path, index.as_bytes()].concat()).collect()
}

/// The answer if a file cannot be opened.
pub fn refusal(core: &Rc<Core>, path: &[u8], refused: &OpenError) -> Answer {
    match refused {
        OpenError::NotFound => Answer::error(404),
        OpenError::Forbidden | OpenError::NotAFile => Answer::error(403),
        OpenError::TooManyOpenFiles => {
            core.error_log.warning("no file descriptor left: raise the limit of open files (ulimit -n)");
            Answer::error(503).field("Retry-After", "1")
        }
        OpenError::Other(error) => {
            core.error_log.warning(format_args!("cannot open {}: {error}", path.escape_ascii()));
            Answer::error(500)
        }
    }
}

/// Lists a directory, whose public path is `shown`. The list is made for each request, on a thread that may
/// wait.
pub async fn list(core: &Rc<Core>, request: &FileRequest<'_>, path: &[u8], shown: &[u8]) -> Answer {
    let config = &request.site().config;
    let as_json = match config.listing {
        DirectoryListing::Json => true,
        DirectoryListing::Off | DirectoryListing::Html => false,
        DirectoryListing::Auto => {
            let weight = |media_type| accept::weight_of(request.accept(), media_type);
            weight("application/json") > weight("text/html")
        }
    };
    let options = ListingOptions { hidden_files: config.hidden_files, most_entries: config.listing_entries };
    let (root, directory, shown) = (request.site().root.clone(), path.to_vec(), shown.to_vec());
    let task = tokio::task::spawn_blocking(move || {
        let listing = listing::read(&root, &directory, &options)?;
        let body = if as_json { listing.to_json() } else { listing.to_html(&shown) };
        Ok((body, listing.truncated))
    });
    let listed = task.await.unwrap_or_else(|error| Err(OpenError::Other(io::Error::other(error))));
    match listed {
        Ok((body, truncated)) => {
            let content_type = if as_json { "application/json" } else { "text/html; charset=utf-8" };
            let mut answer = Answer::new(200).field("Content-Type", content_type);
            if config.listing == DirectoryListing::Auto {
                answer = answer.field("Vary", "Accept");
            }
            if truncated {
                answer = answer.field("Listing-Truncated", "?1");
            }
            answer.part(BodyPart::Bytes(body.into()))
        }
        Err(refused) => refusal(core, path, &refused),
    }
}

/// The answer if a file keeps changing.
pub fn try_again() -> Answer {
    Answer::error(503).field("Retry-After", "1")
}
