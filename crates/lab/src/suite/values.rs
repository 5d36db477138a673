//! What several parts of a suite's file may hold: times, versions of HTTP, and names.

use crate::definition::{DefinitionError, LocatedValue, Table};
use touchstone_load::HttpVersion;

/// The longest mix, ramp, delay, think time or time limit: a day, in seconds.
pub(super) const SECONDS_MAX: f64 = 86_400.0;

/// A version of HTTP by its number.
pub(super) fn http_version(
    table: &Table<'_>,
    version: &LocatedValue<String>,
) -> Result<HttpVersion, DefinitionError> {
    match version.value.as_str() {
        "1.0" => Ok(HttpVersion::Http10),
        "1.1" => Ok(HttpVersion::Http11),
        "2" => Ok(HttpVersion::Http2),
        "3" => Ok(HttpVersion::Http3),
        other => {
            let message =
                format!("`http_version` must be \"1.0\", \"1.1\", \"2\" or \"3\"; it is \"{other}\"");
            Err(table.error_at(version, message))
        }
    }
}

/// A name that may be used in a path, a CSV file and a histogram's tag.
pub(super) fn name(
    table: &Table<'_>,
    name: LocatedValue<String>,
    whose: &str,
) -> Result<String, DefinitionError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.value.len() <= 100 && name.value.chars().all(allowed) && !name.value.starts_with('.') {
        return Ok(name.value);
    }
    let rule = "name has 1 to 100 letters, digits, `.`, `-` and `_`, and does not begin with a dot";
    Err(table.error_at(&name, format!("{whose} {rule}")))
}
