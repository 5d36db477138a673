//! AuthTrans: `basic-auth`, for which a plug-in checks users and passwords.
//!
//! Without a plug-in's function it is refused when the configuration is read: the site's own keys configure
//! passwords.

use std::ffi::c_int;

use touchstone_includes::encoding::Coding;

use crate::abi::{LOG_MISCONFIG, Pblock, REQ_ABORTED, REQ_NOACTION, REQ_PROCEED, Request, Session};
use crate::api::functions::func_exec;
use crate::pblock;

/// Calls the function `userfn` for the user of the request, and `groupfn` for the groups.
pub unsafe extern "C" fn basic_auth(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let is_basic = pblock::find(block, b"auth-type").is_none_or(|kind| kind.eq_ignore_ascii_case(b"basic"));
    let (Some(user_function), true) = (pblock::find(block, b"userfn"), is_basic) else {
        if let Some(engine) = crate::engine::current() {
            engine.log(LOG_MISCONFIG, "basic-auth needs userfn=, and supports auth-type=basic only");
        }
        return REQ_ABORTED;
    };
    let field = pblock::find((*request).headers, b"authorization");
    let Some((user, password)) = field.and_then(credentials) else { return REQ_NOACTION };
    let call_block = pblock::pblock_create(8);
    pblock::pblock_copy(block, call_block);
    for (name, value) in [(&b"user"[..], &user[..]), (b"pw", &password), (b"fn", user_function)] {
        pblock::set(call_block, name, value);
    }
    let answer = func_exec(call_block, session, request);
    if answer == REQ_PROCEED {
        pblock::set((*request).vars, b"auth-type", b"basic");
        pblock::set((*request).vars, b"auth-user", &user);
        if let Some(group_function) = pblock::find(block, b"groupfn") {
            pblock::set(call_block, b"fn", group_function);
            // The function sets auth-group if there is one; require-auth checks it.
            func_exec(call_block, session, request);
        }
    }
    pblock::pblock_free(call_block);
    answer
}

/// User and password of an Authorization field (RFC 7617).
fn credentials(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = Coding::Base64.decode(rest.trim_ascii());
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some((decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn credentials_are_read_from_the_field() {
        let both =
            |user: &str, password: &str| Some((user.as_bytes().to_vec(), password.as_bytes().to_vec()));
        assert_eq!(credentials(b"Basic am9lOnNobW9l"), both("joe", "shmoe"));
        assert_eq!(credentials(b"basic  am9lOmE6Yg=="), both("joe", "a:b"));
        for wrong in [&b"Bearer am9lOnNobW9l"[..], b"Basic", b"Basic !", b"Basic am9l", b""] {
            assert_eq!(credentials(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn no_field_panics(field: Vec<u8>) {
            credentials(&field);
            credentials(&[b"Basic ", &field[..]].concat());
        }
    }
}
