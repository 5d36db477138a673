//! The files that an endpoint reads and watches: certificates with their keys, and authorities of clients.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use time::OffsetDateTime;

use super::certificate::{Age, LoadedCertificate};
use super::client_authorities::LoadedAuthorities;
use super::notice::Notice;
use super::pem::PemProblem;
use super::self_signed::development_certificate;
use super::settings::{CertificateSource, ClientAuthorities, EndpointSettings};
use super::shared::TlsShared;
use super::watched::{WatchResult, WatchedValue};

/// All certificates and authorities of an endpoint.
pub struct Sources {
    /// The certificates of each site.
    pub certificates: Vec<Vec<CertificateState>>,
    /// The authorities of each different policy that has any.
    authorities: Vec<(ClientAuthorities, WatchedValue<Arc<LoadedAuthorities>>)>,
}

/// One certificate.
pub struct CertificateState {
    origin: CertificateOrigin,
    /// The age that was last reported.
    last_notice: Option<(i64, Age)>,
}

enum CertificateOrigin {
    Fixed(Arc<LoadedCertificate>),
    Files { label: String, chain: PathBuf, key: PathBuf, watched: WatchedValue<Arc<LoadedCertificate>> },
}

impl CertificateState {
    /// The certificate, if it has been loaded.
    pub fn loaded(&self) -> Option<&Arc<LoadedCertificate>> {
        match &self.origin {
            CertificateOrigin::Fixed(loaded) => Some(loaded),
            CertificateOrigin::Files { watched, .. } => watched.value(),
        }
    }
}

impl Sources {
    /// Reads everything for the first time.
    pub fn open(
        settings: &EndpointSettings,
        shared: &TlsShared,
        notices: &mut Vec<Notice>,
        problems: &mut Vec<String>,
    ) -> Sources {
        let mut sources = Sources { certificates: Vec::new(), authorities: Vec::new() };
        for site in &settings.sites {
            let mut states = Vec::new();
            for source in &site.certificates {
                match open_certificate(&site.label, source, shared, notices) {
                    Ok(origin) => states.push(CertificateState { origin, last_notice: None }),
                    Err(problem) => problems.push(format!("site {}: {problem}", site.label)),
                }
            }
            sources.certificates.push(states);
            if let Some(authorities) = &site.policy.client_authorities
                && !sources.authorities.iter().any(|(known, _)| known == authorities)
            {
                match open_authorities(authorities, &shared.provider) {
                    Ok(watched) => sources.authorities.push((authorities.clone(), watched)),
                    Err(problem) => problems.push(format!("site {}: {problem}", site.label)),
                }
            }
        }
        sources
    }

    /// Checks all files; true when something has changed.
    pub fn check(&mut self, provider: &Arc<CryptoProvider>, notices: &mut Vec<Notice>) -> bool {
        let mut changed = false;
        for state in self.certificates.iter_mut().flatten() {
            let CertificateOrigin::Files { label, chain, key, watched } = &mut state.origin else { continue };
            let had_one = watched.value().is_some();
            match watched.check(|| LoadedCertificate::from_files(chain, key, provider).map(Arc::new)) {
                WatchResult::Same => {}
                WatchResult::Renewed => {
                    changed = true;
                    report_renewed(label, watched.value(), notices);
                }
                WatchResult::Refused(problem) => {
                    let meanwhile =
                        if had_one { "the previous certificate stays" } else { "there is none yet" };
                    notices.push(Notice::warning(format!("site {label}: {problem}; {meanwhile}")));
                }
            }
        }
        for (settings, watched) in &mut self.authorities {
            match watched.check(|| LoadedAuthorities::from_files(settings, provider).map(Arc::new)) {
                WatchResult::Same => {}
                WatchResult::Renewed => {
                    changed = true;
                    let file = settings.authorities.display();
                    notices.push(Notice::info(format!(
                        "authorities for client certificates reloaded from {file}"
                    )));
                }
                WatchResult::Refused(problem) => {
                    notices.push(Notice::warning(format!("{problem}; the previous authorities stay")));
                }
            }
        }
        changed
    }

