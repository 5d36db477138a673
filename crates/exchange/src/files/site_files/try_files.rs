//! `try_files` of a route: the file that answers instead of the route's program or origin.
//!
//! The routes are not searched again for it: it is a file of the route, with the route's access rules.

use touchstone_config::routes::{RewrittenTarget, Route};
use touchstone_http::request_view::RequestView;
use touchstone_sites::site::Snapshot;

use super::is_file;

/// The first file of the route's `try_files` that exists. `request` is the request after rewrites.
pub fn existing_try_file(
    snapshot: &Snapshot,
    site: usize,
    route: &Route,
    request: &RequestView<'_>,
) -> Option<RewrittenTarget> {
    if !matches!(request.method, b"GET" | b"HEAD") {
        return None;
    }
    let files = &snapshot.sites[snapshot.files_of(site, route.root)];
    route.try_file_candidates(request).find_map(|(mut file, is_directory)| {
        if !is_file(files, &file.path, is_directory) {
            return None;
        }
        // A directory requested without its slash: the file handler redirects the client.
        if is_directory && *file.path == [request.path, b"/"].concat() {
            file.path = file.path.slice(..file.path.len() - 1);
            file.encoded_path = file.encoded_path.slice(..file.encoded_path.len() - 1);
        }
        Some(file)
    })
}
