//! The control API: clients read and change sites, routes, origins and certificates while the server runs.
//!
//! ```text
//! admin listener -> gate (token, user) -> Call -> main thread: ControlApi -> Host (check, put in force)
//!                                                                      -> audit log, overlay.json
//! ```
//!
//! The configuration in force is the files with an overlay of changes over them. A change makes a new
//! overlay, which is read and checked as a configuration file is, and put in force as a reload does it. One
//! thread makes all changes, one after another, so a condition (`If-Match`) that holds stays true until the
//! change is made.
//!
//! | module | |
//! |---|---|
//! | `api` | requests from who sends them to their answers |
//! | `reading`, `changing` | requests that read, and those that change |
//! | `call` | a request and its answer, without HTTP/1 around them |
//! | `place` | the paths |
//! | `gate`, `tokens` | which clients have access |
//! | `base`, `overlay`, `effective` | the files, the changes, and both together |
//! | `toml_text` | changes as TOML, so that they are read as files are |
//! | `origins`, `certificates` | the parts that are not only configuration |
//! | `secrets`, `keyed_hash` | what is shown in place of secrets; entity tags |
//! | `difference`, `audit` | what a change has changed, and the log of all changes |
//! | `openapi` | the description of the API for programs |
//!
//! The crate knows neither sockets nor cores.

mod api;
mod audit;
mod base;
mod call;
mod certificates;
mod changing;
mod difference;
mod effective;
mod gate;
mod keyed_hash;
mod openapi;
mod origins;
mod overlay;
mod place;
mod reading;
mod secrets;
mod tokens;
mod toml_text;

pub use api::{ControlApi, Host};
pub use call::{Call, CallAnswer, CallFields, CallMethod, Failure, MOST_BODY_BYTES};
pub use effective::{Effective, Opened, Problem, open};
pub use gate::ControlGate;
pub use origins::order_origins;
pub use overlay::{OriginName, OriginOrder, Overlay};
pub use place::Place;
pub use tokens::{Identity, Right, SHORTEST_TOKEN, Tokens, is_token_byte};

/// Reads bytes as everything that clients and files give to this crate, for fuzzing.
pub fn read_for_fuzzing(bytes: &[u8]) {
    let _ = Overlay::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Tokens::parse(text);
    if let Ok(place) = Place::parse(text) {
        assert_eq!(Place::parse(&place.path()), Ok(place));
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let key = keyed_hash::HashKey::new();
    let mut back = secrets::hidden(&value, &key);
    if secrets::restore(&mut back, &value, &key).is_ok() {
        assert_eq!(back, value);
    }
    assert!(difference::differences(&value, &value).is_empty());
    let written = value.as_object().map(toml_text::toml_text).and_then(Result::ok);
    // Values that are nested too deeply are refused when they are read.
    if let Some(Ok(read)) = written.map(|written| written.parse::<toml::Table>()) {
        assert_eq!(read.len(), value.as_object().map_or(0, serde_json::Map::len));
    }
}
