//! Keys in minisign's form: `minisign -G` makes them as well as [`generate`], and either program reads the
//! other's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign::{KeyPair, PublicKey, PublicKeyBox, SecretKey, SecretKeyBox};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The largest key file that is read, bytes.
const BYTES_MAX: u64 = 4096;

/// Makes a pair: the secret key at `path`, readable by its owner alone and without a password, the public one
/// beside it with `.pub`. Neither file may exist. Returns the public key's path.
pub fn generate(path: &Path) -> Result<PathBuf, String> {
    let pair = KeyPair::generate_unencrypted_keypair().map_err(|error| error.to_string())?;
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(".pub");
    let public_path = PathBuf::from(public_path);
    let secret = pair.sk.to_box(None).map_err(|error| error.to_string())?;
    let public = pair.pk.to_box().map_err(|error| error.to_string())?;
    write_new(path, 0o600, &secret.to_string())?;
    write_new(&public_path, 0o644, &public.to_string())?;
    Ok(public_path)
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), String> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Reads a secret key. One that has a password needs it.
pub fn secret(path: &Path, password: Option<&str>) -> Result<SecretKey, String> {
    let text = read(path)?;
    if let Some(key) = without_checksum(&text) {
        return Ok(key);
    }
    let key_box = || SecretKeyBox::from_string(&text).map_err(|error| error.to_string());
    let key = match SecretKey::from_unencrypted_box(key_box()?) {
        Ok(key) => Ok(key),
        Err(error) => match password {
            // With an empty password the library would prompt at the terminal.
            Some(password) if !password.is_empty() => {
                SecretKey::from_box(key_box()?, Some(password.to_owned()))
            }
            _ => Err(error),
        },
    };
    key.map_err(|error| {
        format!("{} is not a secret key of minisign, or needs a password: {error}", path.display())
    })
}

/// A key as `minisign -G -W` writes it: without a password, and with zeros in the place of the checksum,
/// which the library reports as damage.
fn without_checksum(text: &str) -> Option<SecretKey> {
    /// The value for no key derivation, its place, and the place of the checksum.
    const NO_DERIVATION: [u8; 2] = [0, 0];
    let bytes = STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    let is_such = bytes.get(2..4)? == NO_DERIVATION && bytes.get(126..158)?.iter().all(|byte| *byte == 0);
    is_such.then(|| SecretKey::from_bytes(&bytes).ok()).flatten()
}

/// Reads a public key: minisign's file, or its second line alone.
pub fn public(path: &Path) -> Result<PublicKey, String> {
    let text = read(path)?;
    public_of_text(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a public key from text.
pub fn public_of_text(text: &str) -> Result<PublicKey, String> {
    let text = text.trim();
    let key = if text.lines().count() == 1 {
        PublicKey::from_base64(text)
    } else {
        PublicKeyBox::from_string(text).and_then(PublicKey::from_box)
    };
    key.map_err(|error| format!("not a public key of minisign: {error}"))
}

/// A key's number as minisign prints it.
pub fn number(key: &PublicKey) -> String {
    key.keynum().iter().rev().map(|byte| format!("{byte:02X}")).collect()
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    if metadata.len() > BYTES_MAX {
        return Err(format!("{} is too long for a key", path.display()));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_pair_is_written_for_its_owner_alone_and_read_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lab.key");
        let public_path = generate(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (secret, public) = (secret(&path, None).unwrap(), public(&public_path).unwrap());
        assert!(PublicKey::from_secret_key(&secret).unwrap() == public);
        assert!(public_of_text(&public.to_base64()).unwrap() == public);
        assert_eq!(number(&public).len(), 16);
        assert!(generate(&path).unwrap_err().contains("cannot write"), "it must not overwrite a key");
        assert!(super::secret(&public_path, None).is_err() && super::public(&path).is_err());
    }

    #[test]
    fn a_key_with_a_password_needs_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lab.key");
        let pair = KeyPair::generate_encrypted_keypair(Some("open sesame".to_owned())).unwrap();
        fs::write(&path, pair.sk.to_box(None).unwrap().to_string()).unwrap();
        assert!(secret(&path, None).unwrap_err().contains("needs a password"));
        assert!(secret(&path, Some("wrong")).is_err());
        assert!(PublicKey::from_secret_key(&secret(&path, Some("open sesame")).unwrap()).unwrap() == pair.pk);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(untrusted comment: x\n)?[A-Za-z0-9+/=]{0,90}\n?\\PC{0,10}") {
            let _ = public_of_text(&text);
        }
    }
}
