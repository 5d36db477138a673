//! The control API: clients read and change sites, routes, origins and certificates while the server runs.
//!
//! ```text
//! admin listener -> gate (token, user) -> ControlRequest
//!     -> main thread: ControlApi -> ControlledServer (check, apply)
//!                                -> audit log, overlay.json
//! ```
//!
//! The effective configuration consists of the files and an overlay of changes. A change makes a new overlay,
//! which is read and checked like a configuration file, and applied like a reload. One thread makes all
//! changes, one after another, so a condition (`If-Match`) that is true stays true until the change is made.
//!
//! | module | |
//! |---|---|
//! | `api` | executes requests |
//! | `reading`, `changing` | requests that read, and requests that change |
//! | `request` | a request and its response, independent of HTTP/1 |
//! | `resource` | the paths |
//! | `gate`, `tokens` | authentication of clients |
//! | `base`, `overlay`, `effective` | the files, the changes, and both together |
//! | `toml_text` | changes as TOML, so that they are read like files |
//! | `origins`, `certificates` | the states of origins, and the certificates of sites |
//! | `secrets`, `keyed_hash` | placeholders of secrets; entity tags |
//! | `difference`, `audit` | the differences of a change, and the log of all changes |
//! | `openapi` | the description of the API as an OpenAPI document |
//!
//! The crate does not depend on sockets or cores.

mod api;
mod audit;
mod base;
mod certificates;
mod changing;
mod difference;
mod effective;
mod gate;
mod keyed_hash;
mod openapi;
mod origins;
mod overlay;
mod reading;
mod request;
mod resource;
mod secrets;
mod tokens;
mod toml_text;

pub use api::{ControlApi, ControlledServer};
pub use effective::{EffectiveConfig, LoadedConfig, Problem, open};
pub use gate::ControlGate;
pub use origins::apply_origin_overrides;
pub use overlay::{OriginName, OriginOverride, Overlay};
pub use request::{
    ControlError, ControlMethod, ControlRequest, ControlRequestFields, ControlResponse, MOST_BODY_BYTES,
};
pub use resource::Resource;
pub use tokens::{Identity, Right, SHORTEST_TOKEN, Tokens, is_token_byte};

/// Parses bytes with each parser of this crate for input of clients and files, for fuzzing.
pub fn read_for_fuzzing(bytes: &[u8]) {
    let _ = Overlay::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Tokens::parse(text);
    if let Ok(resource) = Resource::parse(text) {
        assert_eq!(Resource::parse(&resource.path()), Ok(resource));
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let key = keyed_hash::HashKey::new();
    let mut back = secrets::with_placeholders(&value, &key);
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
