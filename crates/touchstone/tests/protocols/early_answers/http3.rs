//! HTTP/3: the whole answer, then STOP_SENDING.

use serde_json::{Value, json};

use super::{UNREAD, configuration};
use crate::http3::client::{Answer, Client};
use crate::support::{Server, Tree};

#[test]
fn answers_do_not_wait_for_bodies_that_they_do_not_need() {
    let Some(mut client) = Client::start() else { return };
    let tree = Tree::standard();
    let (text, _origin) = configuration(&tree, "http3 = true\ndevelopment_certificate = true\n");
    let server = Server::configured(tree.around(), &text);
    client.connect("a", &server);
    let first = client.get("a", "/often");
    assert_eq!(first.status(), 404);
    let is_long = [false, true];
    let unread = UNREAD.iter().flat_map(|unread| is_long.map(|is_long| (unread, is_long)));
    let requests: Vec<Value> = unread
        .clone()
        .map(|(unread, is_long)| {
            let length = if is_long { "20000000" } else { "10" };
            json!({
                "method": unread.method, "path": unread.target, "body": "hello", "unended": true,
                "headers": [["content-length", length]],
            })
        })
        .collect();
    let result = client.run(json!({"do": "requests", "name": "a", "requests": requests}));
    assert!(result["closed"].is_null(), "{}", result["closed"]);
    for ((unread, _), answer) in unread.zip(Answer::all(&result)) {
        let what = format!("{} {}", unread.method, unread.target);
        assert_eq!(answer.status(), u64::from(unread.status), "{what}");
        assert_eq!(answer.reset(), None, "{what}");
    }
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
}
