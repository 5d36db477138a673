//! Sealing a result directory, and checking the seal.
//!
//! The chain: the signature is of the statement's bytes, the statement names the manifest's hash, the
//! manifest the hash of every other file. Of the signature's own file the one part that minisign does not
//! protect, its untrusted comment, must be the one that is written here, so that no byte of a sealed
//! directory can be changed unseen.

use super::manifest::{FILE_NAME as MANIFEST_FILE, Manifest, SIGNATURE_FILE, STATEMENT_FILE};
use super::{key, statement};
use crate::run_rules::{Class, Rule};
use minisign::{PublicKey, SecretKey, SignatureBox};
use std::fmt;
use std::io::Cursor;
use std::path::Path;
use touchstone_lab::machine::sha256;
use touchstone_lab::output::write_atomically;
use touchstone_lab::regular_file;
use touchstone_lab::result::ResultFile;

/// The signer's public key, for a reader who has no other; it is in the manifest.
pub const SIGNER_FILE: &str = "signer.pub";
/// The untrusted comment of every signature.
const COMMENT: &str = "signature of a Touchstone result";
/// The longest statement, manifest and signature that are read, bytes.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The class that was stated.
    pub class: Class,
    /// Files in the manifest.
    pub files: usize,
    /// The key's number.
    pub key: String,
}

/// A seal that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The class that its statement names.
    pub stated: Class,
    /// The key's number.
    pub key: String,
    /// Whether the reader knew the key; otherwise it is the one in the directory itself, which proves that
    /// the result was not changed, but not who signed it.
    pub key_is_known: bool,
}

/// Why a seal does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealError {
    /// There is none.
    None,
    /// It is broken: what was changed, or what cannot be read.
    Broken(Vec<String>),
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealError::None => write!(f, "it is not signed"),
            SealError::Broken(faults) => f.write_str(&faults.join("; ")),
        }
    }
}

