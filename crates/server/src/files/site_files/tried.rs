//! `try_files` of a route: the file that answers in place of the route's program or origin.
//!
//! The routes are not looked through again for it: it is a file of the route, under the route's access rules.

use touchstone_config::routes::{Rewritten, Route};
use touchstone_http::request_view::RequestView;
use touchstone_sites::site::Snapshot;

use super::is_file;

/// The first file of the route's `try_files` that is there. `request` is as the routes have rewritten it.
pub fn tried_file(
    snapshot: &Snapshot,
    site: usize,
    route: &Route,
    request: &RequestView<'_>,
) -> Option<Rewritten> {
    if !matches!(request.method, b"GET" | b"HEAD") {
        return None;
    }
    let files = &snapshot.sites[snapshot.files_of(site, route.root)];
    route.tried(request).find_map(|(mut file, is_directory)| {
        if !is_file(files, &file.path, is_directory) {
            return None;
        }
        // A directory that was asked for without its slash: the file handler sends the client there.
        if is_directory && *file.path == [request.path, b"/"].concat() {
            file.path = file.path.slice(..file.path.len() - 1);
            file.path_as_sent = file.path_as_sent.slice(..file.path_as_sent.len() - 1);
        }
        Some(file)
    })
}