    /// Reports the age of each certificate, once for each certificate and age.
    pub fn report_ages(&mut self, notices: &mut Vec<Notice>) {
        let now_s = OffsetDateTime::now_utc().unix_timestamp();
        for state in self.certificates.iter_mut().flatten() {
            let Some(loaded) = state.loaded().cloned() else { continue };
            let now = (loaded.not_after_s, loaded.age(now_s));
            if state.last_notice == Some(now) {
                continue;
            }
            state.last_notice = Some(now);
            let origin = &loaded.origin;
            match now.1 {
                Age::Valid => {}
                Age::Early => {
                    let begin = loaded.begin_day();
                    notices.push(Notice::warning(format!(
                        "{origin}: the certificate is not valid before {begin}"
                    )));
                }
                Age::EndsSoon => {
                    let end = loaded.end_day();
                    notices.push(Notice::warning(format!(
                        "{origin}: the certificate expires on {end}: renew it"
                    )));
                }
                Age::Expired => {
                    let end = loaded.end_day();
                    let text =
                        format!("{origin}: the certificate expired on {end}: clients refuse it; renew it");
                    notices.push(Notice::warning(text));
                }
            }
        }
    }

    /// The authorities that were read for these settings.
    pub fn authorities(&self, settings: &ClientAuthorities) -> Option<&Arc<LoadedAuthorities>> {
        self.authorities.iter().find(|(known, _)| known == settings).and_then(|(_, watched)| watched.value())
    }
}

fn open_certificate(
    label: &str,
    source: &CertificateSource,
    shared: &TlsShared,
    notices: &mut Vec<Notice>,
) -> Result<CertificateOrigin, String> {
    match source {
        CertificateSource::Files { chain, key, may_be_absent } => {
            let files = vec![chain.clone(), key.clone()];
            let make = || LoadedCertificate::from_files(chain, key, &shared.provider).map(Arc::new);
            let watched = match WatchedValue::open(files.clone(), make) {
                Ok(watched) => watched,
                Err(problem) if *may_be_absent => {
                    notices.push(Notice::info(format!("site {label} has no certificate yet: {problem}")));
                    WatchedValue::waiting(files)
                }
                Err(problem) => return Err(problem.to_string()),
            };
            if let Some(loaded) = watched.value() {
                notices.extend(loaded.warnings.iter().cloned().map(Notice::warning));
            }
            let (chain, key) = (chain.clone(), key.clone());
            Ok(CertificateOrigin::Files { label: label.to_string(), chain, key, watched })
        }
        CertificateSource::SelfSigned { names, directory } => {
            open_self_signed(label, names, directory.as_ref(), shared, notices).map(CertificateOrigin::Fixed)
        }
    }
}

fn open_self_signed(
    label: &str,
    names: &[String],
    directory: Option<&PathBuf>,
    shared: &TlsShared,
    notices: &mut Vec<Notice>,
) -> Result<Arc<LoadedCertificate>, String> {
    let make = || {
        development_certificate(
            names,
            directory.map(PathBuf::as_path),
            &shared.provider,
            OffsetDateTime::now_utc(),
        )
    };
    if directory.is_some() {
        let certificate = make().map_err(|error| error.to_string())?;
        let what = if certificate.is_new { "was made" } else { "is used again" };
        notices.push(Notice::info(format!(
            "site {label}: a development certificate {what}: {}; browsers trust it only when told to",
            certificate.loaded.origin
        )));
        return Ok(Arc::new(certificate.loaded));
    }
    let (loaded, is_new) =
        shared.development(names, || make().map(|made| made.loaded)).map_err(|error| error.to_string())?;
    if is_new {
        notices.push(Notice::info(format!(
            "site {label}: a development certificate was made, which ends with this process; \
             browsers do not trust it"
        )));
    }
    Ok(loaded)
}

fn open_authorities(
    settings: &ClientAuthorities,
    provider: &Arc<CryptoProvider>,
) -> Result<WatchedValue<Arc<LoadedAuthorities>>, PemProblem> {
    let mut files = vec![settings.authorities.clone()];
    files.extend(settings.revocation_lists.iter().cloned());
    WatchedValue::open(files, || LoadedAuthorities::from_files(settings, provider).map(Arc::new))
}

fn report_renewed(label: &str, loaded: Option<&Arc<LoadedCertificate>>, notices: &mut Vec<Notice>) {
    let Some(loaded) = loaded else { return };
    let (origin, end) = (&loaded.origin, loaded.end_day());
    notices.push(Notice::info(format!("site {label}: new certificate {origin} loaded, valid until {end}")));
    notices.extend(loaded.warnings.iter().cloned().map(Notice::warning));
}
