//! Runs every fuzz target over its saved inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the crates.
fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in a directory").to_owned()
}

macro_rules! targets {
    ($($krate:literal: $($name:ident = $path:literal;)+)+) => {
        $($(
            #[path = $path]
            #[allow(unused_attributes, missing_docs, reason = "written as the root of a program of its own")]
            mod $name;

            #[test]
            fn $name() {
                let seeds = crates().join(concat!($krate, "/fuzz/seeds/", stringify!($name)));
                libfuzzer_sys::replay(&seeds, $name::run);
            }
        )+)+

        const TARGETS: &[(&str, &str)] = &[$($(($krate, stringify!($name))),+),+];
    };
}

targets! {
    "access":
    proxy_protocol = "../../access/fuzz/fuzz_targets/proxy_protocol.rs";
    real_ip = "../../access/fuzz/fuzz_targets/real_ip.rs";
    token = "../../access/fuzz/fuzz_targets/token.rs";
    "accelerator":
    disk_record = "../../accelerator/fuzz/fuzz_targets/disk_record.rs";
    esi_page = "../../accelerator/fuzz/fuzz_targets/esi_page.rs";
    response_fields = "../../accelerator/fuzz/fuzz_targets/response_fields.rs";
    structured_fields = "../../accelerator/fuzz/fuzz_targets/structured_fields.rs";
    "config":
    text = "../../config/fuzz/fuzz_targets/text.rs";
    "conformance":
    transcript = "../../conformance/fuzz/fuzz_targets/transcript.rs";
    "control":
    control_call = "../../control/fuzz/fuzz_targets/control_call.rs";
    "dns":
    dns_key = "../../dns/fuzz/fuzz_targets/dns_key.rs";
    dns_message = "../../dns/fuzz/fuzz_targets/dns_message.rs";
    "crawlers":
    crawler_input = "../../crawlers/fuzz/fuzz_targets/crawler_input.rs";
    "expression":
    condition = "../../expression/fuzz/fuzz_targets/condition.rs";
    map = "../../expression/fuzz/fuzz_targets/map.rs";
    "fleet":
    messages = "../../fleet/fuzz/fuzz_targets/messages.rs";
    "http":
    chunked = "../../http/fuzz/fuzz_targets/chunked.rs";
    h2_connection = "../../http/fuzz/fuzz_targets/h2_connection.rs";
    h2_hpack = "../../http/fuzz/fuzz_targets/h2_hpack.rs";
    h3_streams = "../../http/fuzz/fuzz_targets/h3_streams.rs";
    range = "../../http/fuzz/fuzz_targets/range.rs";
    request_head = "../../http/fuzz/fuzz_targets/request_head.rs";
    response_head = "../../http/fuzz/fuzz_targets/response_head.rs";
    target = "../../http/fuzz/fuzz_targets/target.rs";
    trace_context = "../../http/fuzz/fuzz_targets/trace_context.rs";
    "import-apache":
    apache = "../../import-apache/fuzz/fuzz_targets/apache.rs";
    "import-caddy":
    caddy = "../../import-caddy/fuzz/fuzz_targets/caddy.rs";
    "import-nginx":
    nginx = "../../import-nginx/fuzz/fuzz_targets/nginx.rs";
    "includes":
    expression = "../../includes/fuzz/fuzz_targets/expression.rs";
    page = "../../includes/fuzz/fuzz_targets/page.rs";
    "interfaces":
    ajp = "../../interfaces/fuzz/fuzz_targets/ajp.rs";
    cgi_response = "../../interfaces/fuzz/fuzz_targets/cgi_response.rs";
    fastcgi = "../../interfaces/fuzz/fuzz_targets/fastcgi.rs";
    "lab":
    suite = "../../lab/fuzz/fuzz_targets/suite.rs";
    "lab-report":
    raw_line = "../../lab-report/fuzz/fuzz_targets/raw_line.rs";
    "lab-run":
    exposition = "../../lab-run/fuzz/fuzz_targets/exposition.rs";
    live_request = "../../lab-run/fuzz/fuzz_targets/live_request.rs";
    "lifecycle":
    control = "../../lifecycle/fuzz/fuzz_targets/control.rs";
    "load":
    http1_answer = "../../load/fuzz/fuzz_targets/http1_answer.rs";
    http2_answers = "../../load/fuzz/fuzz_targets/http2_answers.rs";
    websocket = "../../load/fuzz/fuzz_targets/websocket.rs";
    "login":
    browser_input = "../../login/fuzz/fuzz_targets/browser_input.rs";
    "nsapi":
    obj_conf = "../../nsapi/fuzz/fuzz_targets/obj_conf.rs";
    pattern = "../../nsapi/fuzz/fuzz_targets/pattern.rs";
    "observe":
    log_line = "../../observe/fuzz/fuzz_targets/log_line.rs";
    "python":
    worker = "../../python/fuzz/fuzz_targets/worker.rs";
    "servlet":
    answers = "../../servlet/fuzz/fuzz_targets/answers.rs";
    "session-import":
    session_files = "../../session-import/fuzz/fuzz_targets/session_files.rs";
    "session":
    session_step = "../../session/fuzz/fuzz_targets/session_step.rs";
    "suite-import":
    recordings = "../../suite-import/fuzz/fuzz_targets/recordings.rs";
    "tls":
    client_hello = "../../tls/fuzz/fuzz_targets/client_hello.rs";
    "wasm":
    compiled_header = "../../wasm/fuzz/fuzz_targets/compiled_header.rs";
    "webdav":
    dav_if_header = "../../webdav/fuzz/fuzz_targets/dav_if_header.rs";
    dav_journal = "../../webdav/fuzz/fuzz_targets/dav_journal.rs";
    dav_xml = "../../webdav/fuzz/fuzz_targets/dav_xml.rs";
}

#[test]
fn every_fuzz_target_is_replayed() {
    let mut found = BTreeSet::new();
    for krate in fs::read_dir(crates()).expect("the crates").flatten() {
        let Ok(targets) = fs::read_dir(krate.path().join("fuzz/fuzz_targets")) else { continue };
        for target in targets.flatten() {
            let name = target.path().file_stem().expect("a file").to_string_lossy().into_owned();
            found.insert((krate.file_name().to_string_lossy().into_owned(), name));
        }
    }
    let listed = TARGETS.iter().map(|&(krate, name)| (krate.to_owned(), name.to_owned())).collect();
    assert_eq!(found, listed, "the list in this file and the files in crates/*/fuzz/fuzz_targets differ");
}

#[test]
fn every_fuzz_target_can_be_fuzzed() {
    let manifest = fs::read_to_string(crates().join("../fuzz/Cargo.toml")).expect("the manifest");
    for (krate, name) in TARGETS {
        let entry =
            format!("name = \"{krate}-{name}\"\npath = \"../crates/{krate}/fuzz/fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&entry), "fuzz/Cargo.toml does not name {krate} {name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len(), "fuzz/Cargo.toml names others");
}
