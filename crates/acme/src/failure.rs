//! The errors of certificate requests, with advice.

use std::fmt;

use instant_acme::Problem;
use touchstone_client::RequestFailure;
use touchstone_config::AcmeChallenge;

/// Why there is no certificate.
#[derive(Debug)]
pub enum Failure {
    /// It could not be proved that this server serves a name.
    Challenge {
        /// The challenge type.
        challenge: AcmeChallenge,
        /// The reason for each name.
        reason: String,
        /// The authority has checked the proof; otherwise it was not published.
        is_refused: bool,
    },
    /// The authority has refused, or could not be reached.
    Authority(instant_acme::Error),
    /// A local error: a file or a setting.
    Own(String),
}

/// The problem of an unknown account (RFC 8555 section 6.7).
const ACCOUNT_DOES_NOT_EXIST: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// The problems with which authorities refuse an order because of the certificate that it replaces (RFC 9773
/// section 5): it has already been replaced, or they do not find it, or not as one of this account.
const OF_REPLACED_CERTIFICATES: [&str; 4] = [
    "urn:ietf:params:acme:error:alreadyReplaced",
    "urn:ietf:params:acme:error:malformed",
    "urn:ietf:params:acme:error:serverInternal",
    "urn:ietf:params:acme:error:unauthorized",
];

impl Failure {
    /// Whether the account must be registered again.
    pub fn is_unknown_account(&self) -> bool {
        self.problem_type() == Some(ACCOUNT_DOES_NOT_EXIST)
    }

    /// Whether the order may have been refused because of the certificate that it replaces. It is repeated
    /// without that one.
    pub fn may_be_of_replaced_certificate(&self) -> bool {
        self.problem_type().is_some_and(|problem| OF_REPLACED_CERTIFICATES.contains(&problem))
    }

    fn problem_type(&self) -> Option<&str> {
        match self {
            Failure::Authority(instant_acme::Error::Api(problem)) => problem.r#type.as_deref(),
            _ => None,
        }
    }
}

impl From<instant_acme::Error> for Failure {
    fn from(error: instant_acme::Error) -> Failure {
        Failure::Authority(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Challenge { challenge, reason, is_refused: false } => {
                write!(formatter, "it could not be proved by {}: {reason}", challenge.name())
            }
            Failure::Challenge { challenge, reason, is_refused: true } => {
                write!(formatter, "the authority could not verify it by {}: {reason}", challenge.name())?;
                formatter.write_str(match challenge {
                    AcmeChallenge::TlsAlpn01 => "; it connects to port 443, which must reach this server",
                    AcmeChallenge::Http01 => "; it connects to port 80, which must reach this server",
                    AcmeChallenge::Dns01 => "; it queries the public name servers of the name",
                    AcmeChallenge::DnsPersist01 => {
                        "; it queries the public name servers of the name for the record _validation-persist"
                    }
                })
            }
            Failure::Own(message) => formatter.write_str(message),
            Failure::Authority(error) => write_error(formatter, error),
        }
    }
}

fn write_error(formatter: &mut fmt::Formatter<'_>, error: &instant_acme::Error) -> fmt::Result {
    use instant_acme::Error;
    match error {
        Error::Api(problem) => {
            write!(formatter, "the authority refused: {}", problem_text(problem))?;
            formatter.write_str(advice(problem.r#type.as_deref().unwrap_or_default()))
        }
        Error::Timeout(_) => formatter.write_str("the authority took too long to complete the order"),
        // Content that cannot be parsed may contain secrets, so only the position is shown.
        Error::Json(error) => write!(
            formatter,
            "the authority's answer is not an ACME answer (line {}, column {}): \
             is acme.directory the URL of a directory?",
            error.line(),
            error.column()
        ),
        Error::Other(other) if other.is::<RequestFailure>() => write!(formatter, "{other}"),
        other => write!(formatter, "{other}"),
    }
}

/// The text of a problem, with the names that it concerns.
pub fn problem_text(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
    let mut text = match (problem.detail.as_deref(), kind) {
        (Some(detail), "") => detail.to_string(),
        (Some(detail), kind) => format!("{detail} ({kind})"),
        (None, "") => "no reason given".to_string(),
        (None, kind) => kind.to_string(),
    };
    for part in &problem.subproblems {
        text.push_str(&format!("; {part}"));
    }
    text
}

fn advice(kind: &str) -> &'static str {
    match kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or_default() {
        "invalidContact" | "unsupportedContact" => "; correct acme.contact",
        "externalAccountRequired" => "; it needs an existing account: set acme.external_account",
        "userActionRequired" => "; read its message, which may refer to new terms of service",
        "rejectedIdentifier" => "; correct 'hosts' of the site",
        "caa" => "; the CAA records of the name forbid this authority",
        "rateLimited" => "; use \"letsencrypt-staging\" for tests",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(text: &str) -> Failure {
        Failure::Authority(instant_acme::Error::Api(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn what_the_authority_says_comes_with_what_to_do() {
        let failure =
            api(r#"{"type":"urn:ietf:params:acme:error:invalidContact","detail":"no such domain"}"#);
        assert_eq!(
            failure.to_string(),
            "the authority refused: no such domain (invalidContact); correct acme.contact"
        );
        let failure = api(r#"{"type":"urn:ietf:params:acme:error:malformed","subproblems":[
                {"type":"x","detail":"bad","identifier":{"type":"dns","value":"a.org"}}]}"#);
        assert_eq!(failure.to_string(), r#"the authority refused: malformed; for "a.org": bad (x)"#);
        assert!(api(r#"{"type":"urn:ietf:params:acme:error:accountDoesNotExist"}"#).is_unknown_account());
        let of_replaced = |name: &str| api(&format!(r#"{{"type":"urn:ietf:params:acme:error:{name}"}}"#));
        assert!(of_replaced("alreadyReplaced").may_be_of_replaced_certificate());
        // As pebble says it of a certificate that it does not find.
        assert!(of_replaced("serverInternal").may_be_of_replaced_certificate());
        assert!(!of_replaced("rateLimited").may_be_of_replaced_certificate());
        assert!(!api("{}").is_unknown_account());
    }

    #[test]
    fn what_could_not_be_read_is_not_repeated() {
        let error = serde_json::from_str::<u8>("\"a secret\"").unwrap_err();
        assert!(error.to_string().contains("a secret"));
        let text = Failure::Authority(instant_acme::Error::Json(error)).to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}
