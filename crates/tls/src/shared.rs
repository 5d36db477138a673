//! The state that all TLS endpoints of the process share, and that remains after a reload of the
//! configuration: the means to resume sessions, development certificates in memory, and challenges of ACME.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use rustls::crypto::CryptoProvider;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions,
};
use rustls::sign::CertifiedKey;

use super::certificate::LoadedCertificate;
use super::on_demand::{CertificatesOnDemand, OnDemandSource};
use super::settings::Policy;

/// Shared by all endpoints of the process; made once.
pub struct TlsShared {
    /// The cryptography: aws-lc-rs with the suites and groups that rustls chooses by default, X25519MLKEM768
    /// first, and of the suites of each version the one with AES-128 first.
    pub(super) provider: Arc<CryptoProvider>,
    /// Answers for ACME's TLS-ALPN-01.
    pub(super) challenges: Arc<Challenges>,
    /// For sites whose names get certificates at their first handshake.
    on_demand: OnceLock<Arc<dyn CertificatesOnDemand>>,
    sessions: Mutex<HashMap<SessionsKey, Weak<Sessions>>>,
    development: Mutex<HashMap<Vec<String>, Arc<LoadedCertificate>>>,
}

/// A session is resumed only where it was opened: under the same rules and the same authorities. Otherwise a
/// client without a certificate could open a session where none is required, and resume it where one is
/// required.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionsKey {
    /// The rules.
    pub policy: Policy,
    /// The authorities of clients, with the revocation lists.
    pub authorities: Option<[u8; 32]>,
}

/// The means to resume sessions.
pub struct Sessions {
    /// Encrypts tickets, and changes its keys every six hours; `None` if tickets are off.
    pub ticketer: Option<Arc<dyn ProducesTickets>>,
    /// Sessions in memory.
    pub storage: Arc<dyn StoresServerSessions>,
}

impl TlsShared {
    /// Must be called once, when the server starts.
    pub fn new() -> Arc<TlsShared> {
        Arc::new(TlsShared {
            provider: super::provider::provider(),
            challenges: Arc::default(),
            on_demand: OnceLock::new(),
            sessions: Mutex::default(),
            development: Mutex::default(),
        })
    }

    /// The cryptography of all TLS code.
    pub fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// Answers handshakes of ACME's TLS-ALPN-01 (RFC 8737) for `name` with this certificate, on every
    /// endpoint, until [`TlsShared::remove_challenge`].
    pub fn add_challenge(&self, name: &str, certificate: Arc<CertifiedKey>) {
        self.challenges.change(|table| {
            table.insert(name.to_ascii_lowercase(), certificate);
        });
    }

    /// Removes the challenge that [`TlsShared::add_challenge`] added.
    pub fn remove_challenge(&self, name: &str) {
        self.challenges.change(|table| {
            table.remove(&name.to_ascii_lowercase());
        });
    }

    /// Sets the source of certificates on demand, once, before the first endpoint is opened.
    pub fn set_on_demand(&self, source: Arc<dyn CertificatesOnDemand>) {
        // A second source would be a second manager of certificates, of which a process has one.
        let _ = self.on_demand.set(source);
    }

    /// The source of certificates on demand.
    pub(super) fn on_demand(&self) -> OnDemandSource {
        OnDemandSource(self.on_demand.get().cloned())
    }

    /// The means to resume sessions under these rules: the existing ones, or new ones.
    pub(super) fn sessions(&self, key: SessionsKey) -> Result<Arc<Sessions>, rustls::Error> {
        let mut table = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sessions) = table.get(&key).and_then(Weak::upgrade) {
            return Ok(sessions);
        }
        table.retain(|_, sessions| sessions.strong_count() > 0);
        let resumption = &key.policy.resumption;
        let ticketer = match resumption.tickets {
            true => Some(rustls::crypto::aws_lc_rs::Ticketer::new()?),
            false => None,
        };
        let storage: Arc<dyn StoresServerSessions> = match resumption.stored_sessions {
            0 => Arc::new(NoServerSessionStorage {}),
            most => ServerSessionMemoryCache::new(most),
        };
        let sessions = Arc::new(Sessions { ticketer, storage });
        table.insert(key, Arc::downgrade(&sessions));
        Ok(sessions)
    }

    /// The development certificate for these names that is stored in memory; `make` creates it if there is
    /// none. It stays the same over reloads, so that an exception in a browser stays valid.
    pub(super) fn development<E>(
        &self,
        names: &[String],
        make: impl FnOnce() -> Result<LoadedCertificate, E>,
    ) -> Result<(Arc<LoadedCertificate>, bool), E> {
        let mut table = self.development.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = table.get(names) {
            return Ok((loaded.clone(), false));
        }
        let loaded = Arc::new(make()?);
        table.insert(names.to_vec(), loaded.clone());
        Ok((loaded, true))
    }
}

impl fmt::Debug for TlsShared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsShared").finish_non_exhaustive()
    }
}

/// Certificates that prove to an ACME authority that this server controls a name.
#[derive(Debug, Default)]
pub struct Challenges {
    by_name: RwLock<HashMap<String, Arc<CertifiedKey>>>,
    /// Read for every handshake; a lock would cost too much there.
    count: AtomicUsize,
}

impl Challenges {
    /// The application protocol that identifies an ACME authority (RFC 8737 section 4).
    pub const PROTOCOL: &[u8] = b"acme-tls/1";

    /// True while there is any challenge.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<String, Arc<CertifiedKey>>)) {
        let mut table = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut table);
        self.count.store(table.len(), Ordering::Relaxed);
    }
}

impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        table.get(hello.server_name()?).cloned()
    }
}
