//! magnus.conf: settings of the server, with a name and a value on each line, and `Init` lines.
//!
//! Touchstone has its own configuration for almost all settings. Those that plug-ins can query are stored;
//! for the others a message names the key of Touchstone, once, when the file is read.

use std::sync::Arc;

pub use super::Setting;
use super::lines::logical_lines;
use super::objects::first_word;
use super::parameters::parse_parameters;
use super::{Configuration, Init, Problem};

/// Reads a magnus.conf and adds its settings.
pub fn read_magnus(file: &Arc<str>, text: &[u8], configuration: &mut Configuration) -> Vec<Problem> {
    let mut problems = Vec::new();
    for line in logical_lines(file, text, &mut problems) {
        let (word, rest) = first_word(&line.text);
        if word.eq_ignore_ascii_case(b"Init") {
            match parse_parameters(rest) {
                Ok(parameters) => configuration.init.push(Init { location: line.location, parameters }),
                Err(message) => {
                    problems.push(Problem { location: line.location, message: message.to_string() })
                }
            }
            continue;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = rest.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(rest);
        configuration.settings.push(Setting {
            location: line.location,
            name: text(word),
            value: text(value),
        });
    }
    problems
}

/// The value of a setting; if there are several, the last one.
pub fn setting<'a>(settings: &'a [Setting], name: &str) -> Option<&'a str> {
    settings
        .iter()
        .rev()
        .find(|setting| setting.name.eq_ignore_ascii_case(name))
        .map(|setting| setting.value.as_str())
}

/// The key of Touchstone for a setting; `None` if the setting is used, or has no meaning for Touchstone.
pub fn touchstone_key(name: &str) -> Option<&'static str> {
    const REPLACED: [(&str, &str); 17] = [
        ("Port", "listen of the site"),
        ("Address", "listen of the site"),
        ("ErrorLog", "error_log"),
        ("Security", "tls of the site"),
        ("SSLClientAuth", "tls of the site"),
        ("Ciphers", "tls of the site"),
        ("User", "the service manager"),
        ("Chroot", "the service manager"),
        ("PidLog", "the service manager"),
        ("KeepAliveTimeout", "limits"),
        ("IOTimeout", "limits"),
        ("AcceptTimeout", "limits"),
        ("MaxKeepAliveConnections", "limits"),
        ("MaxCGIStubs", "cgi of the route"),
        ("CGIExpirationTimeout", "cgi of the route"),
        ("MinCGIStubs", "cgi of the route"),
        ("LoadObjects", "obj_conf of the route"),
    ];
    REPLACED.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, location)| *location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_and_init_lines_are_read() {
        let mut configuration = Configuration::default();
        let text = b"#ServerRoot /x\nServerRoot \"/usr/netscape\"\nPort 80\nInit fn=a\n   b=c\n\
                     RqThrottle 512\nport 81";
        assert_eq!(read_magnus(&Arc::from("magnus.conf"), text, &mut configuration), []);
        assert_eq!(setting(&configuration.settings, "serverroot"), Some("/usr/netscape"));
        assert_eq!(setting(&configuration.settings, "Port"), Some("81"));
        assert_eq!(configuration.init[0].parameters.len(), 2);
        assert_eq!(configuration.init[0].location.to_string(), "magnus.conf:4");
        assert_eq!(touchstone_key("port"), Some("listen of the site"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: Vec<u8>) {
            read_magnus(&Arc::from("f"), &text, &mut Configuration::default());
        }
    }
}
