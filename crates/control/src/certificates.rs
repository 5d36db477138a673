//! Describes the certificates of sites, and receives new ones.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use touchstone_config::SiteConfig;
use touchstone_http::hexadecimal;
use touchstone_tls::{LoadedCertificate, private_file, provider};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::request::ControlError;
use crate::resource::Resource;

/// Describes the certificate of a site; `None`: the site has no TLS. `acme_file` returns the file of a
/// certificate that ACME obtains.
pub fn certificate_json(
    name: &str,
    site: &SiteConfig,
    acme_file: &dyn Fn(&[String]) -> PathBuf,
) -> Option<Value> {
    let tls = &site.tls;
    if !tls.is_on() {
        return None;
    }
    let (source, files) = match &tls.certificate {
        Some(chain) => ("file", Some((chain.clone(), tls.key.clone().unwrap_or_else(|| chain.clone())))),
        None if tls.acme => {
            let file = acme_file(&site.hosts);
            ("acme", Some((file.clone(), file)))
        }
        None => ("development", None),
    };
    let mut value = json!({
        "site": name,
        "href": Resource::Certificate(name.to_string()).path(),
        "hosts": site.hosts,
        "source": source,
        "renewal": match source {
            "acme" => "automatic",
            "file" => "by the operator",
            _ => "none",
        },
    });
    if let Some((chain, key)) = files {
        value["file"] = chain.to_string_lossy().into();
        match LoadedCertificate::from_files(&chain, &key, &provider()) {
            Ok(loaded) => describe(&mut value, &loaded),
            Err(problem) => value["problem"] = problem.to_string().into(),
        }
    }
    Some(value)
}

fn describe(value: &mut Value, loaded: &LoadedCertificate) {
    let now_s = unix_seconds();
    let addresses = loaded.addresses.iter().map(ToString::to_string);
    let names: Vec<String> = loaded.names.iter().cloned().chain(addresses).collect();
    value["names"] = names.into();
    value["not_before"] = date(loaded.not_before_s).into();
    value["not_after"] = date(loaded.not_after_s).into();
    value["days_left"] = ((loaded.not_after_s - now_s) / 86_400).into();
    value["state"] = match loaded.age(now_s) {
        touchstone_tls::Age::Early => "early",
        touchstone_tls::Age::Valid => "valid",
        touchstone_tls::Age::EndsSoon => "ends soon",
        touchstone_tls::Age::Expired => "expired",
    }
    .into();
    let warnings = loaded.warnings.clone();
    value["warnings"] = warnings.into();
    if let Some(der) = loaded.certified.cert.first() {
        value["sha256"] = hexadecimal::encode(&Sha256::digest(der)).into();
        if let Ok((_, parsed)) = X509Certificate::from_der(der) {
            value["issuer"] = parsed.issuer().to_string().into();
            value["serial"] = parsed.raw_serial_as_string().into();
        }
    }
}

fn unix_seconds() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}

fn date(unix_s: i64) -> String {
    OffsetDateTime::from_unix_timestamp(unix_s)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// A valid certificate for a site that was received and written to a file.
pub struct ReceivedCertificate {
    /// The file, with the chain and the key.
    pub file: PathBuf,
    /// Its description, for the response.
    pub description: Value,
}

/// Checks `{"certificate": PEM, "key": PEM}` for a site and writes both to one file in this directory. So a
/// reader cannot get the certificate of one change with the key of another.
pub fn receive(
    body: &Map<String, Value>,
    name: &str,
    site: &SiteConfig,
    directory: &Path,
) -> Result<ReceivedCertificate, ControlError> {
    if let Some(unknown) = body.keys().find(|key| !["certificate", "key"].contains(&key.as_str())) {
        let text = format!("unknown key '{unknown}'; the keys are 'certificate' and 'key'");
        return Err(ControlError::new(400, text));
    }
    let pem = |key: &str| {
        let text = body.get(key).and_then(Value::as_str);
        text.ok_or_else(|| ControlError::new(400, format!("'{key}' must be a text in PEM format")))
    };
    let text = format!("{}\n{}\n", pem("certificate")?.trim_end(), pem("key")?.trim_end());
    let directory = certificate_directory(directory);
    let cannot = |error: std::io::Error| {
        ControlError::new(500, format!("no file can be written in {}: {error}", directory.display()))
    };
    private_file::make_directory(&directory).map_err(cannot)?;
    let safe: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '_' })
        .collect();
    let digest = hexadecimal::encode(&Sha256::digest(text.as_bytes()));
    let file = directory.join(format!("{safe}-{}.pem", &digest[..16]));
    let was_there = file.exists();
    private_file::write(&file, text.as_bytes(), 0o600).map_err(cannot)?;
    let checked = check(&file, site);
    if checked.is_err() && !was_there {
        let _ = std::fs::remove_file(&file);
    }
    checked.map(|description| ReceivedCertificate { file, description })
}

