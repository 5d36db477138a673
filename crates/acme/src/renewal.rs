//! Decides when a certificate is renewed: at the authority's suggestion (ARI, RFC 9773), or after a share of
//! the certificate's life.

use std::time::Duration;

use aws_lc_rs::rand;
use instant_acme::{Account, CertificateIdentifier, Error};
use time::OffsetDateTime;

use super::failure::Failure;
use touchstone_config::AcmeConfig;
use touchstone_tls::LoadedCertificate;

/// The shortest and longest time between two queries to the authority (RFC 9773 section 4.3.2).
const LEAST_BETWEEN_S: i64 = 60;
const MOST_BETWEEN_S: i64 = 24 * 3600;

/// The time from a failed query to the next one.
const AFTER_FAILURE_S: i64 = 6 * 3600;

/// The latest time to renew, in percent of the certificate's life.
const LATEST_PERCENT: i64 = 95;

/// The width of the window from which a time is chosen, in percent of the certificate's life.
const WINDOW_PERCENT: i64 = 5;

/// When a certificate is renewed. All times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The certificate that this is for, in DER.
    certificate: Vec<u8>,
    window: (i64, i64),
    /// The latest time, whatever the authority suggests.
    latest_s: i64,
    /// The time.
    pub at_s: i64,
    /// When the authority is to be queried again; `None`: never.
    pub query_again_s: Option<i64>,
    /// Why the authority requests the renewal of the certificate, if it states a reason.
    pub explanation: Option<String>,
    /// The authority has data about the certificate: an order may state that it replaces this one.
    pub can_be_replaced: bool,
}

/// The authority's answer.
pub enum Suggestion {
    /// A window.
    Window {
        /// Its start and end.
        window: (i64, i64),
        /// How long the suggestion is valid.
        valid_s: i64,
        /// A page that explains it.
        explanation: Option<String>,
    },
    /// The authority makes no suggestions.
    Unsupported,
    /// The authority could not be queried.
    Failed(Failure),
}

impl Renewal {
    /// The time by the certificate's life alone.
    pub fn by_life(certificate: &LoadedCertificate, settings: &AcmeConfig, now_s: i64) -> Renewal {
        let life = (certificate.not_before_s, certificate.not_after_s);
        let window = window_of_life(life, i64::try_from(settings.renew_at_percent).unwrap_or(60));
        Renewal {
            certificate: identity(certificate),
            window,
            latest_s: window_of_life(life, LATEST_PERCENT).0,
            at_s: choose(window),
            query_again_s: settings.renewal_information.then_some(now_s),
            explanation: None,
            can_be_replaced: false,
        }
    }

    /// Whether this is for the given certificate.
    pub fn is_of(&self, certificate: &LoadedCertificate) -> bool {
        self.certificate == identity(certificate)
    }

    /// Applies the authority's answer.
    pub fn apply(&mut self, suggestion: Suggestion, now_s: i64) {
        match suggestion {
            Suggestion::Unsupported => self.query_again_s = None,
            Suggestion::Failed(_) => self.query_again_s = Some(now_s + AFTER_FAILURE_S),
            Suggestion::Window { window, valid_s, explanation } => {
                self.can_be_replaced = true;
                self.explanation = explanation;
                self.query_again_s = Some(now_s + valid_s.clamp(LEAST_BETWEEN_S, MOST_BETWEEN_S));
                // An unchanged window keeps the chosen time: repeated choices would move the time towards the
                // window's start.
                if window != self.window {
                    self.window = window;
                    self.at_s = choose(window).min(self.latest_s);
                }
            }
        }
    }
}

/// Queries the authority for the time at which it suggests the renewal.
pub async fn query(account: &Account, certificate: &LoadedCertificate) -> Suggestion {
    let identifier = match identifier(certificate) {
        Some(identifier) => identifier,
        None => return Suggestion::Unsupported,
    };
    match account.renewal_info(&identifier).await {
        Ok((information, valid)) => {
            let window = information.suggested_window;
            let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
            if end < start {
                // RFC 9773 section 4.2: such a window is ignored.
                return Suggestion::Failed(Failure::Own("its window ends before it begins".to_string()));
            }
            let valid_s = i64::try_from(valid.as_secs()).unwrap_or(MOST_BETWEEN_S);
            Suggestion::Window { window: (start, end), valid_s, explanation: information.explanation_url }
        }
        Err(Error::Unsupported(_)) => Suggestion::Unsupported,
        Err(error) => Suggestion::Failed(error.into()),
    }
}

