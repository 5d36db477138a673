//! One order, from its creation to the certificate (RFC 8555 section 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::authority::Authority;
use super::challenge::Offer;
use super::client::AuthorityClient;
use super::dns_proof::{self, DnsProofs};
use super::failure::{Failure, problem_text};
use super::persistent_record::Issuer;
use super::renewal;
use super::shared::{SharedProof, SharedProofs};
use touchstone_config::{AcmeChallenge, host_address};
use touchstone_dns::Resolver;
use touchstone_tls::LoadedCertificate;

/// The schedule for polling the authority.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// The content of an order.
pub struct CertificateOrder<'a> {
    /// The host names and addresses.
    pub names: &'a [String],
    /// The preferred challenge type.
    pub challenge: AcmeChallenge,
    /// The certificate that this one replaces.
    pub replaces: Option<CertificateIdentifier<'static>>,
}

/// A checked certificate with its key.
pub struct IssuedCertificate {
    /// Both as they are stored: PEM.
    pub pem: String,
    /// The parsed certificate.
    pub certificate: LoadedCertificate,
}

/// Gets a certificate.
pub async fn obtain(
    authority: &Authority,
    account: &Account,
    client: &AuthorityClient,
    certificate_order: CertificateOrder<'_>,
) -> Result<IssuedCertificate, Failure> {
    let identifiers: Vec<Identifier> = certificate_order.names.iter().map(|name| identifier(name)).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaces) = certificate_order.replaces.clone() {
        new = new.replaces(replaces);
    }
    let profile = profile(&authority.settings.profile, &identifiers, account);
    if !profile.is_empty() {
        new = new.profile(&profile);
    }
    let mut order = account.new_order(&new).await?;
    let issuer = Issuer { account: account.id().to_string(), names: Vec::new() };
    let shared = authority.leases.clone().map(SharedProofs::new);
    let proofs = Proofs { authority, client, issuer, offers: Vec::new(), shared, dns: None };
    prove(&mut order, certificate_order.challenge, proofs).await?;
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLING).await?;
    check(key, &chain, certificate_order.names, authority.offers.tls.provider()).map_err(Failure::Own)
}

fn identifier(name: &str) -> Identifier {
    match host_address(name) {
        Some(address) => Identifier::Ip(address),
        None => Identifier::Dns(name.to_string()),
    }
}

/// The profile to request; empty: the authority's default. Certificates for addresses are short-lived at
/// authorities that have such a profile.
fn profile(configured: &str, identifiers: &[Identifier], account: &Account) -> String {
    const FOR_ADDRESSES: &str = "shortlived";
    let has_address = identifiers.iter().any(|identifier| matches!(identifier, Identifier::Ip(_)));
    let is_offered = || account.profiles().any(|profile| profile.name == FOR_ADDRESSES);
    match configured.is_empty() && has_address && is_offered() {
        true => FOR_ADDRESSES.to_string(),
        false => configured.to_string(),
    }
}

/// The proofs of one order.
struct Proofs<'a> {
    authority: &'a Authority,
    client: &'a AuthorityClient,
    issuer: Issuer,
    offers: Vec<Offer>,
    /// The same for the machines that share certificates.
    shared: Option<SharedProofs>,
    dns: Option<DnsProofs>,
}