/// Checks that the certificate is valid at present and for all hosts of the site.
fn check(file: &Path, site: &SiteConfig) -> Result<Value, ControlError> {
    let loaded = LoadedCertificate::from_files(file, file, &provider()).map_err(|problem| {
        // The message has no file name: the client has not chosen it.
        ControlError::new(422, format!("the certificate and key cannot be used: {}", problem.message))
    })?;
    let missing: Vec<&str> =
        site.hosts.iter().map(String::as_str).filter(|host| !loaded.is_for(host)).collect();
    if !missing.is_empty() {
        let error = format!("the certificate is not for {}", missing.join(", "));
        return Err(ControlError::new(422, error).with("names", loaded.names.clone()));
    }
    match loaded.age(unix_seconds()) {
        touchstone_tls::Age::Expired => {
            Err(ControlError::new(422, format!("the certificate has expired on {}", loaded.end_day())))
        }
        touchstone_tls::Age::Early => {
            Err(ControlError::new(422, format!("the certificate is not valid before {}", loaded.begin_day())))
        }
        touchstone_tls::Age::Valid | touchstone_tls::Age::EndsSoon => {
            let mut description = json!({});
            describe(&mut description, &loaded);
            Ok(description)
        }
    }
}

fn certificate_directory(directory: &Path) -> PathBuf {
    directory.join("certificates")
}

/// Removes the received certificates that are not named in these configuration texts.
pub fn remove_unused(directory: &Path, texts: &[String]) {
    for entry in std::fs::read_dir(certificate_directory(directory)).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_used = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_none_or(|name| !name.ends_with(".pem") || texts.iter().any(|text| text.contains(name)));
        if !is_used {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sets the keys of a site so that it uses this certificate.
pub fn use_certificate(site: &mut Map<String, Value>, file: &Path) {
    site.insert("certificate".to_string(), file.to_string_lossy().into());
    site.remove("key");
    site.remove("development_certificate");
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::collections::HashSet;

    fn names_in(directory: &Path) -> HashSet<String> {
        let entries = std::fs::read_dir(certificate_directory(directory)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn pair(names: &[&str], valid_to: (i32, u8, u8)) -> (String, String) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let (year, month, day) = valid_to;
        params.not_after = rcgen::date_time_ymd(year, month, day);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn site(hosts: &[&str]) -> SiteConfig {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        SiteConfig {
            hosts,
            ..SiteConfig::new(None, vec!["127.0.0.1:1".parse::<std::net::SocketAddr>().unwrap().into()])
        }
    }

    fn body(certificate: &str, key: &str) -> Map<String, Value> {
        match json!({ "certificate": certificate, "key": key }) {
            Value::Object(body) => body,
            _ => Map::new(),
        }
    }

    #[test]
    fn only_valid_certificates_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let receive = |certificate: &str, key: &str, hosts: &[&str]| {
            receive(&body(certificate, key), "shop.example", &site(hosts), directory.path())
        };
        let (good, key) = pair(&["shop.example", "*.shop.example"], (2120, 1, 1));
        let (_, other_key) = pair(&["shop.example"], (2120, 1, 1));
        let (expired, expired_key) = pair(&["shop.example"], (2001, 1, 1));
        for (certificate, key, hosts, expected) in [
            (good.as_str(), other_key.as_str(), &["shop.example"][..], "is not the key"),
            (&good, &key, &["shop.example", "other.example"], "is not for other.example"),
            (&expired, &expired_key, &["shop.example"], "has expired on 2001-01-01"),
            ("no PEM", &key, &["shop.example"], "cannot be used"),
            (&good, "no PEM", &["shop.example"], "cannot be used"),
        ] {
            let failure = receive(certificate, key, hosts).err().unwrap();
            assert!(failure.status == 422 && failure.error.contains(expected), "{failure:?}");
            assert!(!failure.error.contains("PRIVATE KEY-----\n"), "{failure:?}");
        }
        assert!(names_in(directory.path()).is_empty());
        let received = receive(&good, &key, &["shop.example", "www.shop.example"]).ok().unwrap();
        assert_eq!(received.description["state"], "valid");
        assert!(received.description["issuer"].is_string());
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&received.file).unwrap().permissions().mode() & 0o777, 0o600);
        remove_unused(directory.path(), &[received.file.to_string_lossy().into_owned()]);
        assert_eq!(names_in(directory.path()).len(), 1);
        remove_unused(directory.path(), &[]);
        assert!(names_in(directory.path()).is_empty());
    }
}
