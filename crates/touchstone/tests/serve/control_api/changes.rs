//! Changes: what they change, two writers, refused changes, secrets, certificates.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{CHANGE, Controlled, CountedOrigin, route_to};
use crate::support::{ALPHABET, Client, free_port};

const SITE: &str = "/control/sites/127.0.0.1:0";

fn respond(path: &str, text: &str) -> Value {
    json!({ "path": path, "respond": { "status": 200, "body": text } })
}

fn body_of(controlled: &Controlled, target: &str) -> (u16, String) {
    let response = controlled.server.get(target);
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

#[test]
fn routes_and_sites_are_added_replaced_and_removed() {
    let controlled = Controlled::start("", "");
    let routes = format!("{SITE}/routes");
    assert_eq!(controlled.get(&routes).body, json!([]));
    let added = controlled.change("POST", &routes, &respond("/a", "one"));
    assert_eq!(
        (added.status, added.response.field("location")),
        (201, Some("/control/sites/127.0.0.1%3A0/routes/0"))
    );
    assert_eq!(added.body["changes"][0]["path"], "/site 127.0.0.1:0/route");
    assert_eq!(body_of(&controlled, "/a"), (200, "one".to_string()));
    let first =
        controlled.call("POST", &format!("{routes}?position=0"), "If-Match: *\r\n", &respond("/b", "b"));
    assert_eq!(first.status, 201, "{:#}", first.body);
    assert_eq!(controlled.get(&format!("{routes}/1")).body, respond("/a", "one"));
    let replaced = controlled.change("PUT", &format!("{routes}/1"), &respond("/a", "two"));
    assert_eq!(replaced.status, 200, "{:#}", replaced.body);
    assert_eq!(replaced.body["changes"][0]["before"], "one");
    assert_eq!(
        (body_of(&controlled, "/a").1, body_of(&controlled, "/b").1),
        ("two".to_string(), "b".to_string())
    );
    assert_eq!(controlled.change("DELETE", &format!("{routes}/0"), &Value::Null).status, 200);
    assert_eq!(body_of(&controlled, "/b").0, 404);
    assert_eq!(controlled.change("PUT", &routes, &json!([])).status, 200);
    assert_eq!(body_of(&controlled, "/a").0, 404);

    let port = free_port();
    let site = json!({
        "hosts": ["new.example"],
        "listen": [format!("127.0.0.1:{port}")],
        "root": controlled.tree.root().to_str(),
    });
    let path = "/control/sites/new.example";
    let new = controlled.call("PUT", path, "If-None-Match: *\r\n", &site);
    assert_eq!(new.status, 201, "{:#}", new.body);
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let get = "GET /alphabet.txt HTTP/1.1\r\nHost: new.example\r\n\r\n";
    assert_eq!(Client::connect(address).ask(get).body, ALPHABET.as_bytes());
    let names: Vec<Value> = controlled.get("/control/sites").body["sites"]
        .as_array()
        .expect("sites")
        .iter()
        .map(|site| site["name"].clone())
        .collect();
    assert_eq!(names, [json!("127.0.0.1:0"), json!("new.example")]);
    assert_eq!(controlled.change("DELETE", path, &Value::Null).status, 200);
    assert_eq!(controlled.call("GET", path, "", &Value::Null).status, 404);
    let overlay = controlled.get("/control/overlay").body;
    assert_eq!(overlay["changes"], json!({}), "everything is as the file has it");
    assert_eq!(body_of(&controlled, "/alphabet.txt").0, 200);
}

#[test]
fn a_change_that_check_would_refuse_changes_nothing() {
    let controlled = Controlled::start("", "");
    let before = controlled.get("/control/config");
    let site = |more: Value| {
        let mut site = controlled.get(SITE).body;
        site.as_object_mut().expect("a site").extend(more.as_object().expect("keys").clone());
        site
    };
    for (body, expected) in [
        (site(json!({ "rot": "x" })), "unknown key 'rot'"),
        (site(json!({ "root": "/no/such/directory" })), "/no/such/directory"),
        (site(json!({ "listen": ["nowhere"] })), "nowhere"),
        (site(json!({ "route": [{ "path": "/", "proxy": { "to": "ftp://a" } }] })), "ftp://a"),
        (site(json!({ "root": null })), "null"),
        (site(json!({ "hosts": ["other.example"] })), "must be its name"),
    ] {
        let refused = controlled.change("PUT", SITE, &body);
        assert_eq!(refused.status, 422, "{:#}", refused.body);
        assert!(refused.body.to_string().contains(expected), "{expected}: {:#}", refused.body);
    }
    let unknown = controlled.change("PUT", SITE, &site(json!({ "rot": "x" })));
    assert_eq!(unknown.body["problems"][0]["near"], "rot = \"x\"");
    let taken = site(json!({ "listen": [controlled.admin.to_string()] }));
    let path = format!("/control/sites/{}", controlled.admin);
    assert_eq!(controlled.call("PUT", &path, "If-None-Match: *\r\n", &taken).status, 422);
    // Sections with the permissions to change the server cannot be changed this way.
    let mut whole = before.body.clone();
    whole["control"]["token_file"] = "other".into();
    let fixed = controlled.change("PUT", "/control/config", &whole);
    assert_eq!(fixed.status, 422);
    assert!(fixed.body["error"].as_str().is_some_and(|error| error.contains("'control'")));
    let after = controlled.get("/control/config");
    assert_eq!((after.tag, after.body), (before.tag, before.body));
    controlled.server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn the_second_of_two_writers_is_told_what_the_first_has_changed() {
    let controlled = Controlled::start(
        "",
        "[[site]]\nhosts = ['other.example']\nlisten = ['127.0.0.1:0']\nroot = 'root'\n",
    );
    let read = controlled.get(SITE);
    let with = |name: &str, value: Value| {
        let mut site = read.body.clone();
        site[name] = value;
        site
    };
    let condition = format!("If-Match: {}\r\n", read.tag);
    let first = controlled.call("PUT", SITE, &condition, &with("cache_control", "no-cache".into()));
    assert_eq!(first.status, 200, "{:#}", first.body);
    let second = controlled.call("PUT", SITE, &condition, &with("charset", "utf-8".into()));
    assert_eq!(second.status, 412);
    assert_eq!((&*second.tag, &second.body["etag"]), (&*first.tag, &json!(first.tag)));
    assert_eq!(second.body["last_change"]["who"], "deploy");
    let expected =
        json!([{ "path": "/site 127.0.0.1:0/cache_control", "before": null, "after": "no-cache" }]);
    assert_eq!(second.body["last_change"]["changes"], expected);
    assert_eq!(second.body["current"]["cache_control"], "no-cache");
    // A writer of another site has no conflict.
    let other = "/control/sites/other.example";
    assert_eq!(controlled.change("PUT", other, &controlled.get(other).body).status, 200);
    let mut merged = second.body["current"].clone();
    merged["charset"] = "utf-8".into();
    let again = controlled.call("PUT", SITE, &format!("If-Match: {}\r\n", second.tag), &merged);
    assert_eq!(again.status, 200, "{:#}", again.body);
    let response = controlled.server.get("/alphabet.txt");
    assert_eq!(response.field("cache-control"), Some("no-cache"));
    // Reading again with the tag is cheap.
    let fields = format!("If-None-Match: {}\r\nAuthorization: Bearer {CHANGE}\r\n", again.tag);
    let mut client = Client::connect(controlled.admin);
    let unchanged = client.ask(format!("GET {SITE} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", controlled.admin));
    assert_eq!(unchanged.status, 304);
}

#[test]
fn the_whole_configuration_is_replaced_together() {
    let controlled = Controlled::start("", "[limits]\nranges = 3\n");
    let path = "/control/config";
    let mut config = controlled.get(path).body;
    assert_eq!(config["limits"], json!({ "ranges": 3 }));
    // What only the file has may be left out.
    config.as_object_mut().expect("an object").remove("server");
    config["limits"]["ranges"] = 1.into();
    config["cache"] = json!({ "files": 7 });
    let root = config["site"][0]["root"].clone();
    config["site"].as_array_mut().expect("sites").push(json!({
        "hosts": ["new.example"], "listen": ["127.0.0.1:0"], "root": root,
    }));
    config["site"][0]["charset"] = "utf-8".into();
    let changed = controlled.change("PUT", path, &config);
    assert_eq!(changed.status, 200, "{:#}", changed.body);
    assert_eq!(changed.body["changes"].as_array().map(Vec::len), Some(4), "{:#}", changed.body);
    assert_eq!(controlled.get("/control/sites/new.example").status, 200);
    // One problem refuses all of it.
    let mut wrong = controlled.get(path).body;
    wrong["limits"]["ranges"] = 2.into();
    wrong["stream"] = json!([{ "name": "x" }]);
    assert_eq!(controlled.change("PUT", path, &wrong).status, 422);
    let now = controlled.get(path).body;
    assert_eq!((&now["limits"]["ranges"], &now["server"]), (&json!(1), &json!({ "cores": 2 })));
    let response = controlled
        .server
        .connect()
        .ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,4-5\r\n\r\n");
    assert_eq!(response.status, 200, "two ranges are too many");
}

#[test]
fn origins_of_streams_are_drained_too() {
    let origins = [CountedOrigin::start(), CountedOrigin::start()];
    let port = free_port();
    let to: Vec<&str> = origins.iter().filter_map(|origin| origin.url.strip_prefix("http://")).collect();
    let stream = format!("[[stream]]\nname = 'raw'\nlisten = ['127.0.0.1:{port}']\nto = {to:?}\n");
    let controlled = Controlled::start("", &stream);
    let groups = controlled.get("/control/origins").body;
    assert_eq!(
        (&groups["groups"][0]["site"], &groups["groups"][0]["route"]),
        (&json!("(stream)"), &json!("raw"))
    );
    let drained = controlled.patch_origin(&format!("tcp://{}", to[0]), &json!({ "state": "drain" }));
    assert_eq!(drained.status, 200, "{:#}", drained.body);
    for _ in 0..4 {
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    assert_eq!((origins[0].count(), origins[1].count()), (0, 4));
}

#[test]
fn many_writers_lose_no_change() {
    let controlled = Controlled::start("", "");
    let routes = format!("{SITE}/routes");
    const WRITERS: usize = 4;
    const EACH: usize = 5;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (controlled, routes) = (&controlled, &routes);
            scope.spawn(move || {
                for number in 0..EACH {
                    let route = respond(&format!("/{writer}/{number}"), "x");
                    while controlled.change("POST", routes, &route).status == 412 {}
                }
            });
        }
    });
    assert_eq!(controlled.get(&routes).body.as_array().map(Vec::len), Some(WRITERS * EACH));
}

