//! Recognises gRPC calls ("gRPC over HTTP2", the protocol's description).
//!
//! The body of a call is a stream of messages that may last for days. The route's limit of request bodies
//! does not apply to it: this server stores no part of a call, flow control limits the bytes in transit, and
//! the origin limits the length of a message.

use touchstone_handler::request::Request;

use super::version::Version;

/// Whether a request is a call that an origin of this version can process.
pub fn is_call(request: &Request, version: Version) -> bool {
    let mut types = request.received.values("content-type");
    version != Version::Http11 && request.body_length().is_none() && types.any(is_grpc)
}

/// Whether a media type is `application/grpc`, with or without the format of its messages (`+proto`).
fn is_grpc(media_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let Some((name, rest)) = media_type.split_at_checked(TYPE.len()) else { return false };
    name.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for yes in ["application/grpc", "Application/GRPC", "application/grpc+proto", "application/grpc;x=y"]
        {
            assert!(is_grpc(yes.as_bytes()), "{yes}");
        }
        // gRPC-Web does not need HTTP/2.
        for no in ["application/grpc-web", "application/grp", "application/grpcs", "text/plain", ""] {
            assert!(!is_grpc(no.as_bytes()), "{no}");
        }
    }
}
