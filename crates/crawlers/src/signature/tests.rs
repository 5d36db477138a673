//! The vectors of RFC 9421 Appendix B.2 to B.4, and messages that must not verify.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const DIGEST: &str =
    "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:";

fn rsa_pss() -> VerificationKey {
    VerificationKey::of_jwk(&json!({
        "kty": "RSA", "alg": "PS512", "kid": "test-key-rsa-pss", "e": "AQAB",
        "n": "r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oAXjyQ86\
OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wokqltd11nqqzi-bJ9\
cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm\
-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w",
    }))
    .unwrap()
}

fn ed25519() -> VerificationKey {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" });
    VerificationKey::of_jwk(&key).unwrap()
}

fn p256() -> VerificationKey {
    VerificationKey::of_jwk(&json!({
        "kty": "EC", "crv": "P-256", "kid": "test-key-ecc-p256",
        "x": "qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA",
        "y": "Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0",
    }))
    .unwrap()
}

fn secret() -> VerificationKey {
    let key = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ";
    VerificationKey::of_jwk(&json!({ "kty": "oct", "k": key.replace('+', "-").replace('/', "_") })).unwrap()
}

/// The request of Appendix B.2, with the two fields of a signature.
fn request_fields(input: &str, signature: &str) -> Vec<(&'static str, String)> {
    vec![
        ("Host", "example.com".into()),
        ("Date", "Tue, 20 Apr 2021 02:07:55 GMT".into()),
        ("Content-Type", "application/json".into()),
        ("Content-Digest", DIGEST.into()),
        ("Content-Length", "18".into()),
        ("Signature-Input", input.into()),
        ("Signature", signature.into()),
    ]
}

fn target() -> Target<'static> {
    Target {
        method: b"POST",
        scheme: "https",
        authority: b"example.com",
        path: b"/foo",
        query: Some(b"param=Value&Pet=dog"),
        request_target: b"/foo?param=Value&Pet=dog",
    }
}

/// Verifies the first signature of a message.
fn verify(
    start: Start<'_>,
    fields: &Vec<(&str, String)>,
    key: &VerificationKey,
) -> Result<Signature, Problem> {
    let message = Message { start, fields, request: None };
    let signature = read(&message)?.into_iter().next().ok_or(Problem::Wrong)?;
    let base = signature.base(&message)?;
    key.verify(signature.algorithm.as_deref(), &base, &signature.bytes)?;
    Ok(signature)
}

const MINIMAL: (&str, &str) = (
    "sig-b21=();created=1618884473;keyid=\"test-key-rsa-pss\";nonce=\"b3k2pp5k7z-50gnwp.yemd\"",
    "sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:",
);

const SELECTIVE: (&str, &str) = (
    "sig-b22=(\"@authority\" \"content-digest\" \"@query-param\";name=\"Pet\");created=1618884473\
;keyid=\"test-key-rsa-pss\";tag=\"header-example\"",
    "sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:",
);

const FULL: (&str, &str) = (
    "sig-b23=(\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" \"content-digest\" \
\"content-length\");created=1618884473;keyid=\"test-key-rsa-pss\"",
    "sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:",
);

const WITH_ED25519: (&str, &str) = (
    "sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\")\
;created=1618884473;keyid=\"test-key-ed25519\"",
    "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
);

#[test]
fn requests_of_the_appendix_verify() {
    for ((input, signature), key) in
        [(MINIMAL, rsa_pss()), (SELECTIVE, rsa_pss()), (FULL, rsa_pss()), (WITH_ED25519, ed25519())]
    {
        let fields = request_fields(input, signature);
        let read = verify(Start::Request(target()), &fields, &key).unwrap_or_else(|e| panic!("{input}: {e}"));
        assert_eq!(read.created, Some(1_618_884_473));
    }
    // B.2.5
    let fields = request_fields(
        "sig-b25=(\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\"",
        "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
    );
    assert!(verify(Start::Request(target()), &fields, &secret()).is_ok());
}

#[test]
fn the_answer_of_the_appendix_verifies() {
    let fields = vec![
        ("Date", "Tue, 20 Apr 2021 02:07:56 GMT".to_string()),
        ("Content-Type", "application/json".to_string()),
        (
            "Content-Digest",
            "sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:"
                .to_string(),
        ),
        ("Content-Length", "23".to_string()),
        (
            "Signature-Input",
            "sig-b24=(\"@status\" \"content-type\" \"content-digest\" \"content-length\");created=1618884473\
;keyid=\"test-key-ecc-p256\""
                .to_string(),
        ),
        (
            "Signature",
            "sig-b24=:wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==:"
                .to_string(),
        ),
    ];
    assert!(verify(Start::Answer(200), &fields, &p256()).is_ok());
    assert_eq!(verify(Start::Answer(201), &fields, &p256()).err(), Some(Problem::Wrong));
    assert!(matches!(verify(Start::Request(target()), &fields, &p256()), Err(Problem::Component(_))));
}

