//! Certificates that are obtained at the first handshake for a name. Another part of the server obtains them;
//! this module has the interface for an endpoint.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

/// The source of certificates for names that are not in the configuration.
pub trait CertificatesOnDemand: Send + Sync {
    /// The certificate of a name in lower case, if there is one.
    fn find(&self, name: &str) -> Option<Arc<CertifiedKey>>;

    /// Requests a certificate for a name that has none. The handshake waits until the answer is ready; `None`
    /// if it need not wait, because there will be no certificate.
    fn request(&self, name: &str) -> Option<CertificateWait>;
}

/// The end of a request for a certificate, successful or not.
pub type CertificateWait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source, or none.
#[derive(Clone, Default)]
pub struct OnDemandSource(pub Option<Arc<dyn CertificatesOnDemand>>);

impl fmt::Debug for OnDemandSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OnDemandSource({})", self.0.is_some())
    }
}
