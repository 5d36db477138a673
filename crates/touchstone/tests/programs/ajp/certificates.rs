//! Certificates of a test's own, from openssl.

use std::fs;
use std::process::Command;

use crate::support::{Tree, skipped};

/// An authority, a server's and a client's certificate; false, with a visible word, where openssl is missing.
pub(crate) fn make_certificates(tree: &Tree) -> bool {
    let directory = tree.around();
    let run = |arguments: &[&str]| {
        Command::new("openssl").args(arguments).current_dir(directory).output().map(|output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        })
    };
    let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let authority =
        ["req", "-x509", "-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.pem"];
    if run(&[&authority[..], &ec].concat()).is_err() {
        skipped("TLS with certificates of clients (install openssl)");
        return false;
    }
    for (name, subject, extension) in [
        ("server", "/CN=localhost", "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth"),
        ("client", "/O=Example/CN=Ada", "extendedKeyUsage=clientAuth"),
    ] {
        let (key, request, certificate) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        fs::write(directory.join("extension"), extension).unwrap();
        let asked = ["req", "-new", "-subj", subject, "-keyout", &key, "-out", &request];
        run(&[&asked[..], &ec[..5]].concat()).unwrap();
        run(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "authority.pem",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extension",
            "-out",
            &certificate,
        ])
        .unwrap();
    }
    true
}
