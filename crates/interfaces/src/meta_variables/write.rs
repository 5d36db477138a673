//! Writes the variables of a request to a [`VariableSink`]: an environment, or a FastCGI request.

use std::net::IpAddr;

use touchstone_http::decimal;
use touchstone_http::ip_text::IpText;
use touchstone_http::request_view::UNIX_CLIENT_NAME;

use super::{RequestFacts, SERVER_SOFTWARE, TlsFacts};

/// A receiver of variables.
pub trait VariableSink {
    /// Adds a variable, whose value consists of these pieces.
    fn add_pieces(&mut self, name: &[u8], pieces: &[&[u8]]);
}

/// Writes the variables of a request with these header fields, in the order in which they arrived; variables
/// set by a page are not included.
pub fn write_variables<'f, S: VariableSink>(
    facts: &RequestFacts<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    sink: &mut S,
) {
    let mut writer = Writer(sink);
    writer.add_request(facts);
    writer.add_addresses(facts);
    writer.add_files(facts);
    writer.add_body(facts, fields.clone());
    if facts.is_https {
        writer.add("HTTPS", b"on");
    }
    if let Some(tls) = &facts.tls {
        writer.add_tls(tls);
    }
    writer.add_fields(fields, facts.pass_authorization);
}

struct Writer<'s, S>(&'s mut S);

