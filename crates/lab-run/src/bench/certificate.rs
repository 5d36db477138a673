//! The certificate of the systems that are started here and measured over TLS. It is made for one run, for
//! 127.0.0.1, and only the run's load engine trusts it. It is in the directory of the run's sockets, which is
//! removed after the run, so that no key remains in a result.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use touchstone_load::{TlsTarget, Trust};

use crate::system::user::User;

/// The name that it is made out to.
const NAME: &str = "127.0.0.1";

/// A certificate with its key, as files.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    /// The certificate, PEM.
    pub(super) file: PathBuf,
    /// Its key, PEM.
    pub(super) key_file: PathBuf,
    text: String,
}

impl Certificate {
    /// Makes one in this directory; the server switches to `user`, who must be able to read it.
    pub(super) fn make(directory: &Path, user: Option<&User>) -> io::Result<Certificate> {
        let generated = rcgen::generate_simple_self_signed([NAME.to_string()]).map_err(io::Error::other)?;
        let certificate = Certificate {
            file: directory.join("certificate.pem"),
            key_file: directory.join("certificate-key.pem"),
            text: generated.cert.pem(),
        };
        for (path, text) in [
            (&certificate.file, &certificate.text),
            (&certificate.key_file, &generated.signing_key.serialize_pem()),
        ] {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            if let Some(user) = user {
                chown(path, Some(user.uid), Some(user.gid))?;
            }
        }
        Ok(certificate)
    }

    /// How the load engine meets a server that shows it.
    pub(super) fn tls_target(&self) -> TlsTarget {
        TlsTarget { trust: Trust::Authorities(self.text.clone().into_bytes()), ..TlsTarget::new(NAME) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_for_its_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let certificate = Certificate::make(place.path(), None).unwrap();
        let mode = fs::metadata(&certificate.key_file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::read_to_string(&certificate.file).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(Certificate::make(place.path(), None).is_err(), "an old key is never shown again");
    }
}
