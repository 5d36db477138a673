//! The account with an authority: registered once, its key kept on disk.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};

use super::client::AuthorityClient;
use super::failure::Failure;
use super::storage::Storage;
use touchstone_config::{AcmeConfig, ExternalAccountConfig};
use touchstone_observe::log::error::ErrorLog;
use touchstone_tls::key_warning;

/// The account as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// The contacts that the authority has.
    contact: Vec<String>,
    /// The external account to which it is bound.
    external_account: Option<String>,
    /// Its URL and its key.
    credentials: AccountCredentials,
}

/// Returns the stored account, or registers a new one. The caller must ensure that no other thread or process
/// does this at the same time.
pub async fn open(
    settings: &AcmeConfig,
    storage: &Storage,
    client: &AuthorityClient,
    error_log: &ErrorLog,
) -> Result<Account, Failure> {
    let kept = read(&storage.account_file()).map_err(Failure::Own)?;
    let external_account = settings.external_account.as_ref().map(|account| account.key_id.clone());
    match kept {
        Some(kept) if kept.external_account == external_account => {
            restore(kept, settings, storage, client).await
        }
        _ => register(settings, storage, client, error_log).await,
    }
}

/// Renames the stored account, because the authority has removed it.
pub fn forget(storage: &Storage) -> Result<(), Failure> {
    let file = storage.account_file();
    fs::rename(&file, file.with_extension("unknown.json"))
        .map_err(|error| Failure::Own(format!("{}: cannot be moved aside: {error}", file.display())))
}

/// The key of an external account.
pub fn read_hmac_key(file: &Path) -> Result<Vec<u8>, String> {
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{}: the file does not exist", file.display()),
        // The file is not text: its content is not repeated.
        io::ErrorKind::InvalidData => format!("{}: is not base64url", file.display()),
        _ => format!("{}: cannot be read: {error}", file.display()),
    })?;
    // Some authorities use the other alphabet, or padding.
    let text = text.trim().trim_end_matches('=').replace('+', "-").replace('/', "_");
    let key = BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| format!("{}: is not base64url, as issued by the authority", file.display()))?;
    if key.is_empty() {
        return Err(format!("{}: is empty", file.display()));
    }
    Ok(key)
}

fn read(file: &Path) -> Result<Option<StoredAccount>, String> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: cannot be read: {error}", file.display())),
    };
    // The error text could contain the content, which holds a key.
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        format!(
            "{}: the stored account is damaged (line {}, column {}); move the file away to register again",
            file.display(),
            error.line(),
            error.column()
        )
    })
}

fn write(storage: &Storage, kept: &StoredAccount) -> Result<(), Failure> {
    let file = storage.account_file();
    let about = |reason: String| Failure::Own(format!("{}: cannot be written: {reason}", file.display()));
    let mut text = serde_json::to_vec_pretty(kept).map_err(|error| about(error.to_string()))?;
    text.push(b'\n');
    storage.write(&file, &text).map_err(|error| about(error.to_string()))
}

async fn restore(
    kept: StoredAccount,
    settings: &AcmeConfig,
    storage: &Storage,
    client: &AuthorityClient,
) -> Result<Account, Failure> {
    let StoredAccount { contact, external_account, credentials } = kept;
    let contact_is_same = contact == settings.contact;
    // The credentials are consumed below, and written again only if the contact is new.
    let again = serde_json::to_value(&credentials).ok();
    let account = Account::builder_with_http(Box::new(client.clone())).from_credentials(credentials).await?;
    if !contact_is_same {
        account.update_contacts(&contacts(settings)).await?;
        if let Some(credentials) = again.and_then(|value| serde_json::from_value(value).ok()) {
            let contact = settings.contact.clone();
            write(storage, &StoredAccount { contact, external_account, credentials })?;
        }
    }
    Ok(account)
}

async fn register(
    settings: &AcmeConfig,
    storage: &Storage,
    client: &AuthorityClient,
    error_log: &ErrorLog,
) -> Result<Account, Failure> {
    let external = settings.external_account.as_ref().map(external_key).transpose().map_err(Failure::Own)?;
    let key_file = settings.external_account.as_ref().and_then(|account| account.hmac_key.as_deref());
    if let Some(warning) = key_file.and_then(key_warning) {
        error_log.warning(format_args!("acme: {warning}"));
    }
    let new = NewAccount {
        contact: &contacts(settings),
        terms_of_service_agreed: settings.agree_to_terms,
        only_return_existing: false,
    };
    let (account, credentials) = Account::builder_with_http(Box::new(client.clone()))
        .create(&new, settings.directory.clone(), external.as_ref())
        .await?;
    let kept = StoredAccount {
        contact: settings.contact.clone(),
        external_account: settings.external_account.as_ref().map(|account| account.key_id.clone()),
        credentials,
    };
    write(storage, &kept)?;
    error_log.info(format_args!("acme: registered with {}", settings.directory));
    Ok(account)
}

fn contacts(settings: &AcmeConfig) -> Vec<&str> {
    settings.contact.iter().map(String::as_str).collect()
}

fn external_key(account: &ExternalAccountConfig) -> Result<ExternalAccountKey, String> {
    let file = account.hmac_key.as_deref().ok_or("acme.external_account.hmac_key is not set")?;
    Ok(ExternalAccountKey::new(account.key_id.clone(), &read_hmac_key(file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_external_accounts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let read = |text: &[u8]| {
            fs::write(&file, text).unwrap();
            read_hmac_key(&file).map_err(|message| message.replace(&format!("{}: ", file.display()), ""))
        };
        for text in ["-_-_", "+/+/", "-_-_\n", " -_-_ "] {
            assert_eq!(read(text.as_bytes()), Ok(vec![0xfb, 0xff, 0xbf]), "{text:?}");
        }
        assert_eq!(read(b"-_8=\n"), Ok(vec![0xfb, 0xff]));
        for text in [&b"a secret!"[..], b"\xff\xfe secret", b"A"] {
            let message = read(text).unwrap_err();
            assert!(message.starts_with("is not base64url") && !message.contains("secret"), "{message}");
        }
        assert_eq!(read(b" \n"), Err("is empty".to_string()));
        fs::remove_file(&file).unwrap();
        assert!(read_hmac_key(&file).unwrap_err().ends_with("the file does not exist"));
    }

    #[test]
    fn a_damaged_account_is_named_and_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("account.json");
        assert!(read(&file).unwrap().is_none());
        fs::write(&file, "\"a secret\"").unwrap();
        let message = read(&file).err().unwrap();
        assert!(message.contains("is damaged") && !message.contains("secret"), "{message}");
    }
}
