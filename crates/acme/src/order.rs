//! One order, from its creation to the certificate (RFC 8555 section 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::challenge::{Offer, Offers};
use super::failure::{Failure, problem_text};
use super::renewal;
use touchstone_config::AcmeChallenge;
use touchstone_tls::LoadedCertificate;

/// The schedule for polling the authority.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// The content of an order.
pub struct CertificateOrder<'a> {
    /// The host names.
    pub names: &'a [String],
    /// The challenge type for all of them.
    pub challenge: AcmeChallenge,
    /// The certificate profile; empty: the authority's default.
    pub profile: &'a str,
    /// The certificate that this one replaces.
    pub replaces: Option<CertificateIdentifier<'static>>,
}

/// A checked certificate with its key.
pub struct Issued {
    /// Both as they are stored: PEM.
    pub pem: String,
    /// The parsed certificate.
    pub certificate: LoadedCertificate,
}

/// Gets a certificate.
pub async fn obtain(
    account: &Account,
    wanted: CertificateOrder<'_>,
    offers: &Offers,
) -> Result<Issued, Failure> {
    let identifiers: Vec<Identifier> =
        wanted.names.iter().map(|name| Identifier::Dns(name.clone())).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaces) = wanted.replaces {
        new = new.replaces(replaces);
    }
    if !wanted.profile.is_empty() {
        new = new.profile(wanted.profile);
    }
    let mut order = account.new_order(&new).await?;
    prove(&mut order, wanted.challenge, offers).await?;
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLING).await?;
    check(key, &chain, wanted.names, offers.tls.provider()).map_err(Failure::Own)
}

/// Proves that all names lead to this server. The proofs are published until the authority has decided.
async fn prove(order: &mut Order, challenge: AcmeChallenge, offers: &Offers) -> Result<(), Failure> {
    let mut on_offer = Vec::new();
    let result = match offer_proofs(order, challenge, offers, &mut on_offer).await {
        Ok(()) => order.poll_ready(&POLLING).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    match result {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
        Err(failure @ (Failure::Challenge { .. } | Failure::Own(_))) => Err(failure),
        other => {
            let reason = refusals(order).await;
            match (reason.is_empty(), other) {
                (false, _) => Err(Failure::Challenge { challenge, reason }),
                (true, Err(failure)) => Err(failure),
                (true, Ok(_)) => {
                    Err(Failure::Own("the authority abandoned the order without a reason".into()))
                }
            }
        }
    }
}

async fn offer_proofs(
    order: &mut Order,
    challenge: AcmeChallenge,
    offers: &Offers,
    on_offer: &mut Vec<Offer>,
) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        // A proof that is still valid need not be repeated.
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let host = host_of(&authorization);
        let other_kinds: Vec<String> =
            authorization.challenges.iter().map(|offered| kind_name(&offered.r#type)).collect();
        let Some(mut handle) = authorization.challenge(challenge_type(challenge)) else {
            let reason = format!("{host}: it does not offer this challenge, only {}", other_kinds.join(", "));
            return Err(Failure::Challenge { challenge, reason });
        };
        let proof = handle.key_authorization();
        on_offer.push(match challenge {
            AcmeChallenge::Http01 => offers.http(&host, &handle.token, proof.as_str()),
            AcmeChallenge::TlsAlpn01 => offers.tls(&host, proof.digest().as_ref()).map_err(Failure::Own)?,
        });
        handle.set_ready().await?;
    }
    Ok(())
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
fn check(key: String, chain: &str, names: &[String], provider: &CryptoProvider) -> Result<Issued, String> {
    let unusable =
        |reason: &dyn std::fmt::Display| format!("the authority gave an unusable certificate: {reason}");
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
    Ok(Issued { pem: format!("{}\n{}", key.trim_end(), chain.trim_start()), certificate })
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
