//! SPICE: the least component that can return 6,250 bytes. It is of the world `wasi:http/proxy` (0.2).

use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

wasip2::http::proxy::export!(Spice);

struct Spice;

static PAGE: [u8; 6250] = [b'x'; 6250];

/// What one write may take.
const PIECE_BYTES: usize = 4096;

impl wasip2::exports::http::incoming_handler::Guest for Spice {
    fn handle(_: IncomingRequest, out: ResponseOutparam) {
        let fields = [
            ("content-type".to_string(), b"text/html".to_vec()),
            ("content-length".to_string(), b"6250".to_vec()),
        ];
        let Ok(fields) = Fields::from_list(&fields) else { return };
        let response = OutgoingResponse::new(fields);
        let Ok(body) = response.body() else { return };
        ResponseOutparam::set(out, Ok(response));
        let Ok(stream) = body.write() else { return };
        for piece in PAGE.chunks(PIECE_BYTES) {
            let _ = stream.blocking_write_and_flush(piece);
        }
        drop(stream);
        let _ = OutgoingBody::finish(body, None);
    }
}
