//! `signed_link`: links that are signed with a secret, and may expire.

use std::path::PathBuf;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Maps, Scope, Text};

/// `signed_link`
#[derive(Debug, Clone, PartialEq)]
pub struct SignedLinkConfig {
    /// The file with the secrets; `None`: no signature is needed.
    pub secret_file: Option<PathBuf>,
    /// The algorithm of the signature.
    pub form: SignatureForm,
    /// What is signed; empty: the path, and the time of expiry.
    pub text: String,
    /// The parameter with the signature.
    pub signature: String,
    /// The parameter with the time of expiry; empty: links do not expire.
    pub expires: String,
}

/// The algorithm of the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureForm {
    /// HMAC with SHA-256 (RFC 2104), under the secret.
    Hmac,
    /// MD5 of a text with the secret in it, as nginx's `secure_link_md5`.
    Md5,
}

/// A part of the text that is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedPart {
    /// Text with variables of the request.
    Text(Text),
    /// The time of expiry, as the link has it.
    Expires,
    /// The secret.
    Secret,
}

impl SignedLinkConfig {
    /// The parts of the text that is signed; the error states the problem.
    pub fn parts(&self) -> Result<Vec<SignedPart>, String> {
        let text = match (self.text.as_str(), self.form, self.expires.is_empty()) {
            ("", SignatureForm::Hmac, false) => "$path $expires",
            ("", SignatureForm::Hmac, true) => "$path",
            ("", SignatureForm::Md5, false) => "$expires$path $secret",
            ("", SignatureForm::Md5, true) => "$path $secret",
            (text, ..) => text,
        };
        // Maps are not for links: what is signed is what the client has sent.
        let maps = Maps::default();
        let scope = Scope::from(AvailableFrom::Request).with_maps(&maps);
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((begin, length, part)) = next_special(rest) {
            if begin > 0 {
                parts.push(SignedPart::Text(Text::read(&rest[..begin], scope)?));
            }
            parts.push(part);
            rest = &rest[begin + length..];
        }
        if !rest.is_empty() {
            parts.push(SignedPart::Text(Text::read(rest, scope)?));
        }
        let has = |part: &SignedPart| parts.contains(part);
        match self.form {
            SignatureForm::Hmac if has(&SignedPart::Secret) => {
                Err("'$secret' has no place in the text of an HMAC, whose key it is".to_string())
            }
            SignatureForm::Md5 if !has(&SignedPart::Secret) => {
                Err("without '$secret' in its text any client can compute the signature".to_string())
            }
            _ if has(&SignedPart::Expires) == self.expires.is_empty() => Err(match self.expires.is_empty() {
                true => "'$expires' needs the name of a parameter in 'expires'".to_string(),
                false => "without '$expires' in it any client can change the time; write it, or expires = \
                    \"\""
                    .to_string(),
            }),
            _ => Ok(parts),
        }
    }
}

