use proptest::prelude::*;

use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn facts() -> RequestFacts<'static> {
    RequestFacts {
        method: b"POST",
        protocol: "HTTP/1.1",
        request_uri: b"/cgi-bin/a.cgi/x%20y?q=1",
        script_name: b"/cgi-bin/a.cgi",
        path_info: b"/x y",
        query: Some(b"q=1"),
        document_root: Some(Path::new("/srv/www")),
        script_filename: Some(Path::new("/srv/www/cgi-bin/a.cgi")),
        server_name: b"www.example.org",
        server_address: Some("192.0.2.1:80".parse().unwrap()),
        remote: Some("[::ffff:198.51.100.7]:4711".parse().unwrap()),
        content_length: Some(5),
        request_id: "17",
        ..RequestFacts::default()
    }
}

fn variables(facts: &RequestFacts<'_>, fields: Fields<'_>) -> MetaVariables {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    MetaVariables::of(facts, fields).unwrap()
}

fn text(variables: &MetaVariables) -> Vec<String> {
    let mut all: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
        .collect();
    all.sort();
    all
}

#[test]
fn every_variable_of_the_standard() {
    let fields = [("Host", "www.example.org"), ("Content-Type", "text/plain"), ("Content-Length", "5")];
    let expected = [
        "CONTENT_LENGTH=5",
        "CONTENT_TYPE=text/plain",
        "DOCUMENT_ROOT=/srv/www",
        "GATEWAY_INTERFACE=CGI/1.1",
        "HTTP_HOST=www.example.org",
        "PATH_INFO=/x y",
        "PATH_TRANSLATED=/srv/www/x y",
        "QUERY_STRING=q=1",
        "REMOTE_ADDR=198.51.100.7",
        "REMOTE_HOST=198.51.100.7",
        "REMOTE_PORT=4711",
        "REQUEST_ID=17",
        "REQUEST_METHOD=POST",
        "REQUEST_SCHEME=http",
        "REQUEST_URI=/cgi-bin/a.cgi/x%20y?q=1",
        "SCRIPT_FILENAME=/srv/www/cgi-bin/a.cgi",
        "SCRIPT_NAME=/cgi-bin/a.cgi",
        "SERVER_ADDR=192.0.2.1",
        "SERVER_NAME=www.example.org",
        "SERVER_PORT=80",
        "SERVER_PROTOCOL=HTTP/1.1",
    ];
    let mut found = text(&variables(&facts(), &fields));
    found.retain(|line| !line.starts_with("SERVER_SOFTWARE=Touchstone/"));
    assert_eq!(found, expected);
}

#[test]
fn the_name_of_the_server_is_in_lower_case() {
    let mixed = RequestFacts { server_name: b"WWW.Example.ORG", ..facts() };
    let found = variables(&mixed, &[("Host", "WWW.Example.ORG")]);
    assert_eq!(found.get("SERVER_NAME"), Some(&b"www.example.org"[..]));
    assert_eq!(found.get("HTTP_HOST"), Some(&b"WWW.Example.ORG"[..]));
}

#[test]
fn missing_values_are_not_set_except_the_query() {
    let bare = RequestFacts { method: b"GET", protocol: "HTTP/1.0", ..RequestFacts::default() };
    let bare = variables(&bare, &[]);
    assert_eq!(bare.get("QUERY_STRING"), Some(&b""[..]));
    for absent in [
        "PATH_INFO",
        "PATH_TRANSLATED",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "AUTH_TYPE",
        "REMOTE_USER",
        "REMOTE_IDENT",
        "HTTPS",
    ] {
        assert_eq!(bare.get(absent), None, "{absent}");
    }
}

#[test]
fn users_and_tls() {
    let tls = TlsFacts {
        protocol: "TLSv1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        server_name: Some("www.example.org"),
        client_verify: "SUCCESS",
        client_subject: Some("CN=Ann"),
        client_issuer: Some("CN=Authority"),
        client_serial: Some("0A"),
    };
    let facts = RequestFacts {
        remote_user: Some("ann"),
        auth_type: Some("Basic"),
        is_https: true,
        tls: Some(tls),
        ..facts()
    };
    let found = variables(&facts, &[]);
    for (name, value) in [
        ("HTTPS", "on"),
        ("REQUEST_SCHEME", "https"),
        ("REMOTE_USER", "ann"),
        ("AUTH_TYPE", "Basic"),
        ("SSL_PROTOCOL", "TLSv1.3"),
        ("SSL_CIPHER", "TLS_AES_128_GCM_SHA256"),
        ("SSL_TLS_SNI", "www.example.org"),
        ("SSL_CLIENT_VERIFY", "SUCCESS"),
        ("SSL_CLIENT_S_DN", "CN=Ann"),
        ("SSL_CLIENT_I_DN", "CN=Authority"),
        ("SSL_CLIENT_M_SERIAL", "0A"),
    ] {
        assert_eq!(found.get(name), Some(value.as_bytes()), "{name}");
    }
}

fn http(fields: Fields<'_>, pass_authorization: bool) -> Vec<String> {
    let facts = RequestFacts { pass_authorization, ..RequestFacts::default() };
    let mut found = text(&variables(&facts, fields));
    found.retain(|line| line.starts_with("HTTP_"));
    found
}

