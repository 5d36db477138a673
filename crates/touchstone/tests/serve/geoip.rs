//! The location of clients, by MaxMind's own test files: which clients are allowed, what programs get, what
//! is logged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Client, Response, Server, Tree, run, skipped, wait_until, write_program};

/// An address of the test files and its location.
const BRITISH: &str = "81.2.69.160";
const AMERICAN: &str = "216.160.83.56";
/// An address of AS1221, whose country is not in the files.
const OF_1221: &str = "1.128.0.0";

/// Where `scripts/setup-geoip.sh` puts MaxMind's files: below the target directory.
fn test_data() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let target = built.ancestors().nth(2).unwrap();
    let directory = target.join("geoip/tests/data");
    if !directory.exists() {
        skipped("MaxMind's test files (install python3, then run scripts/setup-geoip.sh)");
        return None;
    }
    Some(directory)
}

/// A tree with the files beside it.
fn tree_with(data: &Path) -> Tree {
    let tree = Tree::standard();
    fs::copy(data.join("test-data/GeoIP2-Country-Test.mmdb"), tree.beside("country.mmdb")).unwrap();
    fs::copy(data.join("test-data/GeoLite2-ASN-Test.mmdb"), tree.beside("asn.mmdb")).unwrap();
    tree
}

/// Asks as this client.
fn ask(client: &mut Client, path: &str, address: &str, fields: &str) -> Response {
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n{fields}\r\n"))
}

const SECTIONS: &str =
    "[proxies]\ntrusted = [\"127.0.0.0/8\"]\n[geoip]\nfiles = [\"country.mmdb\", \"asn.mmdb\"]\n";

#[test]
fn rules_admit_countries_and_systems() {
    let Some(data) = test_data() else { return };
    let tree = tree_with(&data);
    let mut server = Server::configured(
        tree.around(),
        &format!(
            "[access_log]\npath = \"access.log\"\nformat = \"$client $geoip_country $geoip_asn $status\"\n{}\
             geoip = {{ deny = [\"GB\"] }}\n\
             [[site.route]]\npath = \"/dir/\"\ngeoip = {{ allow = [\"US\", \"AS1221\"] }}\n\
             [[site.route]]\npath = \"/alphabet.txt\"\ngeoip = {{}}\n\
             [[site.route]]\npath = \"/named/\"\nallow = [\"{BRITISH}\", \"0.0.0.0/0\"]\n\
             geoip = {{ allow = [\"US\"] }}\n\
             [[site.route]]\npath = \"/where/\"\nwhen = '$geoip_country == \"US\"'\n\
             respond = {{ status = 410 }}\nheaders = {{ X-Place = \"$geoip_country\" }}\n",
            tree.configuration(SECTIONS)
        ),
    );
    let mut client = server.connect();
    for (path, address, expected) in [
        ("/second.txt", BRITISH, 403),
        ("/second.txt", AMERICAN, 200),
        ("/second.txt", "10.1.2.3", 200),
        ("/second.txt", AMERICAN, 200),
        ("/second.txt", BRITISH, 403),
        ("/dir/inner.txt", BRITISH, 403),
        ("/dir/inner.txt", AMERICAN, 200),
        ("/dir/inner.txt", OF_1221, 200),
        ("/dir/inner.txt", "10.1.2.3", 403),
        ("/dir/../second.txt", BRITISH, 403),
        ("/alphabet.txt", BRITISH, 200),
        // An address that the same route names is not looked up.
        ("/named/x", BRITISH, 404),
        ("/where/x", AMERICAN, 410),
        ("/where/x", "10.1.2.3", 404),
        ("/second.txt", "2001:218::1", 200),
    ] {
        for _ in 0..2 {
            let answer = ask(&mut client, path, address, "");
            assert_eq!(answer.status, expected, "{path} from {address}");
            assert_eq!(answer.field("x-place"), (expected == 410).then_some("US"), "{path} from {address}");
        }
    }
    drop(client);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    for begin in [
        format!("{BRITISH} GB "),
        format!("{AMERICAN} US "),
        format!("{OF_1221} - 1221 200"),
        "10.1.2.3 - - 200".to_string(),
    ] {
        assert!(log.lines().any(|line| line.starts_with(&begin)), "{begin}: {log}");
    }
}