/// Proves that this server serves all names. The proofs are published until the authority has decided.
async fn prove(order: &mut Order, challenge: AcmeChallenge, mut proofs: Proofs<'_>) -> Result<(), Failure> {
    let result = match proofs.offer_all(order, challenge).await {
        Ok(()) => order.poll_ready(&POLLING).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let outcome = match result {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
        Err(failure @ (Failure::Challenge { .. } | Failure::Own(_))) => Err(failure),
        other => {
            let reason = refusals(order).await;
            match (reason.is_empty(), other) {
                (false, _) => Err(Failure::Challenge { challenge, reason, is_refused: true }),
                (true, Err(failure)) => Err(failure),
                (true, Ok(_)) => {
                    Err(Failure::Own("the authority abandoned the order without a reason".into()))
                }
            }
        }
    };
    if let Some(dns) = &mut proofs.dns {
        dns.remove().await;
    }
    outcome
}

impl Proofs<'_> {
    /// Publishes the proofs of all names, and then notifies the authority.
    async fn offer_all(&mut self, order: &mut Order, challenge: AcmeChallenge) -> Result<(), Failure> {
        let mut chosen = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            // A proof that is still valid is not repeated.
            if authorization.status == AuthorizationStatus::Valid {
                chosen.push(None);
                continue;
            }
            let challenge = self.challenge_for(&authorization, challenge);
            let host = host_of(&authorization);
            let other_kinds: Vec<String> =
                authorization.challenges.iter().map(|offered| kind_name(&offered.r#type)).collect();
            let Some(handle) = authorization.challenge(challenge_type(challenge)) else {
                let reason =
                    format!("{host}: it does not offer this challenge, only {}", other_kinds.join(", "));
                return Err(Failure::Challenge { challenge, reason, is_refused: false });
            };
            self.publish(challenge, &host, &handle).await?;
            chosen.push(Some(challenge));
        }
        self.wait_until_published().await?;
        let mut authorizations = order.authorizations();
        for challenge in chosen {
            let Some(authorization) = authorizations.next().await else { break };
            let mut authorization = authorization?;
            let Some(challenge) = challenge else { continue };
            if let Some(mut handle) = authorization.challenge(challenge_type(challenge)) {
                handle.set_ready().await?;
            }
        }
        Ok(())
    }

    /// The type for one name: wildcards need a proof in DNS, and addresses cannot have it.
    fn challenge_for(&self, of: &AuthorizationHandle<'_>, preferred: AcmeChallenge) -> AcmeChallenge {
        let identifier = of.identifier();
        let needs_dns = identifier.wildcard;
        let is_address = matches!(identifier.identifier, Identifier::Ip(_));
        let fits = |challenge: AcmeChallenge| match challenge.is_in_dns() {
            true => !is_address,
            false => !needs_dns,
        };
        if fits(preferred) {
            return preferred;
        }
        let others = &self.authority.settings.challenges;
        others.iter().copied().find(|other| fits(*other)).unwrap_or(preferred)
    }

    async fn publish(
        &mut self,
        challenge: AcmeChallenge,
        host: &str,
        handle: &ChallengeHandle<'_>,
    ) -> Result<(), Failure> {
        let settings = &self.authority.settings;
        let refused = |reason| Failure::Challenge { challenge, reason, is_refused: false };
        let proof = handle.key_authorization();
        match challenge {
            AcmeChallenge::Http01 => {
                self.offers.push(self.authority.offers.http(host, &handle.token, proof.as_str()));
                self.share(SharedProof::http(host, &handle.token, proof.as_str())).await?;
            }
            AcmeChallenge::TlsAlpn01 => {
                let offer = self.authority.offers.tls(host, proof.digest().as_ref());
                self.offers.push(offer.map_err(Failure::Own)?);
                self.share(SharedProof::tls(host, proof.digest().as_ref())).await?;
            }
            AcmeChallenge::Dns01 => {
                let dns = match &mut self.dns {
                    Some(dns) => dns,
                    None => {
                        let settings = settings.dns.as_ref();
                        let settings = settings.ok_or_else(|| refused("acme.dns is not set".to_string()))?;
                        self.dns.insert(DnsProofs::new(settings, &self.authority.error_log).map_err(refused)?)
                    }
                };
                let bare = host.strip_prefix("*.").unwrap_or(host);
                let published = dns.publish(bare, &proof.dns_value()).await;
                published.map_err(|reason| refused(format!("{host}: {reason}")))?;
            }
            AcmeChallenge::DnsPersist01 => {
                let resolver = settings.dns.as_ref().map_or_else(Resolver::of_system, dns_proof::resolver);
                self.issuer.names = self.client.issuer_names();
                // It is for the check of the configuration only.
                let _ = self.authority.storage.note_issuer(&self.issuer);
                // Without a resolver only the authority checks the record.
                if let Ok(resolver) = resolver {
                    self.issuer.check(host, &resolver).await.map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    async fn share(&mut self, proof: SharedProof) -> Result<(), Failure> {
        match &mut self.shared {
            Some(shared) => shared.publish(proof).await.map_err(Failure::Own),
            None => Ok(()),
        }
    }

    async fn wait_until_published(&self) -> Result<(), Failure> {
        if let Some(shared) = &self.shared {
            shared.wait_until_shown().await;
        }
        let Some(dns) = &self.dns else { return Ok(()) };
        dns.wait_until_shown().await.map_err(|reason| Failure::Challenge {
            challenge: AcmeChallenge::Dns01,
            reason,
            is_refused: false,
        })
    }
}

/// Why names could not be verified; empty if that was not the problem.
async fn refusals(order: &mut Order) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        // If the state cannot be read again, the earlier error is reported.
        let _ = authorization.refresh().await;
        let host = host_of(&authorization);
        let problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(problems.map(|problem| format!("{host}: {}", problem_text(problem))));
    }
    reasons.join("; ")
}

fn host_of(authorization: &AuthorizationHandle<'_>) -> String {
    authorization.identifier().to_string().to_ascii_lowercase()
}

fn challenge_type(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
        AcmeChallenge::DnsPersist01 => ChallengeType::Unknown(challenge.name().to_string()),
    }
}

fn kind_name(kind: &ChallengeType) -> String {
    match kind {
        ChallengeType::Http01 => "http-01".to_string(),
        ChallengeType::Dns01 => "dns-01".to_string(),
        ChallengeType::TlsAlpn01 => "tls-alpn-01".to_string(),
        ChallengeType::Unknown(name) => name.clone(),
        other => format!("{other:?}"),
    }
}

/// Checks the certificate from the authority before it replaces the present one.
fn check(
    key: String,
    chain: &str,
    names: &[String],
    provider: &CryptoProvider,
) -> Result<IssuedCertificate, String> {
    let unusable =
        |reason: &dyn std::fmt::Display| format!("the authority issued an unusable certificate: {reason}");
    let certificates = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&error))?;
    let private_key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?;
    let origin = "the new certificate".to_string();
    let certificate = LoadedCertificate::from_der(origin, certificates, private_key, provider)
        .map_err(|error| unusable(&format_args!("{error:?}")))?;
    if let Some(name) = names.iter().find(|name| !certificate.is_for(name)) {
        return Err(unusable(&format_args!("it is not for {name}")));
    }
    if certificate.not_after_s <= renewal::now_s() {
        return Err(unusable(&format_args!("it expired on {}", certificate.end_day())));
    }
    Ok(IssuedCertificate { pem: format!("{}\n{}", key.trim_end(), chain.trim_start()), certificate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use touchstone_tls::TlsShared;

    fn made(name: &str, until: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        (key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    #[test]
    fn what_an_authority_gives_is_checked() {
        let shared = TlsShared::new();
        let check = |key: &str, chain: &str, name: &str| {
            check(key.to_string(), chain, &[name.to_string()], shared.provider()).map(|issued| issued.pem)
        };
        let (key, chain) = made("a.org", 2099);
        let pem = check(&key, &chain, "a.org").unwrap();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "{pem}");
        assert!(pem.trim_end().ends_with("-----END CERTIFICATE-----"), "{pem}");
        assert!(check(&key, &chain, "b.org").unwrap_err().contains("it is not for b.org"));
        let (other_key, _) = made("a.org", 2099);
        assert!(check(&other_key, &chain, "a.org").unwrap_err().contains("Mismatch"));
        let (old_key, old) = made("a.org", 2001);
        assert!(check(&old_key, &old, "a.org").unwrap_err().contains("it expired on 2001-01-01"));
        for damaged in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(check(&key, damaged, "a.org").unwrap_err().contains("unusable"), "{damaged}");
        }
    }
}
