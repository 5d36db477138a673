//! WebDAV, class 1 and 2 (RFC 4918): the files of a route, which clients list, write, copy, move and lock.
//!
//! ```text
//! request -> Handler (on its core): method, fields, body
//!         -> operation (on a thread that may wait for the disk): place -> conditions and locks -> disk
//!         -> answer
//! GET, HEAD -> the file handler of the server
//! ```
//!
//! | module | |
//! |---|---|
//! | `settings` | the settings of the route |
//! | `method` | the methods, and the classes of the answer to OPTIONS |
//! | `fields` | Depth, Overwrite, Timeout, Destination, Lock-Token |
//! | `if_header` | the parser of If |
//! | `markup` | writing XML |
//! | `xml` | the bodies of PROPFIND, PROPPATCH and LOCK |
//! | `call` | the parts of a request |
//! | `context` | the files of a route, and which may be read and written |
//! | `names` | names that are hidden or may not be written |
//! | `tree` | from a path to a place below the root, without leaving it |
//! | `temporary` | files and directories that get their name only when they are complete |
//! | `copying` | copies of trees, and their removal |
//! | `store` | locks and dead properties: a journal on the disk that several processes may use |
//! | `locks` | the rules of locks |
//! | `conditions` | If, If-Match and similar fields, evaluated |
//! | `properties` | live properties |
//! | `multistatus` | the body of an answer with several statuses |
//! | `failure` | why a request fails, as status and body |
//! | `operation` | each method |
//! | `interface` | the handler of a core |
//!
//! A path is resolved by [`touchstone_files::root::Root`]; all changes are made below the directory that it
//! has opened, by a name without a slash. So no symbolic link and no rename can cause a change outside the
//! root.

mod call;
mod conditions;
mod context;
mod copying;
mod failure;
mod fields;
mod if_header;
mod interface;
mod locks;
mod markup;
mod method;
mod multistatus;
mod names;
mod operation;
mod properties;
mod settings;
mod store;
mod temporary;
mod tree;
mod xml;

pub use interface::WebDav;
pub use method::DavMethod;
pub use settings::Settings;
pub use store::{WebDavStores, problem_of_state};

/// What the fuzz targets call.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::if_header::{Condition, IfHeader, StateList};
    pub use crate::store::replay;
    pub use crate::xml::{lock_request, property_query, property_update};
}
