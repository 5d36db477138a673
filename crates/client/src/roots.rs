//! The authorities that a client trusts.

use std::path::Path;

use rustls::RootCertStore;

/// The authorities in a file of PEM certificates.
pub fn of_file(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in touchstone_tls::read_certificates(file).map_err(|problem| problem.to_string())? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: a certificate in it cannot be used: {error}", file.display()))?;
    }
    Ok(roots)
}

/// The authorities that the system trusts. `ca_key` is the key that could name others.
pub fn of_system(ca_key: &str) -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
        return Err(format!(
            "this system has no trusted authorities{reason}: install the package ca-certificates, or set \
             {ca_key}"
        ));
    }
    Ok(roots)
}
