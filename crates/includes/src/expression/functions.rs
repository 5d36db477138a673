//! The functions of the grammar of Apache 2.4.

use md5::{Digest, Md5};
use sha1::Sha1;
use touchstone_http::{hexadecimal, percent};

use super::scope::Scope;
use crate::encoding::{Coding, decode_base64, encode_base64};

/// A function from a text to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Variable,
    Environment,
    SystemVariable,
    RequestField,
    Nothing,
    LowerCase,
    UpperCase,
    Escape,
    Unescape,
    Base64,
    FromBase64,
    Md5,
    Sha1,
    Ldap,
}

impl Function {
    pub(super) fn named(name: &str) -> Result<Function, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "v" | "reqenv" => Function::Variable,
            "env" => Function::Environment,
            "osenv" => Function::SystemVariable,
            "req" | "http" | "req_novary" => Function::RequestField,
            "resp" | "note" => Function::Nothing,
            "tolower" => Function::LowerCase,
            "toupper" => Function::UpperCase,
            "escape" => Function::Escape,
            "unescape" => Function::Unescape,
            "base64" => Function::Base64,
            "unbase64" => Function::FromBase64,
            "md5" => Function::Md5,
            "sha1" => Function::Sha1,
            "ldap" => Function::Ldap,
            "file" | "filesize" | "filemod" => {
                return Err(format!("{name} reads files, which is not allowed in pages"));
            }
            _ => return Err(format!("unknown function {name}")),
        })
    }
}

/// Applies a function.
pub(super) fn apply(function: Function, value: Vec<u8>, scope: &mut impl Scope) -> Vec<u8> {
    match function {
        Function::Variable => scope.variable(&value).unwrap_or_default(),
        Function::SystemVariable => scope.system_variable(&value).unwrap_or_default(),
        Function::Environment => {
            let own = scope.variable(&value);
            own.or_else(|| scope.system_variable(&value)).unwrap_or_default()
        }
        Function::RequestField => scope.request_field(&value).unwrap_or_default(),
        // There is no response yet when a page is evaluated, and Touchstone has no notes.
        Function::Nothing => Vec::new(),
        Function::LowerCase => value.to_ascii_lowercase(),
        Function::UpperCase => value.to_ascii_uppercase(),
        Function::Escape => Coding::Url.encode(&value).into_owned(),
        Function::Unescape => unescape(&value),
        Function::Base64 => encode_base64(&value),
        Function::FromBase64 => decode_base64(&value),
        Function::Md5 => hexadecimal::encode(&Md5::digest(&value)).into_bytes(),
        Function::Sha1 => hexadecimal::encode(&Sha1::digest(&value)).into_bytes(),
        Function::Ldap => escape_ldap(&value),
    }
}

/// Decodes percent escapes except that of a slash; an invalid one makes the whole value empty.
fn unescape(value: &[u8]) -> Vec<u8> {
    let is_escape =
        |rest: &[u8]| rest.get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let mut kept = Vec::with_capacity(value.len());
    for (at, &byte) in value.iter().enumerate() {
        let rest = &value[at..];
        if byte == b'%' && !is_escape(rest) || rest.starts_with(b"%00") {
            return Vec::new();
        }
        let slash = rest.len() >= 3 && rest[..3].eq_ignore_ascii_case(b"%2f");
        kept.extend_from_slice(if slash { b"%25" } else { std::slice::from_ref(&byte) });
    }
    percent::decode(&kept, false).into_owned()
}

/// Escapes a value for a distinguished name and for a filter (RFC 4514, RFC 4515).
fn escape_ldap(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len() + 8);
    for (at, &byte) in value.iter().enumerate() {
        let edge = at == 0 || at + 1 == value.len();
        let special =
            b"\\\"+,;<>=*()\0".contains(&byte) || (edge && byte == b' ') || (at == 0 && byte == b'#');
        if special {
            escaped.extend_from_slice(format!("\\{byte:02x}").as_bytes());
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescaping() {
        assert_eq!(unescape(b"a%20b"), b"a b");
        assert_eq!(unescape(b"a%2fb%2Fc"), b"a%2fb%2Fc");
        assert_eq!(unescape(b"a%zz"), b"");
        assert_eq!(unescape(b"a%00"), b"");
        assert_eq!(unescape(b"%"), b"");
    }
}