#[test]
fn fields_that_must_not_reach_a_program() {
    let fields = [
        ("Proxy", "http://evil.example"),
        ("PROXY", "http://evil.example"),
        ("X_Forwarded_For", "1.2.3.4"),
        ("X-Forwarded.For", "1.2.3.4"),
        ("X-Odd!", "x"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Expect", "100-continue"),
        ("Authorization", "Basic YTpi"),
        ("Proxy-Authorization", "Basic YTpi"),
        ("Accept", "*/*"),
    ];
    assert_eq!(http(&fields, false), ["HTTP_ACCEPT=*/*"]);
    assert_eq!(http(&fields, true), ["HTTP_ACCEPT=*/*", "HTTP_AUTHORIZATION=Basic YTpi"]);
}

#[test]
fn repeated_fields_are_joined_in_their_order() {
    let fields = [("Accept", "a"), ("Cookie", "x=1"), ("accept", "b"), ("X-One", "1"), ("cookie", "y=2")];
    assert_eq!(http(&fields, false), ["HTTP_ACCEPT=a, b", "HTTP_COOKIE=x=1; y=2", "HTTP_X_ONE=1"]);
}

#[test]
fn a_zero_byte_is_refused() {
    let facts = RequestFacts { path_info: b"/a\0LD_PRELOAD=/tmp/x.so", ..RequestFacts::default() };
    assert_eq!(MetaVariables::of(&facts, std::iter::empty()), Err(ZeroByte));
}

#[test]
fn a_set_variable_takes_the_place_of_another() {
    let mut found = variables(&facts(), &[]);
    let count = found.len();
    found.set("REQUEST_METHOD", b"GET");
    found.set("NEW", b"1");
    for (name, value) in [("", &b"x"[..]), ("A=B", b"x"), ("A", b"x\0y"), ("A\0", b"x")] {
        found.set(name, value);
    }
    assert_eq!(found.len(), count + 1);
    assert_eq!((found.get("REQUEST_METHOD"), found.get("NEW")), (Some(&b"GET"[..]), Some(&b"1"[..])));
    assert!(found.environment().any(|line| line == b"REQUEST_METHOD=GET\0"));
    assert!(!found.environment().any(|line| line == b"REQUEST_METHOD=POST\0"));
}

proptest! {
    /// Whatever fields a client sends: all names are valid for environment variables, none occurs twice, and
    /// all except those of the request begin with HTTP_.
    #[test]
    fn fields_cannot_make_other_variables(
        fields in proptest::collection::vec(
            ("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}|(?i:proxy|host|cookie|content-type)", "[ -~]{0,20}"), 0..20)
    ) {
        let plain = variables(&facts(), &[]).len();
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let found = variables(&facts(), &fields);
        let mut names: Vec<&[u8]> = found.iter().map(|(name, _)| name).collect();
        let others = names.iter().filter(|name| !name.starts_with(b"HTTP_") && **name != b"CONTENT_TYPE");
        prop_assert_eq!(others.count(), plain);
        prop_assert!(!names.contains(&&b"HTTP_PROXY"[..]));
        let is_good =
            |name: &&[u8]| name.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_');
        prop_assert!(names.iter().all(is_good));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), count);
        prop_assert!(found.environment().all(|line| line.iter().filter(|byte| **byte == 0).count() == 1));
    }
}

#[test]
fn a_target_without_its_authority() {
    for (target, expected) in [
        ("/a?b", "/a?b"),
        ("http://example.org/a?b", "/a?b"),
        ("http://example.org", "/"),
        ("http://example.org?q", "?q"),
        ("*", "*"),
    ] {
        assert_eq!(without_authority(target.as_bytes()), expected.as_bytes(), "{target}");
    }
}

#[test]
fn what_a_page_has_set_cannot_stand_for_the_request() {
    let set = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let of_page = [
        set("mine", "a b"),
        set("with space-9", "1"),
        set("2nd", "2"),
        set("SERVER_NAME", "other"),
        set("REMOTE_USER", "root"),
        set("HTTP_PROXY", "evil"),
        set("HTTP_X", "of the page"),
        set("HTTP_HOST", "other"),
        set("LD_PRELOAD", "/x.so"),
        set("PATH", "/x"),
        set("zero", "a\0b"),
        set("", "nothing"),
    ];
    let facts = RequestFacts { page_variables: &of_page, ..facts() };
    let variables = variables(&facts, &[("Host", "www.example.org")]);
    for (name, value) in [
        ("mine", Some("a b")),
        ("with_space_9", Some("1")),
        ("_nd", Some("2")),
        ("SERVER_NAME", Some("www.example.org")),
        ("REMOTE_USER", None),
        ("HTTP_PROXY", None),
        ("HTTP_X", Some("of the page")),
        ("HTTP_HOST", Some("www.example.org")),
        ("LD_PRELOAD", None),
        ("PATH", None),
        ("zero", None),
    ] {
        assert_eq!(variables.get(name), value.map(str::as_bytes), "{name}");
    }
    let shown = variables.environment().filter(|line| line.starts_with(b"=")).count();
    assert_eq!(shown, 0);
}
