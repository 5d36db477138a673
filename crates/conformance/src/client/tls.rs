//! TLS for the cases. They test the protocol and not the certificate, so any certificate is accepted.

use rustls::ClientConfig;
use std::sync::Arc;
use touchstone_tls::any_certificate::AnyCertificate;

/// A client that offers only this protocol.
pub(super) fn config(protocol: &[u8]) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}