impl<S: VariableSink> Writer<'_, S> {
    fn add_request(&mut self, facts: &RequestFacts<'_>) {
        self.add("GATEWAY_INTERFACE", b"CGI/1.1");
        self.add("SERVER_SOFTWARE", SERVER_SOFTWARE.as_bytes());
        self.add("SERVER_PROTOCOL", facts.protocol.as_bytes());
        self.add("REQUEST_METHOD", facts.method);
        self.add("REQUEST_URI", facts.request_uri);
        self.add("REQUEST_SCHEME", if facts.is_https { b"https" } else { b"http" });
        // Section 4.1.7: always set; empty if there is no query.
        self.add("QUERY_STRING", facts.query.unwrap_or_default());
        self.add("SCRIPT_NAME", facts.script_name);
        if !facts.path_info.is_empty() {
            self.add("PATH_INFO", facts.path_info);
        }
        if !facts.request_id.is_empty() {
            self.add("REQUEST_ID", facts.request_id.as_bytes());
        }
        for (name, value) in [("AUTH_TYPE", facts.auth_type), ("REMOTE_USER", facts.remote_user)] {
            self.add_optional(name, value);
        }
    }

    fn add_addresses(&mut self, facts: &RequestFacts<'_>) {
        match facts.server_address {
            Some(address) if facts.server_name.is_empty() => self.add_address("SERVER_NAME", address.ip()),
            // Host names are not case-sensitive (RFC 9110 section 4.2.3), but programs compare them byte by
            // byte.
            _ if facts.server_name.iter().any(u8::is_ascii_uppercase) => {
                self.add("SERVER_NAME", &facts.server_name.to_ascii_lowercase());
            }
            _ => self.add("SERVER_NAME", facts.server_name),
        }
        let port = facts.server_port.or(facts.server_address.map(|address| address.port()));
        self.add_number("SERVER_PORT", u64::from(port.unwrap_or_default()));
        if let Some(address) = facts.server_address {
            self.add_address("SERVER_ADDR", address.ip());
        }
        if facts.remote.is_none() {
            // Programs expect the variable; nginx writes the same for clients of unix sockets.
            self.add("REMOTE_ADDR", UNIX_CLIENT_NAME.as_bytes());
        }
        if let Some(remote) = facts.remote {
            let address = IpText::of(remote.ip());
            self.add("REMOTE_ADDR", address.as_bytes());
            // Section 4.1.9: the address, if the name is not known; a DNS query for each request would be too
            // slow.
            self.add("REMOTE_HOST", address.as_bytes());
            self.add_number("REMOTE_PORT", u64::from(remote.port()));
        }
    }

    fn add_files(&mut self, facts: &RequestFacts<'_>) {
        use std::os::unix::ffi::OsStrExt;
        if let Some(file) = facts.script_filename {
            self.add("SCRIPT_FILENAME", file.as_os_str().as_bytes());
        }
        let Some(root) = facts.document_root else { return };
        let root = root.as_os_str().as_bytes();
        self.add("DOCUMENT_ROOT", root);
        if !facts.path_info.is_empty() {
            // Section 4.1.6: the file that the rest of the path would name by itself.
            let root = root.strip_suffix(b"/").unwrap_or(root);
            self.0.add_pieces(b"PATH_TRANSLATED", &[root, facts.path_info]);
        }
    }

    fn add_body<'f>(
        &mut self,
        facts: &RequestFacts<'_>,
        mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        if let Some(length) = facts.content_length {
            self.add_number("CONTENT_LENGTH", length);
        }
        if let Some((_, value)) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type")) {
            self.add("CONTENT_TYPE", value);
        }
    }

    fn add_tls(&mut self, tls: &TlsFacts<'_>) {
        self.add("SSL_PROTOCOL", tls.protocol.as_bytes());
        self.add("SSL_CIPHER", tls.cipher.as_bytes());
        if !tls.client_verify.is_empty() {
            self.add("SSL_CLIENT_VERIFY", tls.client_verify.as_bytes());
        }
        for (name, value) in [
            ("SSL_TLS_SNI", tls.server_name),
            ("SSL_CLIENT_S_DN", tls.client_subject),
            ("SSL_CLIENT_I_DN", tls.client_issuer),
            ("SSL_CLIENT_M_SERIAL", tls.client_serial),
        ] {
            self.add_optional(name, value);
        }
    }

    /// `HTTP_*`: a field that occurs several times becomes one variable (section 4.1.18).
    fn add_fields<'f>(
        &mut self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        pass_authorization: bool,
    ) {
        let mut variable = Vec::with_capacity(64);
        for (index, (name, value)) in fields.clone().enumerate() {
            let is_same = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name);
            if !becomes_variable(name, pass_authorization)
                || fields.clone().take(index).any(|field| is_same(&field))
            {
                continue;
            }
            variable.clear();
            variable.extend_from_slice(b"HTTP_");
            variable.extend(name.iter().map(|byte| match byte {
                b'-' => b'_',
                byte => byte.to_ascii_uppercase(),
            }));
            if !fields.clone().skip(index + 1).any(|field| is_same(&field)) {
                self.0.add_pieces(&variable, &[value]);
                continue;
            }
            // RFC 6265 section 5.4 and RFC 9113 section 8.2.3: parts of a Cookie are joined by semicolons.
            let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
            let more = fields.clone().skip(index + 1).filter(is_same);
            let pieces: Vec<&[u8]> =
                std::iter::once(value).chain(more.flat_map(|(_, more)| [separator, more])).collect();
            self.0.add_pieces(&variable, &pieces);
        }
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        self.0.add_pieces(name.as_bytes(), &[value]);
    }

    fn add_optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value.as_bytes());
        }
    }

    fn add_number(&mut self, name: &str, value: u64) {
        self.add(name, decimal::write(value, &mut [0; decimal::MAX_DIGITS]));
    }

    fn add_address(&mut self, name: &str, address: IpAddr) {
        self.add(name, IpText::of(address).as_bytes());
    }
}

/// Fields that have their own variable, belong to the connection, or must not reach a program.
const NEVER: [&[u8]; 13] = [
    b"proxy",
    b"content-length",
    b"content-type",
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"proxy-authorization",
    b"proxy-authenticate",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"expect",
];

/// Whether a field of this name becomes a variable.
fn becomes_variable(name: &[u8], pass_authorization: bool) -> bool {
    let is_plain = !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_among = |names: &[&[u8]]| names.iter().any(|each| name.eq_ignore_ascii_case(each));
    is_plain && !is_among(&NEVER) && (pass_authorization || !is_among(&[b"authorization"]))
}
