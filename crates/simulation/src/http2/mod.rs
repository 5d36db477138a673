//! The HTTP/2 engine with a client that records windows, the order of frames, the ends of streams, and every
//! byte of every body. Both ends of the connection split the bytes at any position.
//!
//! Invariants: the server does not exceed a window, and sends no bytes on a stream that has ended and no
//! bytes of another stream; a client that conforms to the protocol loses no request, also if it resets other
//! streams and changes its settings; after all windows are open, every request is answered. In some runs bits
//! of the client's bytes are changed: then the output of the server must still consist of complete frames.

mod client;
mod server;

use touchstone_http::h2::Limits;

use crate::random;
use crate::wire::Wire;
use client::Client;
use server::Server;

/// The maximum number of turns of a run before all windows are opened.
const MOST_TURNS: u64 = 400;

/// The maximum number of turns with open windows until all requests are answered.
const MOST_FINAL_TURNS: u64 = 20_000;

/// Runs one simulation.
pub fn run() {
    let is_changed = random::one_in(8);
    let limits = limits();
    let (mut to_server, mut to_client) = (Wire::default(), Wire::default());
    let mut server = Server::new(limits, is_changed);
    let mut client = Client::new(&mut to_server, is_changed);
    let turns = random::between(20, MOST_TURNS);
    for _ in 0..turns {
        match random::below(10) {
            0 | 1 => client.act(&mut to_server),
            2 | 3 => client.receive(&mut to_client),
            4 | 5 => server.receive(&mut to_server),
            6 => server.act(),
            7 | 8 => server.send(&mut to_client),
            _ if random::one_in(20) => server.shut_down(),
            _ => server.second_passes(),
        }
        if is_changed && random::one_in(60) {
            to_server.flip_bit();
        }
        if server.has_failed() {
            assert!(is_changed, "the server rejects a conforming client: {}", server.failure());
            server.send(&mut to_client);
            client.receive(&mut to_client);
            return;
        }
    }
    if is_changed {
        return;
    }
    client.open_windows(&mut to_server);
    let mut turn = 0;
    while !(client.is_complete() && server.is_idle() && to_client.is_empty() && to_server.is_empty()) {
        server.receive(&mut to_server);
        assert!(!server.has_failed(), "the server fails at the end: {}", server.failure());
        server.act();
        server.send(&mut to_client);
        client.receive(&mut to_client);
        client.send_rest(&mut to_server);
        server.second_passes();
        turn += 1;
        assert!(turn < MOST_FINAL_TURNS, "requests without answers: {}", client.unanswered());
    }
    server.send(&mut to_client);
    server.check_end();
}

fn limits() -> Limits {
    let usual = Limits::default();
    let window = random::pick(&[100, 1000, 16_384, 65_535, usual.stream_window_bytes]);
    Limits {
        concurrent_streams: random::pick(&[1, 3, 100]),
        stream_window_bytes: window,
        connection_window_bytes: random::pick(&[65_535, 100_000, usual.connection_window_bytes]),
        decoder_table_bytes: random::pick(&[0, 100, 4096, 65_536]),
        encoder_table_bytes: random::pick(&[0, 200, 4096]),
        output_bytes: random::pick(&[1000, 30_000, usual.output_bytes]),
        awaits_requests: random::percent(50),
        ..usual
    }
}
