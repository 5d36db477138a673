//! The authorities whose client certificates are trusted, and their revocation lists.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest as _, Sha256};

use super::pem::{self, PemProblem};
use super::settings::{ClientAuthorities, ClientCertificateMode};

/// The contents of the files of a [`ClientAuthorities`].
pub struct LoadedAuthorities {
    /// Verifies clients.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// A digest of all that was read: sessions that were opened under other authorities must not be resumed.
    pub digest: [u8; 32],
}

impl fmt::Debug for LoadedAuthorities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedAuthorities").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl LoadedAuthorities {
    /// Reads the authorities and the revocation lists.
    pub fn from_files(
        settings: &ClientAuthorities,
        provider: &Arc<CryptoProvider>,
    ) -> Result<LoadedAuthorities, PemProblem> {
        let problem = |message: String| PemProblem { file: settings.authorities.clone(), message };
        let mut digest = Sha256::new();
        let mut roots = RootCertStore::empty();
        for (index, certificate) in pem::read_certificates(&settings.authorities)?.into_iter().enumerate() {
            digest.update(&certificate);
            roots.add(certificate).map_err(|error| {
                problem(format!("certificate {} in it cannot be used: {error}", index + 1))
            })?;
        }
        let mut lists = Vec::new();
        for file in &settings.revocation_lists {
            for list in pem::read_revocation_lists(file)? {
                digest.update(&list);
                lists.push(list);
            }
        }
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).with_crls(lists);
        if settings.mode == ClientCertificateMode::Optional {
            builder = builder.allow_unauthenticated();
        }
        let verifier = builder.build().map_err(|error| problem(error.to_string()))?;
        Ok(LoadedAuthorities { verifier, digest: digest.finalize().into() })
    }
}
