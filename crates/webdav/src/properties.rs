//! Live properties (RFC 4918 section 15, RFC 4331), which the server computes.

use std::fmt::Write as _;

use touchstone_files::root::FileKind;
use touchstone_http::date::{format_imf_fixdate, format_rfc3339};

use crate::context::Context;
use crate::markup::escape;
use crate::store::{Lock, Tables, unix_seconds};
use crate::tree::Entry;
use crate::xml::PropertyName;

/// Those that PROPFIND returns when all are requested.
const USUAL: [&str; 8] = [
    "creationdate",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "lockdiscovery",
    "resourcetype",
    "supportedlock",
];

/// Those that it returns when they are requested by name.
const ON_REQUEST: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// Whether a client cannot set a property.
pub fn is_protected(name: &PropertyName) -> bool {
    name.as_dav().is_some_and(|local| USUAL.contains(&local) || ON_REQUEST.contains(&local))
}

/// The names of the live properties of a resource.
pub fn names(context: &Context, entry: &Entry) -> Vec<&'static str> {
    USUAL.into_iter().filter(|local| has(context, entry, local)).collect()
}

/// Whether a resource has a live property that PROPFIND returns when all are requested.
pub fn has(context: &Context, entry: &Entry, local: &str) -> bool {
    match local {
        "getcontentlength" | "getcontenttype" | "getetag" => entry.facts.kind == FileKind::Regular,
        "lockdiscovery" | "supportedlock" => context.settings.classes() == Some("1, 2"),
        _ => USUAL.contains(&local),
    }
}

/// The content of a live property; `None`: the resource does not have it.
pub fn value(context: &Context, tables: &Tables, entry: &Entry, local: &str) -> Option<String> {
    let facts = &entry.facts;
    let is_collection = facts.kind == FileKind::Directory;
    if ON_REQUEST.contains(&local) {
        let (available, used) = context.tree.quota(&entry.path).filter(|_| is_collection)?;
        let bytes = if local == "quota-used-bytes" { used } else { available };
        return Some(bytes.to_string());
    }
    if !has(context, entry, local) {
        return None;
    }
    Some(match local {
        // Not all file systems store when a file was created; it existed at these times.
        "creationdate" => format_rfc3339(facts.modified_seconds.min(facts.changed_seconds)),
        "getcontentlength" => facts.size.to_string(),
        "getcontenttype" => escape(&context.settings.content_types.content_type(&entry.path)),
        "getetag" => escape(&facts.etag().to_string()),
        "getlastmodified" => {
            String::from_utf8_lossy(&format_imf_fixdate(facts.modified_seconds)).into_owned()
        }
        "resourcetype" if is_collection => "<D:collection/>".to_string(),
        "resourcetype" => String::new(),
        "supportedlock" => supported_locks(),
        "lockdiscovery" => {
            tables.locks().filter(|lock| lock.covers(&entry.key)).map(active_lock).collect::<String>()
        }
        _ => return None,
    })
}

fn supported_locks() -> String {
    let entry = |scope: &str| {
        format!(
            "<D:lockentry><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
             </D:lockentry>"
        )
    };
    entry("exclusive") + &entry("shared")
}

/// The element `DAV:activelock` of a lock.
pub fn active_lock(lock: &Lock) -> String {
    let mut out = String::from("<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope>");
    out.push_str(if lock.is_exclusive { "<D:exclusive/>" } else { "<D:shared/>" });
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let remaining_s = lock.until.saturating_sub(unix_seconds());
    let _ = write!(
        out,
        "</D:lockscope><D:depth>{depth}</D:depth>{}<D:timeout>Second-{remaining_s}</D:timeout><D:locktoken>\
         <D:href>{}</D:href></D:locktoken><D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>",
        lock.owner,
        escape(&lock.token),
        escape(&lock.href),
    );
    out
}
