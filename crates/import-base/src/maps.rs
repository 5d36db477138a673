//! Maps that conditions of imported configurations use. A condition names one, and the map is written once
//! for the whole configuration.

use crate::networks;
use crate::output::Section;
use crate::toml_text::toml_string;

/// The request line, with the path in its normal form.
pub const REQUEST_LINE: &str = "$map{request-line}";

/// What other servers say about the client's certificate: `SUCCESS`, or `NONE` without one. A certificate
/// that is not valid ends the handshake here.
pub const CLIENT_CERTIFICATE: &str = "$map{client-certificate}";

/// The maps that conditions in this text name.
pub fn named_in(text: &str) -> Vec<Section> {
    let mut maps = networks::maps(text);
    // A text has braces around the whole.
    if text.contains(&REQUEST_LINE[1..]) {
        let mut map = Section::new("[[map]]");
        map.note("The request line, with the path in its normal form.");
        map.key("name", toml_string("request-line"));
        map.key("from", toml_string("$method"));
        map.key("default", toml_string("$method $target $protocol"));
        maps.push(map);
    }
    if text.contains(&CLIENT_CERTIFICATE[1..]) {
        let mut map = Section::new("[[map]]");
        map.note("Whether the client has a certificate that was verified.");
        map.key("name", toml_string("client-certificate"));
        map.key("from", toml_string("$tls_verified"));
        map.key("default", toml_string("NONE"));
        map.key("values", "{ SUCCESS = \"SUCCESS\" }");
        maps.push(map);
    }
    maps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_written_where_they_are_used() {
        assert!(named_in("$map{other}").is_empty());
        let text = format!("when = \"{REQUEST_LINE} =~ 'a' or {CLIENT_CERTIFICATE} == 'NONE'\"");
        assert_eq!(named_in(&format!("{text}{text}")).len(), 2);
    }
}
