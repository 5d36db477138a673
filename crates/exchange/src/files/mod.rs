//! Answers from the disk: files, listings, and pages with directives.
//!
//! | module | |
//! |---|---|
//! | `static_files` | finds the file of a path and makes the answer |
//! | `includes` | pages with directives |
//! | `on_disk` | files and directories that a handler has found itself |
//! | `site_files` | the possible files of a path, listings, refusals |
//! | `file_request` | the part of a request that these use |
//! | `whole_file` | reads a file on a thread that may wait |

pub mod file_request;
pub mod includes;
pub mod on_disk;
pub mod site_files;
pub mod static_files;
pub mod whole_file;
