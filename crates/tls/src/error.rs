//! Why a TLS session ended, in terms that help the operator.

use std::fmt;

use rustls::{AlertDescription, Error, PeerIncompatible};

/// Why a session ended. The alert for the client, if any, is already in the output; send it and close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsError {
    /// The client uses HTTP without TLS: answer without encryption, with a 400 that states this.
    /// [`TlsSession::received_in_clear`] has the bytes that it sent.
    PlainHttp,
    /// The client ended it with an alert: for example because it does not trust the certificate.
    EndedByClient(AlertDescription),
    /// Client and server have nothing in common: version, cipher suite, group, or application protocol.
    NothingInCommon(String),
    /// The client sent no certificate although one is required, or one that is not trusted.
    ClientCertificate(String),
    /// There is no certificate for the name that the client requested.
    NoCertificate,
    /// The client broke the protocol.
    Broken(String),
    /// The client sent more than a limit allows before the handshake was complete.
    TooMuch,
    /// The keys of a TLS 1.2 session have been used as often as is safe.
    KeysUsedUp,
    /// The call needs an open session, but this one is not open yet or has ended.
    NotOpen,
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::PlainHttp => formatter.write_str("the client speaks HTTP without TLS"),
            TlsError::EndedByClient(alert) => write!(formatter, "the client ended the session: {alert:?}"),
            TlsError::NothingInCommon(what) => write!(formatter, "nothing in common with the client: {what}"),
            TlsError::ClientCertificate(what) => write!(formatter, "client certificate: {what}"),
            TlsError::NoCertificate => {
                formatter.write_str("no certificate for the name that the client requested")
            }
            TlsError::Broken(what) => write!(formatter, "the client broke the protocol: {what}"),
            TlsError::TooMuch => {
                formatter.write_str("the client sent too much before its handshake was complete")
            }
            TlsError::KeysUsedUp => formatter.write_str("the keys must not be used any more"),
            TlsError::NotOpen => formatter.write_str("the session is not open"),
        }
    }
}

impl std::error::Error for TlsError {}

impl TlsError {
    /// The label in counters.
    pub fn kind(&self) -> &'static str {
        match self {
            TlsError::PlainHttp => "plain_http",
            TlsError::EndedByClient(_) => "ended_by_client",
            TlsError::NothingInCommon(_) => "nothing_in_common",
            TlsError::ClientCertificate(_) => "client_certificate",
            TlsError::NoCertificate => "no_certificate",
            TlsError::Broken(_) => "broken",
            TlsError::TooMuch => "too_much",
            TlsError::KeysUsedUp => "keys_used_up",
            TlsError::NotOpen => "not_open",
        }
    }
}

/// The meaning of an error of rustls for the operator.
pub(super) fn classify(error: rustls::Error) -> TlsError {
    match error {
        Error::AlertReceived(alert) => TlsError::EndedByClient(alert),
        Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            TlsError::ClientCertificate("none that the server can verify".to_string())
        }
        Error::PeerIncompatible(what) => TlsError::NothingInCommon(format!("{what:?}")),
        Error::NoApplicationProtocol => TlsError::NothingInCommon("NoApplicationProtocol".to_string()),
        Error::InvalidCertificate(what) => {
            let text = format!("{what:?}");
            TlsError::ClientCertificate(match text.contains("UnsupportedCertVersion") {
                true => "one of X.509 version 1; it must be of version 3".to_string(),
                false => text,
            })
        }
        Error::NoCertificatesPresented => TlsError::ClientCertificate("the client sent none".to_string()),
        Error::InvalidCertRevocationList(what) => TlsError::ClientCertificate(format!("{what:?}")),
        // The error of rustls when the table has no certificate for the name.
        Error::General(what) if what == "no server certificate chain resolved" => TlsError::NoCertificate,
        other => TlsError::Broken(other.to_string()),
    }
}