#[test]
fn secrets_are_neither_shown_nor_logged_nor_lost() {
    const SECRET: &str = "hunter2-very-secret";
    let origins = [CountedOrigin::start()];
    let route = format!(
        "{}[site.route.proxy.forward]\nset = {{ X-Api-Key = '{SECRET}', X-Served-By = 'edge' }}\n",
        route_to(&origins)
    );
    let controlled = Controlled::start("audit_log = 'audit.log'", &route);
    let site = controlled.get(SITE).body;
    let set = &site["route"][0]["proxy"]["forward"]["set"];
    assert_eq!(set["X-Served-By"], "edge");
    let shown = set["X-Api-Key"].as_str().expect("a text").to_string();
    assert!(shown.starts_with("(secret "), "{shown}");
    // What was read can be written, and the secret is kept.
    let mut changed = site.clone();
    changed["route"][0]["proxy"]["forward"]["set"]["X-Served-By"] = "other".into();
    assert_eq!(controlled.change("PUT", SITE, &changed).status, 200);
    assert_eq!(controlled.get(SITE).body["route"][0]["proxy"]["forward"]["set"]["X-Api-Key"], shown.as_str());
    // It cannot be moved to where it would be seen.
    let mut moved = site.clone();
    moved["headers"] = json!({ "X-Shown": shown });
    let refused = controlled.change("PUT", SITE, &moved);
    assert_eq!(refused.status, 422, "{:#}", refused.body);
    // A new secret that is refused is not shown either.
    let mut wrong = site;
    wrong["route"][0]["proxy"]["forward"]["set"]["X Api Key"] = "hunter2-other-secret".into();
    let refused = controlled.change("PUT", SITE, &wrong);
    assert_eq!(refused.status, 422, "{:#}", refused.body);
    assert!(!refused.body.to_string().contains("hunter2"), "{:#}", refused.body);
    for path in ["config", "sites", "overlay", "history", "origins", "sites/127.0.0.1:0/routes"] {
        let body = controlled.get(&format!("/control/{path}")).body.to_string();
        assert!(!body.contains("hunter2"), "{path}: {body}");
    }
    let audit = fs::read_to_string(controlled.tree.beside("audit.log")).expect("the audit log");
    assert!(audit.contains("X-Served-By") && !audit.contains("hunter2"), "{audit}");
    assert!(!controlled.server.error_text().contains("hunter2"));
}

