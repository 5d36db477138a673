//! `touchstone control`.

use std::fs;
use std::process::Output;

use serde_json::json;

use super::{CHANGE, Controlled, CountedOrigin, READ, route_to};
use crate::support::run;

#[test]
fn the_command_reads_and_changes() {
    let origins = [CountedOrigin::start(), CountedOrigin::start()];
    let controlled = Controlled::start("", &route_to(&origins));
    let beside = |name: &str| controlled.tree.beside(name).to_str().expect("a name").to_string();
    fs::write(beside("change"), CHANGE).expect("written");
    fs::write(beside("read"), READ).expect("written");
    let (config, token) = (beside("touchstone.toml"), beside("change"));
    let control = |words: &[&str]| {
        let more = ["--config", &config, "--token-file", &token];
        run(["control"].iter().chain(words).chain(&more).copied().collect::<Vec<&str>>())
    };
    let text = |output: &Output| {
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = text(&control(&["origins"]));
    assert!(listed.contains(&format!("  {} ready, weight 1, up", origins[0].url)), "{listed}");
    let drained = text(&control(&["drain", &origins[0].url]));
    assert!(drained.contains("drain, weight 1"), "{drained}");
    let last = control(&["maintenance", &origins[1].url]);
    assert_eq!(last.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&last.stderr).contains("force=true"), "{last:?}");
    assert!(text(&control(&["ready", &origins[0].url])).contains("ready"));
    assert!(text(&control(&["weight", &origins[0].url, "7"])).contains("weight 7"));
    assert!(text(&control(&["weight", &origins[0].url, "configured"])).contains("weight 1"));
    assert_eq!(control(&["drain", "http://nowhere"]).status.code(), Some(1));

    let path = "/control/sites/127.0.0.1:0";
    let read = control(&["get", path]);
    let mut site: serde_json::Value = serde_json::from_str(&text(&read)).expect("JSON");
    let tag = String::from_utf8_lossy(&read.stderr).trim().strip_prefix("ETag: ").expect("a tag").to_string();
    site["charset"] = "utf-8".into();
    fs::write(beside("site.json"), site.to_string()).expect("written");
    let put = control(&["put", path, &beside("site.json"), "--if-match", &tag]);
    assert!(text(&put).contains("/charset: null -> \"utf-8\""), "{put:?}");
    site["charset"] = "latin-1".into();
    fs::write(beside("site.json"), site.to_string()).expect("written");
    let second = control(&["put", path, &beside("site.json"), "--if-match", &tag]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    for expected in
        ["the last change was made by deploy", "null -> \"utf-8\"", "its ETag is now", "status 412"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(text(&control(&["history"])).contains("deploy PUT site 127.0.0.1:0 conflict"));
    assert!(text(&control(&["certificates"])).contains("no site has a certificate"));
    assert!(text(&control(&["discard"])).contains("charset"));
    let refused =
        run(["control", "drain", &origins[0].url, "--config", &config, "--token-file", &beside("read")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'dashboard' may read only"), "{refused:?}");
    assert_eq!(run(["control", "put", path, "x.json"]).status.code(), Some(2), "a condition is needed");
    assert_eq!(run(["control", "origins", "--server", "nowhere"]).status.code(), Some(2));
    let json: serde_json::Value =
        serde_json::from_str(&text(&control(&["origins", "--json"]))).expect("JSON");
    assert_eq!(json["groups"][0]["origins"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["groups"][0]["site"], json!("127.0.0.1:0"));
}
