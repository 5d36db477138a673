//! Connections: clients that move, proofs of addresses, and ends.

use rustix::process::Signal;
use serde_json::json;

use crate::http3::{configured, server_and_client};
use crate::support::{Tree, bytes_of};

#[test]
fn a_client_that_moves_keeps_its_connection() {
    let tree = Tree::empty();
    tree.write("small", bytes_of(100));
    tree.write("large", bytes_of(8 << 20));
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    // Several connections, so that both cores have some; each new port would be another core's turn by the
    // kernel's own choice.
    for round in 0..6 {
        let name = format!("moving {round}");
        client.connect(&name, &server);
        for _ in 0..4 {
            client.run(json!({"do": "rebind", "name": name}));
            client.get(&name, "/small").assert("after a move", 200, &bytes_of(100));
            client.run(json!({"do": "rebind", "name": name, "new_id": true}));
            client.get(&name, "/small").assert("after a move with a new identifier", 200, &bytes_of(100));
        }
    }
    let moves = json!({
        "do": "requests", "name": "moving 0", "requests": [{"path": "/large"}], "move_at": [1 << 20, 4 << 20]
    });
    let result = client.run(moves);
    crate::http3::client::Answer::all(&result)[0].assert("moved while it was sent", 200, &bytes_of(8 << 20));
}

#[test]
fn addresses_are_validated_when_too_many_are_not() {
    let tree = Tree::standard();
    for (limits, retried) in [
        ("http3_unvalidated_handshakes = 0", true),
        ("connections_per_client = 5", true),
        ("http3_unvalidated_handshakes = 64", false),
    ] {
        let limits = format!("[limits]\n{limits}");
        let Some((server, mut client)) = configured(&tree, &limits, "development_certificate = true") else {
            return;
        };
        let result = client.connect("a", &server);
        assert_eq!(result["retried"], retried, "{limits}: {result}");
        assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
    }
}

#[test]
fn a_client_may_have_only_so_many_connections() {
    let tree = Tree::standard();
    let Some((server, mut client)) =
        configured(&tree, "[limits]\nconnections_per_client = 2", "development_certificate = true")
    else {
        return;
    };
    client.connect("a", &server);
    client.connect("b", &server);
    let refused = client.connect("c", &server);
    // CONNECTION_REFUSED (RFC 9000 section 20.1).
    assert_eq!(refused["closed"]["code"], 2, "{refused}");
    client.run(json!({"do": "close", "name": "a"}));
    let admitted = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.connect("d", &server)["closed"].is_null()
    });
    assert!(admitted, "no connection after another had ended");
}

#[test]
fn a_stop_asks_clients_to_leave_and_finishes_answers() {
    let tree = Tree::standard();
    tree.write("large", bytes_of(3 << 20));
    let Some((mut server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("idle", &server);
    client.connect("busy", &server);
    assert_eq!(client.get("idle", "/alphabet.txt").status(), 200);
    // A request whose body has not ended keeps its stream open.
    let unended = json!([{"path": "/large", "method": "GET"}]);
    client.requests("busy", unended).remove(0).assert("before", 200, &bytes_of(3 << 20));
    server.signal(Signal::TERM);
    client.run(json!({"do": "wait", "name": "idle", "for": "goaway"}));
    client.run(json!({"do": "wait", "name": "busy", "for": "goaway"}));
    client.run(json!({"do": "close", "name": "busy"}));
    // H3_NO_ERROR.
    assert_eq!(client.wait_closed("idle"), 0x100);
    let status = server.wait();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_connection_carries_so_many_requests() {
    let tree = Tree::standard();
    let Some((server, mut client)) =
        configured(&tree, "[limits]\nkeep_alive_requests = 3", "development_certificate = true")
    else {
        return;
    };
    client.connect("a", &server);
    for _ in 0..3 {
        assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
    }
    client.run(json!({"do": "wait", "name": "a", "for": "goaway"}));
    assert_eq!(client.wait_closed("a"), 0x100);
}

#[test]
fn an_idle_connection_ends() {
    let tree = Tree::standard();
    let Some((server, mut client)) =
        configured(&tree, "[limits]\nkeep_alive_timeout = '1s'", "development_certificate = true")
    else {
        return;
    };
    client.connect("a", &server);
    assert_eq!(client.wait_closed("a"), 0x100);
}