#[test]
fn certificates_are_replaced_while_the_server_runs() {
    let old = rcgen::generate_simple_self_signed(vec!["shop.example".to_string()]).expect("a certificate");
    let new = rcgen::generate_simple_self_signed(vec!["shop.example".to_string()]).expect("a certificate");
    let other = rcgen::generate_simple_self_signed(vec!["other.example".to_string()]).expect("a certificate");
    let tree = crate::support::Tree::standard();
    fs::write(tree.beside("cert.pem"), old.cert.pem()).expect("written");
    fs::write(tree.beside("key.pem"), old.signing_key.serialize_pem()).expect("written");
    let sections = format!(
        "[[site]]\nhosts = ['shop.example']\nlisten = ['127.0.0.1:{}']\nroot = 'root'\n\
         certificate = '{}'\nkey = '{}'\n",
        free_port(),
        tree.beside("cert.pem").display(),
        tree.beside("key.pem").display()
    );
    let text = "directory = 'control'\npersist = 'file'";
    let mut controlled = Controlled::start(text, &sections);
    let path = "/control/certificates/shop.example";
    let read = controlled.get(path).body;
    assert_eq!(
        (&read["source"], &read["state"], &read["renewal"]),
        (&json!("file"), &json!("valid"), &json!("by the operator"))
    );
    let body = |certificate: String, key: String| json!({ "certificate": certificate, "key": key });
    let new_key = new.signing_key.serialize_pem();
    for (wrong, expected) in [
        (body(new.cert.pem(), old.signing_key.serialize_pem()), "is not the key"),
        (body(other.cert.pem(), other.signing_key.serialize_pem()), "is not for shop.example"),
        (body("x".to_string(), new_key.clone()), "cannot be used"),
    ] {
        let refused = controlled.change("PUT", path, &wrong);
        assert!(refused.status == 422 && refused.body.to_string().contains(expected), "{:#}", refused.body);
    }
    let replaced = controlled.change("PUT", path, &body(new.cert.pem(), new_key.clone()));
    assert_eq!(replaced.status, 200, "{:#}", replaced.body);
    assert!(!replaced.body.to_string().contains("PRIVATE KEY"));
    let now = controlled.get(path).body;
    assert_ne!(now["sha256"], read["sha256"]);
    let history = controlled.get("/control/history").body.to_string();
    assert!(!history.contains("PRIVATE KEY") && history.contains("not_after"), "{history}");
    controlled.restart(text, &sections);
    assert_eq!(controlled.get(path).body["sha256"], now["sha256"], "it outlives a restart");
}