/// The name of a certificate in queries and orders; `None` if the certificate does not name its authority's
/// key.
pub fn identifier(certificate: &LoadedCertificate) -> Option<CertificateIdentifier<'static>> {
    let first = certificate.certified.cert.first()?;
    CertificateIdentifier::try_from(first).ok().map(CertificateIdentifier::into_owned)
}

/// The current time, in seconds since 1970.
pub fn now_s() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

/// A duration that varies by up to a tenth, so that many servers do not send queries together.
pub fn spread(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fraction())
}

fn window_of_life((begin, end): (i64, i64), percent: i64) -> (i64, i64) {
    let life = i128::from(end) - i128::from(begin);
    let part = |percent: i64| {
        let moment = i128::from(begin) + life * i128::from(percent) / 100;
        i64::try_from(moment).unwrap_or(end)
    };
    (part(percent), part(percent + WINDOW_PERCENT))
}

/// A time in a window, with equal probability for all (RFC 9773 section 4.2).
fn choose((start, end): (i64, i64)) -> i64 {
    // Windows are days or months long; the fraction is exact far beyond that.
    start.saturating_add((end.saturating_sub(start) as f64 * fraction()) as i64)
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness no secret is lost: it only spreads load.
    let _ = rand::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

fn identity(certificate: &LoadedCertificate) -> Vec<u8> {
    certificate.certified.cert.first().map_or(Vec::new(), |first| first.as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn renewal(window: (i64, i64)) -> Renewal {
        Renewal {
            certificate: Vec::new(),
            window,
            latest_s: 2_000_000,
            at_s: choose(window),
            query_again_s: Some(0),
            explanation: None,
            can_be_replaced: false,
        }
    }

    fn suggestion(window: (i64, i64), valid_s: i64) -> Suggestion {
        Suggestion::Window { window, valid_s, explanation: None }
    }

    #[test]
    fn the_window_of_a_life() {
        let day = 24 * 3600;
        assert_eq!(window_of_life((0, 90 * day), 60), (54 * day, 54 * day + 90 * day / 20));
        assert_eq!(window_of_life((1000, 1100), 1), (1001, 1006));
    }

    #[test]
    fn the_moment_stays_while_the_window_does() {
        let mut renewal = renewal((0, 1_000_000));
        let before = renewal.at_s;
        for _ in 0..50 {
            renewal.apply(suggestion((0, 1_000_000), 3600), 10);
            assert_eq!(renewal.at_s, before);
        }
        assert!(renewal.can_be_replaced);
        assert_eq!(renewal.query_again_s, Some(3610));
        renewal.apply(suggestion((5, 5), 3600), 10);
        assert_eq!(renewal.at_s, 5);
        // The suggestion of an authority that would let the certificate expire is not followed.
        renewal.apply(suggestion((3_000_000, 4_000_000), 3600), 10);
        assert_eq!(renewal.at_s, 2_000_000);
    }

    #[test]
    fn how_often_the_authority_is_asked() {
        let mut renewal = renewal((0, 10));
        renewal.apply(suggestion((0, 10), 0), 100);
        assert_eq!(renewal.query_again_s, Some(100 + LEAST_BETWEEN_S));
        renewal.apply(suggestion((0, 10), i64::MAX), 100);
        assert_eq!(renewal.query_again_s, Some(100 + MOST_BETWEEN_S));
        renewal.apply(Suggestion::Failed(Failure::Own(String::new())), 100);
        assert_eq!(renewal.query_again_s, Some(100 + AFTER_FAILURE_S));
        renewal.apply(Suggestion::Unsupported, 100);
        assert_eq!(renewal.query_again_s, None);
    }

    proptest! {
        #[test]
        fn a_moment_lies_in_its_window(
            start in -1_000_000_000i64..4_000_000_000,
            length in 0i64..100_000_000,
        ) {
            let moment = choose((start, start + length));
            prop_assert!((start..=start + length).contains(&moment));
        }

        #[test]
        fn no_certificate_makes_it_overflow(begin: i64, end: i64, percent in 1i64..=90) {
            let window = window_of_life((begin, end), percent);
            choose(window);
        }
    }
}