/// Signs a directory in its present state.
pub fn seal(
    directory: &Path,
    result: &ResultFile,
    class: Class,
    rules: &[Rule],
    secret: &SecretKey,
) -> Result<Sealed, String> {
    let public = PublicKey::from_secret_key(secret).map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        write_atomically(&path, text.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    let public_box = public.to_box().map_err(|error| error.to_string())?;
    write(SIGNER_FILE, &public_box.to_string())?;
    super::manifest::remove_empty_directories(directory)?;
    let manifest = Manifest::of(directory)?;
    let manifest_text = manifest.text();
    let statement_text = statement::text(&manifest_text, result, class, rules);
    let trusted = format!("touchstone {} {}", result.suite.name, result.started_at);
    let signature =
        minisign::sign(Some(&public), secret, statement_text.as_bytes(), Some(&trusted), Some(COMMENT))
            .map_err(|error| error.to_string())?;
    write(MANIFEST_FILE, &manifest_text)?;
    write(STATEMENT_FILE, &statement_text)?;
    write(SIGNATURE_FILE, &signature.to_string())?;
    Ok(Sealed { class, files: manifest.files.len(), key: key::number(&public) })
}

/// Checks the seal of a directory with the reader's key, or otherwise with the one in the directory.
pub fn check_seal(directory: &Path, known: Option<&PublicKey>) -> Result<Signature, SealError> {
    if !super::manifest::LATER_FILES.iter().any(|name| directory.join(name).symlink_metadata().is_ok()) {
        return Err(SealError::None);
    }
    check(directory, known).map_err(SealError::Broken)
}

fn check(directory: &Path, known: Option<&PublicKey>) -> Result<Signature, Vec<String>> {
    let one = |message: String| vec![message];
    let statement_text = read(directory, STATEMENT_FILE).map_err(one)?;
    let signature_text = read(directory, SIGNATURE_FILE).map_err(one)?;
    let manifest_text = read(directory, MANIFEST_FILE).map_err(one)?;
    let own = match known {
        Some(_) => None,
        None => Some(read(directory, SIGNER_FILE).and_then(|text| key::public_of_text(&text)).map_err(one)?),
    };
    let public = known.or(own.as_ref()).ok_or_else(|| one("there is no key".to_owned()))?;
    check_signature(&statement_text, &signature_text, public)
        .map_err(|message| one(format!("{SIGNATURE_FILE}: {message}")))?;
    let stated =
        statement::read(&statement_text).map_err(|message| one(format!("{STATEMENT_FILE}: {message}")))?;
    if stated.manifest_sha256 != sha256(manifest_text.as_bytes()) {
        return Err(one(format!("{MANIFEST_FILE} is not the one that was signed")));
    }
    let manifest: Manifest =
        serde_json::from_str(&manifest_text).map_err(|error| one(format!("{MANIFEST_FILE}: {error}")))?;
    let differences = manifest.differences(directory);
    if !differences.is_empty() {
        return Err(differences);
    }
    Ok(Signature { stated: stated.class, key: key::number(public), key_is_known: known.is_some() })
}

fn check_signature(statement: &str, signature: &str, public: &PublicKey) -> Result<(), String> {
    let parsed = SignatureBox::from_string(signature).map_err(|error| error.to_string())?;
    // Bytes that the parser of signatures ignores (blanks, other line ends, a comment) would be unprotected.
    if parsed.to_string() != signature || parsed.untrusted_comment().ok().as_deref() != Some(COMMENT) {
        return Err("it was changed since it was written".to_owned());
    }
    minisign::verify(public, &parsed, Cursor::new(statement), true, false, false)
        .map_err(|error| format!("the signature does not hold with the key {}: {error}", key::number(public)))
}

fn read(directory: &Path, name: &str) -> Result<String, String> {
    regular_file::read_text(&directory.join(name), BYTES_MAX)
        .map_err(|error| format!("{name} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use touchstone_http::split_mix::SplitMix;

    struct Lab {
        place: tempfile::TempDir,
        public: PublicKey,
    }

    /// A small directory, sealed.
    fn sealed() -> Lab {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("systems")).unwrap();
        fs::write(place.path().join("raw.jsonl"), "{\"requests\":12345}\n").unwrap();
        fs::write(place.path().join("systems/a.conf"), "listen 80;\n").unwrap();
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        let mut result = touchstone_lab::sample::result();
        result.systems.truncate(1);
        let sealed = seal(place.path(), &result, Class::Indicative, &[], &pair.sk).unwrap();
        assert_eq!(sealed.files, 3);
        Lab { place, public: pair.pk }
    }

    fn files(place: &Path) -> Vec<PathBuf> {
        let manifest = Manifest::of(place).unwrap();
        let listed = manifest.files.iter().map(|entry| place.join(&entry.path));
        listed.chain(super::super::manifest::LATER_FILES.iter().map(|name| place.join(name))).collect()
    }

    #[test]
    fn a_seal_holds_with_the_right_key_and_with_no_other() {
        let lab = sealed();
        let known = check_seal(lab.place.path(), Some(&lab.public)).unwrap();
        assert!(known.key_is_known && known.stated == Class::Indicative);
        let unknown = check_seal(lab.place.path(), None).unwrap();
        assert!(!unknown.key_is_known && unknown.key == known.key);
        let other = minisign::KeyPair::generate_unencrypted_keypair().unwrap().pk;
        assert!(check_seal(lab.place.path(), Some(&other)).is_err());
        assert_eq!(check_seal(tempfile::tempdir().unwrap().path(), None), Err(SealError::None));
    }

    #[test]
    fn whichever_byte_is_changed_the_seal_is_refused() {
        let lab = sealed();
        let mut generator = SplitMix(1);
        let mut changed = 0;
        for path in files(lab.place.path()) {
            let whole = fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                // Any other value than the one that is there.
                damaged[at] ^= (generator.below(255) + 1) as u8;
                fs::write(&path, &damaged).unwrap();
                let found = check_seal(lab.place.path(), Some(&lab.public));
                assert!(matches!(found, Err(SealError::Broken(_))), "{} at {at}", path.display());
                changed += 1;
            }
            // And at its ends.
            for damaged in [&whole[..whole.len() - 1], &[&whole[..], b"\n"].concat()[..]] {
                fs::write(&path, damaged).unwrap();
                assert!(check_seal(lab.place.path(), Some(&lab.public)).is_err(), "{}", path.display());
            }
            fs::write(&path, &whole).unwrap();
        }
        assert!(changed > 1000 && check_seal(lab.place.path(), Some(&lab.public)).is_ok());
    }

    #[test]
    fn files_that_are_missing_or_added_are_named() {
        let lab = sealed();
        fs::write(lab.place.path().join("systems/new"), "").unwrap();
        let message = check_seal(lab.place.path(), None).unwrap_err().to_string();
        assert_eq!(message, "systems/new was added");
        fs::remove_file(lab.place.path().join("systems/new")).unwrap();
        for path in files(lab.place.path()) {
            let whole = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            assert!(check_seal(lab.place.path(), None).is_err(), "{}", path.display());
            fs::write(&path, whole).unwrap();
        }
    }
}