#[test]
fn origins_are_added_and_removed() {
    let origins = [CountedOrigin::start(), CountedOrigin::start()];
    let controlled = Controlled::start("", &route_to(&origins[..1]));
    let path = "/control/origins/127.0.0.1:0/%2F";
    let without_condition = controlled.call("POST", path, "", &json!({ "to": origins[1].url }));
    assert_eq!(without_condition.status, 428);
    let wrong = controlled.change("POST", path, &json!({ "to": "ftp://a" }));
    assert_eq!(wrong.status, 422);
    let added = controlled.change("POST", path, &json!({ "to": format!("{} weight=3", origins[1].url) }));
    assert_eq!(added.status, 201, "{:#}", added.body);
    for _ in 0..8 {
        assert_eq!(controlled.server.get("/").status, 200);
    }
    assert!(origins[1].count() > origins[0].count(), "{} {}", origins[0].count(), origins[1].count());
    let twice = controlled.change("POST", path, &json!({ "to": origins[1].url }));
    assert_eq!(twice.status, 409);
    let encoded = origins[1].url.replace(':', "%3A").replace('/', "%2F");
    let removed = controlled.call(
        "DELETE",
        &format!("{path}/{encoded}"),
        &format!("If-Match: {}\r\n", controlled.get(path).tag),
        &Value::Null,
    );
    assert_eq!(removed.status, 200, "{:#}", removed.body);
    let before = origins[1].count();
    for _ in 0..8 {
        assert_eq!(controlled.server.get("/").status, 200);
    }
    assert_eq!(origins[1].count(), before);
    // The last one that gets requests is drained by force only.
    let last = controlled.patch_origin(&origins[0].url, &json!({ "state": "drain" }));
    assert_eq!(last.status, 409, "{:#}", last.body);
    for (body, status) in
        [(json!({ "weight": 0 }), 422), (json!({ "wait": 1 }), 400), (json!({ "weight": 5 }), 200)]
    {
        assert_eq!(controlled.patch_origin(&origins[0].url, &body).status, status, "{body}");
    }
}
