//! The limits of QUIC connections: their transport parameters (RFC 9000 section 18).

use std::sync::Arc;

use quinn::{IdleTimeout, ServerConfig, TransportConfig, VarInt, crypto};
use touchstone_config::LimitsConfig;

use super::secrets::Secrets;

/// The most unidirectional streams that a client may have open: it needs three, and some more for extensions
/// that the server ignores.
const UNIDIRECTIONAL_STREAMS: u32 = 16;

/// How many bytes a client may send on one stream, and on all together, before they are read.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const RECEIVE_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// The most bytes that wait for a client's acknowledgement.
pub const SEND_WINDOW_BYTES: u64 = 2 * 1024 * 1024;

/// How many bytes of a connection are kept before it is accepted.
const INCOMING_BYTES: u64 = 64 * 1024;
const ALL_INCOMING_BYTES: u64 = 4 * 1024 * 1024;

/// The most connections that wait to be accepted, which takes no time.
const INCOMING: usize = 4096;

/// The configuration of QUIC for one address.
pub fn server_config(
    secrets: &Secrets,
    tls: Arc<dyn crypto::ServerConfig>,
    limits: &LimitsConfig,
) -> ServerConfig {
    let mut transport = TransportConfig::default();
    // The server's own limits are stricter while it waits for the client; this one removes connections of
    // clients that have disappeared.
    let idle = limits.keep_alive_timeout.max(limits.stall_timeout);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.http3_streams))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .max_idle_timeout(IdleTimeout::try_from(idle).ok())
        // A tunnel, or an answer that pauses, may be silent for longer.
        .keep_alive_interval(Some(idle / 2))
        .datagram_receive_buffer_size(None);
    let mut config = secrets.server_config(tls);
    config
        .transport_config(Arc::new(transport))
        .migration(true)
        .max_incoming(INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(ALL_INCOMING_BYTES);
    config
}
