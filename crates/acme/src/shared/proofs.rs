//! Proofs for the authority that every machine shows, because the authority may reach any of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use touchstone_observe::log::error::ErrorLog;

use super::lease::Leases;
use super::store::SharedStore;
use crate::challenge::{Offer, Offers};
use crate::renewal::now_s;

/// The pause between two searches for proofs of other machines.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

/// How long to wait until all machines have read a proof.
const SPREAD_TIME: Duration = Duration::from_millis(1500);

/// The age at which a proof is regarded as one of a machine that has ended.
const MOST_AGE_S: i64 = 3600;

/// A proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedProof {
    /// The host name or address that is proved.
    pub host: String,
    /// The token of HTTP-01; empty for TLS-ALPN-01.
    pub token: String,
    /// The key authorization, or in base64 its digest for TLS-ALPN-01.
    pub proof: String,
    /// The process that makes the order.
    owner: String,
    /// When it was published, in seconds since 1970.
    created_s: i64,
}

impl SharedProof {
    /// A proof in plain HTTP.
    pub fn http(host: &str, token: &str, key_authorization: &str) -> SharedProof {
        SharedProof {
            host: host.to_string(),
            token: token.to_string(),
            proof: key_authorization.to_string(),
            owner: String::new(),
            created_s: now_s(),
        }
    }

    /// A proof in TLS handshakes.
    pub fn tls(host: &str, digest: &[u8]) -> SharedProof {
        SharedProof::http(host, "", &BASE64_STANDARD.encode(digest))
    }

    fn key(&self) -> String {
        match self.token.is_empty() {
            true => format!("proofs/tls-{}", self.host.replace(':', "+")),
            false => format!("proofs/http-{}", self.token),
        }
    }

    /// Shows it on this machine.
    fn offer(&self, offers: &Offers) -> Option<Offer> {
        if !self.token.is_empty() {
            return Some(offers.http(&self.host, &self.token, &self.proof));
        }
        let digest = BASE64_STANDARD.decode(&self.proof).ok()?;
        offers.tls(&self.host, &digest).ok()
    }
}

/// The proofs of one order. They are removed when this is dropped.
pub struct SharedProofs {
    leases: Arc<Leases>,
    published: Vec<(String, u64)>,
}

impl SharedProofs {
    /// None yet.
    pub fn new(leases: Arc<Leases>) -> SharedProofs {
        SharedProofs { leases, published: Vec::new() }
    }

    /// Publishes one for the other machines.
    pub async fn publish(&mut self, mut proof: SharedProof) -> Result<(), String> {
        proof.owner = self.leases.owner().to_string();
        let (key, bytes) = (proof.key(), serde_json::to_vec(&proof).map_err(|error| error.to_string())?);
        let store = self.leases.store();
        let before = store.get(&key).await?.map(|stored| stored.revision);
        match store.replace(&key, &bytes, before).await? {
            Some(revision) => self.published.push((key, revision)),
            None => return Err(format!("another machine proves {} at the same time", proof.host)),
        }
        Ok(())
    }

    /// Waits until the other machines show them.
    pub async fn wait_until_shown(&self) {
        if !self.published.is_empty() {
            tokio::time::sleep(SPREAD_TIME).await;
        }
    }
}

impl Drop for SharedProofs {
    fn drop(&mut self) {
        let published = std::mem::take(&mut self.published);
        if let (false, Ok(runtime)) = (published.is_empty(), tokio::runtime::Handle::try_current()) {
            let store = self.leases.store().clone();
            runtime.spawn(async move {
                for (key, revision) in published {
                    // One that stays is removed when it is old.
                    let _ = store.remove(&key, revision).await;
                }
            });
        }
    }
}

/// Shows the proofs of other machines, without an end.
pub async fn follow_proofs(leases: Arc<Leases>, offers: Offers, error_log: ErrorLog) {
    let mut shown: HashMap<String, (u64, Option<Offer>)> = HashMap::new();
    loop {
        match leases.store().list("proofs/").await {
            Ok(present) => {
                shown.retain(|key, (revision, _)| {
                    present.iter().any(|(known, stored)| known == key && stored.revision == *revision)
                });
                for (key, stored) in present {
                    if shown.contains_key(&key) {
                        continue;
                    }
                    let offer = match serde_json::from_slice::<SharedProof>(&stored.bytes) {
                        Ok(proof) if proof.owner == leases.owner() => None,
                        Ok(proof) if now_s() - proof.created_s > MOST_AGE_S => {
                            remove_old(leases.store(), &key, stored.revision).await;
                            None
                        }
                        Ok(proof) => proof.offer(&offers),
                        // A newer version of the server may write others.
                        Err(_) => None,
                    };
                    shown.insert(key, (stored.revision, offer));
                }
            }
            Err(reason) => error_log.failing("acme: the shared storage", reason),
        }
        tokio::time::sleep(CHECK_PAUSE).await;
    }
}

async fn remove_old(store: &SharedStore, key: &str, revision: u64) {
    // Another machine may have removed it.
    let _ = store.remove(key, revision).await;
}