#[test]
fn the_request_behind_a_proxy_verifies() {
    // B.3
    let mut fields = request_fields(
        "ttrp=(\"@path\" \"@query\" \"@method\" \"@authority\" \"client-cert\");created=1618884473\
;keyid=\"test-key-ecc-p256\"",
        "ttrp=:xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah4JHRwMLOgmizw==:",
    );
    fields.push((
        "Client-Cert",
        ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:"
            .to_string(),
    ));
    let target = Target { authority: b"service.internal.example", ..target() };
    assert!(verify(Start::Request(target), &fields, &p256()).is_ok());
}

#[test]
fn changed_messages_do_not_verify() {
    let (input, signature) = FULL;
    let fields = request_fields(input, signature);
    for changed in [
        Target { method: b"GET", ..target() },
        Target { path: b"/foo/", ..target() },
        Target { query: Some(b"param=Value&Pet=cat"), ..target() },
        Target { query: None, ..target() },
        Target { authority: b"example.org", ..target() },
    ] {
        assert_eq!(verify(Start::Request(changed), &fields, &rsa_pss()).err(), Some(Problem::Wrong));
    }
    // Uncovered parts, the order of fields and the port of the scheme have no effect.
    let mut moved = fields.clone();
    moved.reverse();
    moved.push(("X-Other", "1".into()));
    let same = Target { authority: b"EXAMPLE.com:443", ..target() };
    assert!(verify(Start::Request(same), &moved, &rsa_pss()).is_ok());
    let mut twice = fields.clone();
    twice.push(("Date", "Tue, 20 Apr 2021 02:07:55 GMT".into()));
    assert_eq!(verify(Start::Request(target()), &twice, &rsa_pss()).err(), Some(Problem::Wrong));
    let mut gone = fields;
    gone.retain(|(name, _)| *name != "Date");
    assert!(matches!(verify(Start::Request(target()), &gone, &rsa_pss()), Err(Problem::Component(_))));
}

#[test]
fn the_key_decides_about_the_algorithm() {
    let (input, signature) = WITH_ED25519;
    for alg in ["hmac-sha256", "rsa-v1_5-sha256", "none", ""] {
        let fields = request_fields(&format!("{input};alg=\"{alg}\""), signature);
        let found = verify(Start::Request(target()), &fields, &ed25519());
        assert_eq!(found.err(), Some(Problem::Algorithm), "{alg}");
    }
    // A public key of RSA without an algorithm has two; a signature without one does not choose.
    let mut jwk = json!({ "kty": "RSA", "e": "AQAB" });
    jwk["n"] = json!(format!("{}A", "r".repeat(341)));
    let open = VerificationKey::of_jwk(&jwk).unwrap();
    assert_eq!(open.algorithm(None), Err(Problem::Algorithm));
    assert_eq!(open.algorithm(Some("rsa-v1_5-sha256")), Ok(Algorithm::RsaPkcs1Sha256));
    assert_eq!(open.algorithm(Some("hmac-sha256")), Err(Problem::Algorithm));
}

#[test]
fn weak_and_wrong_keys_are_refused() {
    for bad in [
        json!({}),
        json!({ "kty": "RSA", "e": "AQAB", "n": "r".repeat(170) }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "JrQL" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs=" }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
                "alg": "HS256" }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
                "use": "enc" }),
        json!({ "kty": "oct", "k": "c2hvcnQ" }),
    ] {
        assert!(VerificationKey::of_jwk(&bad).is_err(), "{bad}");
    }
    // RFC 8037 appendix A.3, and the draft's thumbprint of the same kind.
    assert_eq!(ed25519().thumbprint, "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
    assert_eq!(rsa_pss().thumbprint, "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA");
}

/// Values of components in a message, by their identifiers.
fn value_of(identifier: &str, fields: &[(&str, &str)]) -> Result<String, Problem> {
    let fields: Vec<(&str, &str)> = fields.to_vec();
    let input = format!("a=({identifier})");
    let mut all = fields.clone();
    all.extend([("signature-input", input.as_str()), ("signature", "a=:AA==:")]);
    let message = Message { start: Start::Request(target()), fields: &all, request: None };
    let signature = read(&message)?.remove(0);
    let base = String::from_utf8(signature.base(&message)?).unwrap();
    let line = base.lines().next().unwrap();
    Ok(line.strip_prefix(&format!("{identifier}: ")).unwrap().to_string())
}