#[test]
fn programs_are_told_and_clients_cannot_say_it() {
    let Some(data) = test_data() else { return };
    let tree = tree_with(&data);
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n[%s] [%s]' \
                \"$HTTP_X_GEOIP_COUNTRY\" \"$HTTP_X_GEOIP_ASN\"\n";
    write_program(&tree.beside("cgi/where"), text);
    let server = Server::configured(
        tree.around(),
        &format!(
            "{}[[site.route]]\npath = \"/cgi/\"\ncgi = {{ directory = \"cgi\" }}\n",
            tree.configuration(&format!("{SECTIONS}request_fields = true\n"))
        ),
    );
    let mut client = server.connect();
    let forged = "X-GeoIP-Country: XX\r\nx_geoip_country: XX\r\nX-GeoIP-ASN: 1\r\n";
    for (address, expected) in [(BRITISH, "[GB] []"), (OF_1221, "[] [1221]"), ("10.1.2.3", "[] []")] {
        let answer = ask(&mut client, "/cgi/where", address, forged);
        assert_eq!(String::from_utf8_lossy(&answer.body), expected, "{address}");
    }
}

#[test]
fn a_changed_file_is_read_again_and_a_damaged_one_is_not() {
    let Some(data) = test_data() else { return };
    let tree = tree_with(&data);
    let keys = "geoip = { deny = [\"GB\"] }\n";
    let server = Server::configured(tree.around(), &format!("{}{keys}", tree.configuration(SECTIONS)));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/alphabet.txt", BRITISH, "").status, 403);
    let replace = |bytes: &[u8]| {
        fs::write(tree.beside("new.mmdb"), bytes).unwrap();
        fs::rename(tree.beside("new.mmdb"), tree.beside("country.mmdb")).unwrap();
    };
    replace(b"nonsense");
    server.wait_for_error_line("the damaged file is reported", |line| line.contains("stays in use"));
    assert_eq!(ask(&mut client, "/alphabet.txt", BRITISH, "").status, 403);
    // A file without countries.
    replace(&fs::read(data.join("test-data/GeoLite2-ASN-Test.mmdb")).unwrap());
    wait_until("the new file is read", Duration::from_secs(60), || {
        ask(&mut client, "/alphabet.txt", BRITISH, "").status == 200
    });
}

#[test]
fn files_that_are_damaged_inside_break_nothing() {
    let Some(data) = test_data() else { return };
    let tree = tree_with(&data);
    let mut tried = 0;
    for directory in
        ["bad-data/libmaxminddb", "bad-data/maxminddb-golang", "bad-data/maxminddb-python", "test-data"]
    {
        for entry in fs::read_dir(data.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "mmdb") {
                continue;
            }
            fs::copy(&path, tree.beside("country.mmdb")).unwrap();
            let text = format!("{}geoip = {{ deny = [\"XX\"] }}\n", tree.configuration(SECTIONS));
            fs::write(tree.beside("a.toml"), &text).unwrap();
            let checked = run(["check", "--config", tree.beside("a.toml").to_str().unwrap()]);
            if checked.status.code() == Some(0) && directory != "test-data" {
                let server = Server::configured(tree.around(), &text);
                let mut client = server.connect();
                for address in ["1.1.1.1", BRITISH, "2001:218::1", "255.255.255.255"] {
                    let status = ask(&mut client, "/alphabet.txt", address, "").status;
                    assert_eq!(status, 200, "{}", path.display());
                }
            } else if checked.status.code() != Some(0) {
                let said =
                    String::from_utf8_lossy(&checked.stderr) + String::from_utf8_lossy(&checked.stdout);
                assert!(said.contains("country.mmdb"), "{}: {said}", path.display());
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let tree = Tree::standard();
    for (sections, keys, reason) in [
        ("", "geoip = { deny = [\"GB\"] }", "'geoip' needs 'files'"),
        ("", "geoip = { deny = [\"gb\"] }", "is neither a country"),
        ("[geoip]\nfiles = [\"missing.mmdb\"]\n", "", "missing.mmdb: cannot be read"),
    ] {
        fs::write(tree.beside("wrong.toml"), format!("{}{keys}\n", tree.configuration(sections))).unwrap();
        let output = run(["check", "--config", tree.beside("wrong.toml").to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_ne!(output.status.code(), Some(0), "{keys}");
        assert!(said.contains(reason) && said.contains("wrong.toml:"), "{keys}: {said}");
    }
}