/// The next `$expires` or `$secret`: where it begins, and its length.
fn next_special(text: &str) -> Option<(usize, usize, SignedPart)> {
    let specials = [
        ("$expires", SignedPart::Expires),
        ("${expires}", SignedPart::Expires),
        ("$secret", SignedPart::Secret),
        ("${secret}", SignedPart::Secret),
    ];
    let mut begin = 0;
    while let Some(dollar) = text[begin..].find('$') {
        let at = begin + dollar;
        let rest = &text[at..];
        if rest.starts_with("$$") {
            begin = at + 2;
            continue;
        }
        let goes_on = |name: &str| {
            !name.ends_with('}')
                && rest[name.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_')
        };
        for (name, part) in &specials {
            if rest.starts_with(name) && !goes_on(name) {
                return Some((at, name.len(), part.clone()));
            }
        }
        begin = at + 1;
    }
    None
}

/// `[site.signed_link]`
pub static SIGNED_LINK: Section<SignedLinkConfig> = Section {
    name: "site.signed_link",
    repeated: false,
    documentation: "Links that need a signature, optionally with a time at which they expire. \
        `[site.route.signed_link]` has the same keys. Without a valid signature the answer is 403 Forbidden, \
        after the time 410 Gone.",
    blank: || SignedLinkConfig {
        secret_file: None,
        form: SignatureForm::Hmac,
        text: String::new(),
        signature: String::new(),
        expires: String::new(),
    },
    keys: &[
        Key {
            name: "secret_file",
            default: None,
            example: "\"links.secret\"",
            documentation: "A file with a secret of at least 16 characters on each line; a link signed with \
                any of them is valid, so that secrets can be changed. `\"off\"` in a route: no signature is \
                needed even if the site requires one.",
            kind: Kind::FileOrWord {
                word: "off",
                set_word: |link| link.secret_file = None,
                set: |link, value| link.secret_file = value,
            },
        },
        Key {
            name: "form",
            default: Some("\"hmac\""),
            example: "\"md5\"",
            documentation: "The algorithm of the signature. The link contains the signature in base64url.",
            kind: Kind::Choice(&[
                Choice {
                    word: "hmac",
                    meaning: "HMAC with SHA-256 of the text, under the secret",
                    set: |link| link.form = SignatureForm::Hmac,
                },
                Choice {
                    word: "md5",
                    meaning: "MD5 of the text with the secret in it, for links of `secure_link_md5` of nginx",
                    set: |link| link.form = SignatureForm::Md5,
                },
            ]),
        },
        Key {
            name: "text",
            default: Some("\"\""),
            example: "\"$expires$path$client $secret\"",
            documentation: "What is signed, a [text with variables](expressions.md) and with `$expires`, and \
                for `md5` with `$secret`. Empty: `\"$path $expires\"`, and for `md5` \
                `\"$expires$path $secret\"`.",
            kind: Kind::Checked {
                what: "text with variables",
                parse: |text, _| Ok(text.to_string()),
                set: |link, value| link.text = value,
            },
        },
        Key {
            name: "signature",
            default: Some("\"signature\""),
            example: "\"md5\"",
            documentation: "The parameter of the query that has the signature.",
            kind: Kind::Checked {
                what: "name of a parameter",
                parse: |text, _| parse_parameter(text),
                set: |link, value| link.signature = value,
            },
        },
        Key {
            name: "expires",
            default: Some("\"expires\""),
            example: "\"expires\"",
            documentation: "The parameter of the query that has the time until which the link is valid, in \
                seconds since 1970. Empty: links are valid for good.",
            kind: Kind::Checked {
                what: "name of a parameter, or empty",
                parse: |text, _| if text.is_empty() { Ok(String::new()) } else { parse_parameter(text) },
                set: |link, value| link.expires = value,
            },
        },
    ],
};

fn parse_parameter(text: &str) -> Result<String, String> {
    match values::is_token(text) {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not the name of a parameter, such as \"signature\"")),
    }
}

/// `signed_link` of a site or route.
pub(super) const fn signed_link<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "signed_link",
        default: Some(ABSENT),
        example: "{ secret_file = \"links.secret\" }",
        documentation: "Requires a signature in each link, see `[site.signed_link]`. A route without this \
            key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

/// Reads `signed_link`, and checks its keys together.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<SignedLinkConfig>,
) -> Vec<SectionPlaces> {
    reader.checked_table_into(&SIGNED_LINK, value, target, |own| own.parts().err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(form: SignatureForm, text: &str, expires: &str) -> SignedLinkConfig {
        SignedLinkConfig { form, text: text.into(), expires: expires.into(), ..SIGNED_LINK.defaults() }
    }

    #[test]
    fn parts() {
        let text = |text: &str| SignedPart::Text(Text::read(text, AvailableFrom::Request).unwrap());
        let parts = config(SignatureForm::Md5, "$expires$path$client $secret", "e").parts().unwrap();
        assert_eq!(parts, [SignedPart::Expires, text("$path$client "), SignedPart::Secret]);
        let parts = config(SignatureForm::Hmac, "", "e").parts().unwrap();
        assert_eq!(parts, [text("$path "), SignedPart::Expires]);
        assert_eq!(config(SignatureForm::Hmac, "", "").parts().unwrap(), [text("$path")]);
        let parts = config(SignatureForm::Hmac, "$$secret ${expires}", "e").parts().unwrap();
        assert_eq!(parts, [text("$$secret "), SignedPart::Expires]);
    }

    #[test]
    fn refused() {
        let problem = |form, text: &str, expires: &str| config(form, text, expires).parts().unwrap_err();
        assert!(problem(SignatureForm::Hmac, "$secret $expires", "e").contains("no place"));
        assert!(problem(SignatureForm::Md5, "$expires", "e").contains("can compute"));
        assert!(problem(SignatureForm::Hmac, "$path", "e").contains("can change"));
        assert!(problem(SignatureForm::Hmac, "$expires", "").contains("name of a parameter"));
        assert!(problem(SignatureForm::Hmac, "$expires $secrets", "e").contains("unknown variable"));
    }
}
