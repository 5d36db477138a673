//! Authenticates the clients of the control API.
//!
//! A client sends a token, or it is root or the server's user on a Unix socket. A loopback address is not
//! sufficient: any web page can make a browser send requests to it.

use std::path::Path;

use touchstone_config::{AdminConfig, AdminListen, ControlConfig};

use crate::request::ControlError;
use crate::tokens::{Identity, Right, Tokens};

/// The rules for clients of the control API.
#[derive(Debug, Clone)]
pub struct ControlGate {
    tokens: Option<Tokens>,
    is_unix: bool,
    /// The user whose processes have access through the Unix socket, in addition to root.
    owner: u32,
}

impl ControlGate {
    /// The rules of a configuration; `None`: there is no control API. Fails if the token file is invalid.
    pub fn open(
        control: &ControlConfig,
        admin: &AdminConfig,
        owner: u32,
    ) -> Result<Option<ControlGate>, String> {
        if !control.enabled {
            return Ok(None);
        }
        let read =
            |path: &Path| Tokens::read(path).map_err(|problem| format!("control.token_file: {problem}"));
        let tokens = control.token_file.as_deref().map(read).transpose()?;
        Ok(Some(ControlGate { tokens, is_unix: matches!(admin.listen, AdminListen::Unix(_)), owner }))
    }

    /// The client of a request with this `Authorization` field. `user` is the user of the client's process on
    /// the Unix socket.
    pub fn identify(
        &self,
        authorization: Option<&[u8]>,
        user: Option<u32>,
    ) -> Result<Identity, ControlError> {
        if let Some(value) = authorization {
            let scheme = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
            let token = scheme.map(|_| value[7..].trim_ascii());
            let known = token.zip(self.tokens.as_ref()).and_then(|(token, tokens)| tokens.identify(token));
            return known.ok_or_else(|| ControlError::new(401, "the token is not one of control.token_file"));
        }
        match user.filter(|_| self.is_unix) {
            Some(user) if user == 0 || user == self.owner => {
                Ok(Identity { name: format!("uid {user}"), right: Right::Change })
            }
            Some(user) => Err(ControlError::new(
                401,
                format!("only root and user {} may do this without a token, not user {user}", self.owner),
            )),
            None => {
                Err(ControlError::new(401, "send a token of control.token_file: Authorization: Bearer TOKEN"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(tokens: Option<&str>, is_unix: bool) -> ControlGate {
        ControlGate { tokens: tokens.map(|text| Tokens::parse(text).unwrap()), is_unix, owner: 1000 }
    }

    fn status(identified: Result<Identity, ControlError>) -> u16 {
        identified.map_or_else(|failure| failure.status, |_| 200)
    }

    #[test]
    fn a_client_is_identified_by_its_token_or_its_user() {
        let tokens = Some("deploy change 0123456789abcdef");
        let good = Some(&b"bearer 0123456789abcdef"[..]);
        let name = |identity: Result<Identity, ControlError>| identity.unwrap().name;
        assert_eq!(name(gate(tokens, false).identify(good, None)), "deploy");
        assert_eq!(name(gate(tokens, true).identify(good, Some(7))), "deploy");
        assert_eq!(name(gate(None, true).identify(None, Some(1000))), "uid 1000");
        assert_eq!(name(gate(None, true).identify(None, Some(0))), "uid 0");
        for (gate, authorization, user) in [
            (gate(tokens, false), None, None),
            (gate(tokens, false), None, Some(0)),
            (gate(tokens, false), Some(&b"Bearer 0123456789abcdee"[..]), None),
            (gate(tokens, false), Some(&b"Basic ZGVwbG95OjAxMjM0NTY3ODlhYmNkZWY="[..]), None),
            (gate(tokens, false), Some(&b"0123456789abcdef"[..]), None),
            (gate(tokens, true), Some(&b"Bearer wrong-token-here"[..]), Some(0)),
            (gate(None, true), Some(&b"Bearer 0123456789abcdef"[..]), Some(0)),
            (gate(None, true), None, Some(1001)),
            (gate(None, true), None, None),
        ] {
            assert_eq!(status(gate.identify(authorization, user)), 401, "{authorization:?} {user:?}");
        }
    }
}
