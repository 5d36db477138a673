//! The TXT record of DNS-PERSIST-01 (draft-ietf-acme-dns-persist): the operator sets it once, and it names
//! the authority and the account that may have certificates for the name.

use touchstone_dns::{Name, Resolver};

/// The label in front of the name.
const LABEL: &str = "_validation-persist";

/// The account, and the names of its authority in records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Issuer {
    /// The URL of the account.
    pub account: String,
    /// The authority's names (`caaIdentities`).
    pub names: Vec<String>,
}

impl Issuer {
    /// The record that allows certificates for a host, as a line of a zone file; `None` if the authority's
    /// name is unknown.
    pub fn record_for(&self, host: &str) -> Option<String> {
        let name = self.names.first()?;
        let (host, policy) = match host.strip_prefix("*.") {
            Some(parent) => (parent, "; policy=wildcard"),
            None => (host, ""),
        };
        let account = &self.account;
        Some(format!("{LABEL}.{host}. IN TXT \"{name}; accounturi={account}{policy}\""))
    }

    /// Checks that a record allows certificates for the host. The error has the record to set. Servers that
    /// do not answer are no error: the authority checks the record itself.
    pub async fn check(&self, host: &str, resolver: &Resolver) -> Result<(), String> {
        let is_wildcard = host.starts_with("*.");
        let bare = Name::parse(host.strip_prefix("*.").unwrap_or(host))?;
        let mut place = Some(bare.clone());
        while let Some(name) = place.filter(|name| !name.is_root()) {
            let Ok(texts) = resolver.texts(&name.below(LABEL)?).await else { return Ok(()) };
            // A record above the name allows it only with the policy of wildcards.
            let needs_policy = is_wildcard || name != bare;
            if texts.iter().any(|text| self.is_allowed_by(text, needs_policy)) {
                return Ok(());
            }
            place = name.parent();
        }
        match self.record_for(host) {
            Some(record) => Err(format!("{host}: set this record in DNS, once: {record}")),
            None => Ok(()),
        }
    }

    /// Whether a record names this account, and an authority of these names.
    fn is_allowed_by(&self, text: &str, needs_policy: bool) -> bool {
        let mut parts = text.split(';').map(str::trim);
        let issuer = parts.next().unwrap_or_default().trim_end_matches('.');
        let (mut is_account, mut has_policy) = (false, false);
        for part in parts {
            let Some((tag, value)) = part.split_once('=') else { continue };
            match tag.trim().to_ascii_lowercase().as_str() {
                "accounturi" => is_account = value.trim() == self.account,
                "policy" => has_policy = value.trim().eq_ignore_ascii_case("wildcard"),
                _ => {}
            }
        }
        let is_issuer =
            self.names.is_empty() || self.names.iter().any(|name| name.eq_ignore_ascii_case(issuer));
        is_issuer && is_account && (has_policy || !needs_policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn issuer() -> Issuer {
        Issuer { account: "https://ca.test/acct/7".to_string(), names: vec!["ca.test".to_string()] }
    }

    #[test]
    fn records_to_set() {
        assert_eq!(
            issuer().record_for("a.org").as_deref(),
            Some("_validation-persist.a.org. IN TXT \"ca.test; accounturi=https://ca.test/acct/7\"")
        );
        assert!(issuer().record_for("*.a.org").is_some_and(|record| {
            record.starts_with("_validation-persist.a.org. ") && record.ends_with("; policy=wildcard\"")
        }));
        assert_eq!(Issuer { names: Vec::new(), ..issuer() }.record_for("a.org"), None);
    }

    #[test]
    fn records_that_allow() {
        let is_allowed = |text: &str, needs_policy| issuer().is_allowed_by(text, needs_policy);
        let plain = "ca.test; accounturi=https://ca.test/acct/7";
        assert!(is_allowed(plain, false) && !is_allowed(plain, true));
        assert!(is_allowed("CA.test ;AccountURI=https://ca.test/acct/7 ; policy=Wildcard", true));
        for other in [
            "",
            "ca.test",
            "other.test; accounturi=https://ca.test/acct/7",
            "ca.test; accounturi=https://ca.test/acct/8",
            "ca.test; accounturi",
        ] {
            assert!(!is_allowed(other, false), "{other}");
        }
    }

    proptest! {
        #[test]
        fn only_the_account_is_allowed(text in "[ -~]{0,60}") {
            prop_assert!(!issuer().is_allowed_by(&text, true));
        }
    }
}
