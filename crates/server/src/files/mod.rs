//! Answers from the disk: files, listings, and pages with directives.
//!
//! | module | |
//! |---|---|
//! | `static_files` | from a path to the answer with a file |
//! | `includes` | pages with directives |
//! | `on_disk` | what a handler has found on the disk in a way of its own |
//! | `site_files` | which files a path could mean, listings, refusals |
//! | `file_request` | what these need of a request |
//! | `whole_file` | reads a file on a thread that may wait |

pub mod file_request;
pub mod includes;
pub mod on_disk;
pub mod site_files;
pub mod static_files;
pub mod whole_file;
