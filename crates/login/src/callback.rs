//! The query that a browser brings back from the provider (RFC 6749 section 4.1.2, RFC 9207).

use touchstone_http::addresses::parameter;

/// The longest values that are taken. The providers' codes have up to some hundreds of characters.
const LONGEST_CODE: usize = 4096;
const LONGEST_OTHER: usize = 1024;

/// The length of `state`, see [`crate::pending_login`].
pub const STATE_LENGTH: usize = 32;

/// What a browser brings back.
#[derive(Debug, PartialEq, Eq)]
pub struct Callback {
    /// The state, which names the login.
    pub state: String,
    /// The provider, if it names itself.
    pub issuer: Option<String>,
    /// The code, or the error code of the provider.
    pub outcome: Result<String, String>,
}

/// Reads the query of a callback. The error describes the problem, without parts of the query.
pub fn read(query: &[u8]) -> Result<Callback, &'static str> {
    let get = |name| parameter(query, name).map_err(|_| "a parameter is given twice, or is not encoded text");
    let state = get("state")?.ok_or("there is no state")?;
    let is_state = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if state.len() != STATE_LENGTH || !state.bytes().all(is_state) {
        return Err("the state is not one of this server");
    }
    let issuer = get("iss")?;
    let (code, error) = (get("code")?, get("error")?);
    let outcome = match (code, error) {
        (Some(code), None) if !code.is_empty() && code.len() <= LONGEST_CODE => Ok(code),
        (None, Some(error)) => Err(error_code(&error)),
        _ => return Err("there is neither one code nor one error"),
    };
    if issuer.as_ref().is_some_and(|issuer| issuer.len() > LONGEST_OTHER) {
        return Err("the issuer is too long");
    }
    Ok(Callback { state, issuer, outcome })
}

/// An error code for the log: only its plain characters (RFC 6749 section 5.2), and not too many.
pub fn error_code(error: &str) -> String {
    error.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATE: &str = "abcdefghijklmnopqrstuvwxyz01234-";

    #[test]
    fn a_code_or_an_error_comes_back() {
        let code = read(format!("code=a%2Fb&state={STATE}&session_state=1").as_bytes()).unwrap();
        assert_eq!((code.state.as_str(), code.issuer, code.outcome), (STATE, None, Ok("a/b".to_string())));
        let error = format!("error=access_denied%0d%0a&state={STATE}&iss=https%3A%2F%2Fa");
        let error = read(error.as_bytes()).unwrap();
        assert_eq!(
            (error.issuer.as_deref(), error.outcome),
            (Some("https://a"), Err("access_denied".into()))
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            String::new(),
            "code=a".into(),
            "code=a&state=short".into(),
            format!("state={STATE}"),
            format!("code=&state={STATE}"),
            format!("code=a&error=b&state={STATE}"),
            format!("code=a&code=b&state={STATE}"),
            format!("code=a&state={STATE}&state={STATE}"),
            format!("code={}&state={STATE}", "a".repeat(LONGEST_CODE + 1)),
            format!("code=a&state={}", STATE.replace('-', "%3B")),
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_a_panic(query in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(callback) = read(&query) {
                prop_assert_eq!(callback.state.len(), STATE_LENGTH);
            }
        }
    }
}
