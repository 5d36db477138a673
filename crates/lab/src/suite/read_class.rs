//! Reads one class of a workload: files of one size or of a spread of sizes, what an interface answers, requests that are spelt out, or
//! a page.

use super::endpoint::Endpoint;
use super::own_request::{OwnRequest, headers};
use super::read::{http_version, name};
use super::sizes::{FILE_BYTES_MAX, Spread};
use super::{Class, Content, Interface};
use crate::definition::{DefinitionError, Table};
use touchstone_load::{HttpVersion, MAXIMUM_REQUESTS};

/// The most files of a class, and of a tree.
pub(super) const FILES_MAX: u64 = MAXIMUM_REQUESTS as u64;
/// The most bytes that a program is asked for.
const ASKED_BYTES_MAX: u64 = 8 << 20;
/// The largest exponent of popularity.
const ZIPF_MAX: f64 = 10.0;

/// How much a class is asked for, as it is stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weight {
    /// Percent: those of all classes sum to 100.
    Percent(f64),
    /// Relative to the others.
    Relative(f64),
}

/// What the classes of a workload share, and a class can state for itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) content_seed: u64,
}

/// A class and its weight.
pub(super) fn class(table: &Table<'_>, shared: Shared) -> Result<(Class, Weight), DefinitionError> {
    let name = name(table, table.required_string("name")?, "a class's")?;
    let weight = weight(table)?;
    let zipf = table.number("zipf", 0.0..=ZIPF_MAX)?;
    let content = content(table, &name, shared.content_seed)?;
    if let (Content::Requests { is_page: true, .. }, Some(zipf)) = (&content, &zipf) {
        return Err(table.error_at(zipf, "everything on a page is asked for: `zipf` has no meaning here"));
    }
    let class = Class {
        name,
        weight_percent: 0.0,
        content,
        zipf: zipf.map_or(0.0, |zipf| zipf.value),
        headers: headers(table)?,
        endpoint: endpoint(table, shared.endpoint)?,
    };
    table.finish()?;
    Ok((class, weight))
}

fn weight(table: &Table<'_>) -> Result<Weight, DefinitionError> {
    let nothing = "a class of weight 0 is never asked for; leave it out";
    if let Some(weight) = table.number("weight", 0.0..=1e12)? {
        if let Some(percent) = table.number("weight_percent", 0.0..=100.0)? {
            return Err(table.error_at(&percent, "a class has a `weight` or a `weight_percent`, not both"));
        }
        return match weight.value > 0.0 {
            true => Ok(Weight::Relative(weight.value)),
            false => Err(table.error_at(&weight, nothing)),
        };
    }
    let percent = table.required("weight_percent", table.number("weight_percent", 0.0..=100.0)?)?;
    match percent.value > 0.0 {
        true => Ok(Weight::Percent(percent.value)),
        false => Err(table.error_at(&percent, nothing)),
    }
}

/// Where the class's requests go: as the suite's `[client]` says, unless the class says otherwise.
pub(super) fn endpoint(table: &Table<'_>, usual: Endpoint) -> Result<Endpoint, DefinitionError> {
    let is_secure = table.boolean("tls")?.map_or(usual.is_secure, |tls| tls.value);
    let stated = table.string("http_version")?;
    let version = match &stated {
        Some(stated) => http_version(table, stated)?,
        None => usual.version,
    };
    if version == HttpVersion::Http2 && !is_secure {
        let message = "HTTP/2 is agreed upon in the TLS handshake: it takes `tls = true`";
        return Err(match &stated {
            Some(stated) => table.error_at(stated, message),
            None => table.error(message),
        });
    }
    Ok(Endpoint { is_secure, version })
}

fn content(table: &Table<'_>, class: &str, seed: u64) -> Result<Content, DefinitionError> {
    let interface = match table.string("interface")? {
        Some(named) => {
            Some(Interface::find(&named.value).map_err(|message| table.error_at(&named, message))?)
        }
        None => None,
    };
    let (requests, page) = (table.tables("requests")?, table.tables("page")?);
    match (requests.is_empty(), page.is_empty(), interface) {
        (false, false, _) => Err(table.error("a class has `requests`, one of which is chosen, or a `page`, which is asked for as a whole; not both")),
        (true, true, None) => files(table, class, seed),
        (true, true, Some(interface)) => asked(table, interface),
        (_, is_no_page, interface) => {
            let (tables, is_page) = if is_no_page { (requests, false) } else { (page, true) };
            if tables.len() as u64 > FILES_MAX {
                return Err(table.error(format!("{} requests; at most {FILES_MAX} are allowed", tables.len())));
            }
            let requests: Vec<OwnRequest> =
                tables.iter().map(|table| OwnRequest::read(table, is_page)).collect::<Result<_, _>>()?;
            if let Some(interface) = &interface
                && let Some((place, request)) =
                    tables.iter().zip(&requests).find(|(_, request)| !request.path.starts_with(interface.directory()))
            {
                return Err(place.error(format!(
                    "{} is not below {}, where `{}` answers",
                    request.path,
                    interface.directory(),
                    interface.name
                )));
            }
            Ok(Content::Requests { requests, interface: interface.map(Box::new), is_page })
        }
    }
}

/// What an interface answers, in the size that it is asked for where it takes one.
fn asked(table: &Table<'_>, interface: Interface) -> Result<Content, DefinitionError> {
    let asked = table.whole("body_bytes", 1..=ASKED_BYTES_MAX)?;
    if let Some(asked) = &asked
        && interface.size_query.is_none()
    {
        let message = format!(
            "`{}` is not asked for a size; it answers with {} bytes",
            interface.name, interface.body_bytes
        );
        return Err(table.error_at(asked, message));
    }
    Ok(Content::Interface { interface: Box::new(interface), asked_bytes: asked.map(|asked| asked.value) })
}

fn files(table: &Table<'_>, class: &str, seed: u64) -> Result<Content, DefinitionError> {
    // Classes that ask for the same files in several ways name one directory.
    let directory = match table.string("directory")? {
        Some(stated) => name(table, stated, "a directory's")?,
        None => class.to_string(),
    };
    let files = table.required("files", table.whole("files", 1..=FILES_MAX)?)?.value;
    let sizes = match table.table("sizes")? {
        Some(spread) => Spread::read(&spread)?.sizes(files, seed ^ seed_of(&directory)),
        None => {
            let bytes = table.required("file_bytes", table.whole("file_bytes", 1..=FILE_BYTES_MAX)?)?.value;
            vec![bytes; files as usize]
        }
    };
    let suffix = match table.string("suffix")? {
        None => ".html".to_string(),
        Some(suffix) => {
            let plain = |c: char| c.is_ascii_alphanumeric();
            let is_good = suffix.value.len() <= 20
                && suffix
                    .value
                    .strip_prefix('.')
                    .is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain));
            if !is_good {
                return Err(table.error_at(&suffix, "`suffix` is a dot, letters and digits: \".html\""));
            }
            suffix.value
        }
    };
    Ok(Content::Files { directory, sizes, suffix })
}

/// A number that a name stands for.
pub(super) fn seed_of(name: &str) -> u64 {
    u64::from_str_radix(&crate::machine::sha256(name.as_bytes())[..16], 16).unwrap_or_default()
}