#[test]
fn components_have_the_values_of_the_standard() {
    // Sections 2.1 to 2.2.
    let fields = &[
        ("Host", "www.example.com"),
        ("X-OWS-Header", "   Leading and trailing whitespace.   "),
        ("Cache-Control", "max-age=60"),
        ("Cache-Control", "   must-revalidate"),
        ("Example-Dict", " a=1,    b=2;x=1;y=2,   c=(a   b   c), d"),
        ("Priority", "u=1 ,   i"),
        ("Example-Header", "value, with, lots"),
        ("Example-Header", "of, commas"),
        ("X-Empty", ""),
    ];
    for (identifier, value) in [
        ("\"x-ows-header\"", "Leading and trailing whitespace."),
        ("\"cache-control\"", "max-age=60, must-revalidate"),
        ("\"example-dict\";key=\"a\"", "1"),
        ("\"example-dict\";key=\"d\"", "?1"),
        ("\"example-dict\";key=\"b\"", "2;x=1;y=2"),
        ("\"example-dict\";key=\"c\"", "(a b c)"),
        ("\"priority\";sf", "u=1, i"),
        ("\"example-header\";bs", ":dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:"),
        ("\"x-empty\"", ""),
        ("\"@method\"", "POST"),
        ("\"@scheme\"", "https"),
        ("\"@authority\"", "example.com"),
        ("\"@target-uri\"", "https://example.com/foo?param=Value&Pet=dog"),
        ("\"@request-target\"", "/foo?param=Value&Pet=dog"),
        ("\"@query\"", "?param=Value&Pet=dog"),
        ("\"@query-param\";name=\"Pet\"", "dog"),
    ] {
        assert_eq!(value_of(identifier, fields).as_deref(), Ok(value), "{identifier}");
    }
    for bad in [
        "\"@status\"",
        "\"@unknown\"",
        "\"@signature-params\"",
        "\"X-Empty\"",
        "\"x-missing\"",
        "\"x-empty\";tr",
        "\"x-empty\";req",
        "\"x-empty\";sf",
        "\"x-empty\";other",
        "\"example-dict\";key=\"z\"",
        "\"example-header\";bs;sf",
        "\"@method\";sf",
        "\"@query-param\"",
        "\"@query-param\";name=\"none\"",
        "\"@path\";name=\"Pet\"",
        "token",
        "\"@method\" \"@method\"",
    ] {
        assert!(value_of(bad, fields).is_err(), "{bad}");
    }
}

#[test]
fn the_number_and_size_of_signatures_are_limited() {
    let many = |count: usize| {
        let inputs: Vec<String> = (0..count).map(|number| format!("s{number}=()")).collect();
        let values: Vec<String> = (0..count).map(|number| format!("s{number}=:AA==:")).collect();
        request_fields(&inputs.join(","), &values.join(","))
    };
    let count = |fields: &Vec<(&str, String)>| {
        read(&Message { start: Start::Request(target()), fields, request: None }).map(|all| all.len())
    };
    assert_eq!(count(&many(MOST_SIGNATURES)), Ok(MOST_SIGNATURES));
    assert!(count(&many(MOST_SIGNATURES + 1)).is_err());
    let names: Vec<String> = (0..=MOST_COMPONENTS).map(|number| format!("\"x-{number}\"")).collect();
    assert!(count(&request_fields(&format!("a=({})", names.join(" ")), "a=:AA==:")).is_err());
    let long = format!("a=();nonce=\"{}\"", "x".repeat(LONGEST_FIELD_BYTES));
    assert!(count(&request_fields(&long, "a=:AA==:")).is_err());
    for (input, value) in [
        ("a=()", "b=:AA==:"),
        ("a=1", "a=:AA==:"),
        ("a=()", "a=1"),
        ("a=()", "a=::"),
        ("a=();created=\"x\"", "a=:AA==:"),
        ("a=();created=-1", "a=:AA==:"),
        ("a=();keyid=1", "a=:AA==:"),
        ("a=(", "a=:AA==:"),
        ("", "a=:AA==:"),
    ] {
        assert!(count(&request_fields(input, value)).is_err(), "{input} {value}");
    }
}

proptest! {
    #[test]
    fn any_fields_are_read_or_refused(input in "\\PC{0,80}", value in "\\PC{0,40}") {
        let fields = request_fields(&input, &value);
        let message = Message { start: Start::Request(target()), fields: &fields, request: None };
        if let Ok(signatures) = read(&message) {
            for signature in signatures {
                _ = signature.base(&message);
            }
        }
    }

    #[test]
    fn no_changed_byte_of_a_signature_verifies(position in 0usize..64, bit in 0u8..8) {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let (input, signature) = WITH_ED25519;
        let coded = signature.split(':').nth(1).unwrap();
        let mut bytes = STANDARD.decode(coded).unwrap();
        bytes[position] ^= 1 << bit;
        let fields = request_fields(input, &format!("sig-b26=:{}:", STANDARD.encode(bytes)));
        prop_assert_eq!(verify(Start::Request(target()), &fields, &ed25519()).err(), Some(Problem::Wrong));
    }
}
