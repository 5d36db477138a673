//! The provider's metadata (OpenID Connect Discovery 1.0 section 3).

use serde_json::{Map, Value};
use touchstone_client::HttpClient;

/// The maximum size of the document in bytes.
pub const LARGEST: usize = 256 * 1024;

/// The metadata of a provider, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Where a browser is sent to sign in.
    pub authorization_endpoint: String,
    /// Where a code is exchanged for tokens.
    pub token_endpoint: String,
    /// The keys of its signatures.
    pub jwks_uri: String,
    /// The endpoint of further claims; `None`: there is none.
    pub userinfo_endpoint: Option<String>,
    /// The endpoint of the logout; `None`: there is none.
    pub end_session_endpoint: Option<String>,
    /// It takes the secret of a client in the form only, and not in `Authorization`.
    pub wants_secret_in_form: bool,
    /// It names itself in callbacks (RFC 9207), so that one without a name is not from it.
    pub names_itself: bool,
}

impl Metadata {
    /// Where a provider has its metadata (section 4).
    pub fn address(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(issuer))
    }

    /// Reads the document of this issuer, which must contain exactly this issuer (section 4.3). The error
    /// describes the problem.
    pub fn read(text: &[u8], issuer: &str) -> Result<Metadata, String> {
        if text.len() > LARGEST {
            return Err(format!("has more than {LARGEST} bytes"));
        }
        let document: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| format!("is not a JSON object: {error}"))?;
        match document.get("issuer").and_then(Value::as_str) {
            Some(named) if named == issuer => {}
            Some(named) => {
                let named: String = named.chars().filter(|char| !char.is_control()).take(200).collect();
                return Err(format!(
                    "names the issuer {named:?}, and the configuration names {issuer:?}: they must be equal, \
                     with or without a slash at the end"
                ));
            }
            None => return Err("has no member \"issuer\"".to_string()),
        }
        let optional = |name: &str| match document.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(url)) => {
                HttpClient::check_url(url).map_err(|problem| format!("{name:?} {problem}"))?;
                if !url
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>'))
                {
                    return Err(format!("{name:?} is not an address without a fragment"));
                }
                Ok(Some(url.clone()))
            }
            Some(_) => Err(format!("{name:?} is not a string")),
        };
        let needed = |name: &str| optional(name)?.ok_or_else(|| format!("has no member {name:?}"));
        let lists = |name: &str, wanted: &str| {
            let listed = document.get(name).and_then(Value::as_array);
            listed.map(|values| values.iter().any(|value| value.as_str() == Some(wanted)))
        };
        let takes = |method| lists("token_endpoint_auth_methods_supported", method);
        Ok(Metadata {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            userinfo_endpoint: optional("userinfo_endpoint")?,
            end_session_endpoint: optional("end_session_endpoint")?,
            wants_secret_in_form: takes("client_secret_basic") == Some(false)
                && takes("client_secret_post") == Some(true),
            names_itself: document.get("authorization_response_iss_parameter_supported")
                == Some(&Value::Bool(true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "issuer": "https://a.example/",
            "authorization_endpoint": "https://a.example/auth",
            "token_endpoint": "https://a.example/token",
            "jwks_uri": "https://a.example/keys",
        })
    }

    fn read(document: &Value) -> Result<Metadata, String> {
        Metadata::read(document.to_string().as_bytes(), "https://a.example/")
    }

    #[test]
    fn the_least_document_is_enough() {
        let metadata = read(&document()).unwrap();
        assert_eq!(metadata.token_endpoint, "https://a.example/token");
        assert_eq!((metadata.userinfo_endpoint, metadata.end_session_endpoint), (None, None));
        assert!(!metadata.wants_secret_in_form && !metadata.names_itself);
        for issuer in ["https://a.example/", "https://a.example"] {
            assert_eq!(Metadata::address(issuer), "https://a.example/.well-known/openid-configuration");
        }
    }

    #[test]
    fn the_issuer_must_be_exactly_the_one_that_is_configured() {
        for other in ["https://a.example", "https://A.example/", "https://evil.example/"] {
            let mut document = document();
            document["issuer"] = other.into();
            assert!(read(&document).unwrap_err().contains("must be equal"), "{other}");
        }
    }

    #[test]
    fn addresses_are_of_https() {
        for (name, value, problem) in [
            ("token_endpoint", json!("http://a.example/token"), "https://"),
            ("jwks_uri", json!(null), "has no member \"jwks_uri\""),
            ("authorization_endpoint", json!("javascript:alert(1)"), "https://"),
            ("authorization_endpoint", json!("https://a.example/#x"), "fragment"),
            ("end_session_endpoint", json!(["a"]), "is not a string"),
        ] {
            let mut document = document();
            document[name] = value;
            assert!(read(&document).unwrap_err().contains(problem), "{name}");
        }
        let mut local = document();
        local["token_endpoint"] = "http://127.0.0.1:5556/token".into();
        assert!(read(&local).is_ok());
    }

    #[test]
    fn ways_to_authenticate_are_read() {
        for (methods, expected) in [
            (json!(["client_secret_post"]), true),
            (json!(["client_secret_post", "client_secret_basic"]), false),
            (json!(["private_key_jwt"]), false),
        ] {
            let mut document = document();
            document["token_endpoint_auth_methods_supported"] = methods;
            assert_eq!(read(&document).unwrap().wants_secret_in_form, expected);
        }
    }
}
