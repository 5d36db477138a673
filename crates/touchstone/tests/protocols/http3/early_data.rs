//! Resumed sessions, and requests before the end of the handshake (RFC 8470).

use serde_json::json;

use crate::http3::client::Answer;
use crate::http3::server_and_client;
use crate::support::Tree;

#[test]
fn early_data_is_for_safe_methods() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    // Whether the handshake is done when the request is looked at is a race that the client may win now and
    // then; then the request is not early any more.
    let too_early = (0..20).any(|round| {
        client.connect_with(&format!("first {round}"), &server, json!({"ticket": true}));
        let early = json!([
            {"path": "/alphabet.txt"},
            {"method": "HEAD", "path": "/alphabet.txt"},
            {"method": "POST", "path": "/", "body": "x"},
        ]);
        let name = format!("second {round}");
        let result = client.connect_with(&name, &server, json!({"resume": true, "early": early}));
        assert_eq!(result["early_data_accepted"], true, "{result}");
        let answers = Answer::all(&result);
        assert_eq!((answers[0].status(), answers[1].status()), (200, 200));
        let late = json!([{"method": "POST", "path": "/", "body": "x"}]);
        assert_eq!(client.requests(&name, late)[0].status(), 405);
        assert!(matches!(answers[2].status(), 405 | 425), "{result}");
        answers[2].status() == 425
    });
    assert!(too_early, "no POST in early data was refused");
}

#[test]
fn a_ticket_is_good_once() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect_with("first", &server, json!({"ticket": true}));
    let early = json!([{"path": "/alphabet.txt"}]);
    let once = client.connect_with("once", &server, json!({"resume": "first", "early": early}));
    assert_eq!((&once["resumed"], &once["early_data_accepted"]), (&json!(true), &json!(true)), "{once}");
    // New tickets have arrived since; a replay has the old one only.
    let again = client.connect_with("again", &server, json!({"resume": "first"}));
    assert_eq!((&again["resumed"], &again["early_data_accepted"]), (&json!(false), &json!(false)), "{again}");
}
