//! The sources of the values of variables.

use std::borrow::Cow;
use std::net::IpAddr;

use touchstone_http::host::split_port;
use touchstone_http::path::append_escaped;
use touchstone_http::request_view::{AddressLocator, ConnectionView, RequestView, TlsView, client_name};

use crate::variable::{Fact, Variable};

/// Returns the values of variables; `None`: the value is not available.
pub trait Source {
    /// The value of a variable.
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>>;
}

/// The values of a request from its head and the client's address, and of its connection if that is given.
impl Source for RequestView<'_> {
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
        match variable.fact {
            Fact::Client => self.client.map(|client| text(client_name(client))),
            Fact::Method => Some(Cow::Borrowed(self.method)),
            Fact::Path => Some(Cow::Borrowed(self.path)),
            Fact::Query => self.query.map(Cow::Borrowed),
            Fact::Target => Some(Cow::Owned(target(self.path, self.query))),
            Fact::Host => self.host.map(host),
            Fact::Header => self.values(variable.name.as_bytes()).next().map(Cow::Borrowed),
            Fact::Cookie => {
                let mut values = self.values(b"cookie");
                values.find_map(|value| cookie(value, &variable.name)).map(Cow::Borrowed)
            }
            Fact::Argument => argument(self.query?, &variable.name).map(Cow::Borrowed),
            Fact::Country | Fact::System => place(variable.fact, self.locator, self.client?),
            _ => of_connection(self.connection?, variable.fact),
        }
    }
}

/// The values of a connection.
pub fn of_connection<'a>(connection: &ConnectionView<'a>, fact: Fact) -> Option<Cow<'a, [u8]>> {
    let tls = |value: fn(TlsView<'a>) -> Option<&'a str>| value(connection.tls?).map(str::as_bytes);
    let value = match fact {
        Fact::Scheme => Some(if connection.is_secure { &b"https"[..] } else { b"http" }),
        Fact::Protocol => Some(connection.protocol.as_bytes()),
        Fact::RequestId => Some(connection.request_id.as_bytes()),
        Fact::TlsVersion => tls(|tls| Some(tls.version)),
        Fact::TlsCipher => tls(|tls| Some(tls.cipher)),
        Fact::TlsServerName => tls(|tls| tls.server_name),
        Fact::TlsSubject => tls(|tls| tls.subject),
        Fact::TlsVerified => tls(|tls| tls.subject.map(|_| VERIFIED)),
        _ => None,
    };
    value.map(Cow::Borrowed)
}

/// The value of `$tls_verified` where a certificate was verified.
pub const VERIFIED: &str = "SUCCESS";

/// The country or system of a client.
pub fn place<'a>(fact: Fact, locator: Option<&dyn AddressLocator>, client: IpAddr) -> Option<Cow<'a, [u8]>> {
    match fact {
        Fact::Country => locator?.country(client).map(|code| Cow::Owned(code.to_vec())),
        Fact::System => locator?.system(client).map(text),
        _ => None,
    }
}

/// A path with its escapes, and a query.
fn target(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut target = Vec::with_capacity(path.len() + query.map_or(0, |query| query.len() + 1));
    append_escaped(path, b"/-._~!$&'()*+,;=:@", &mut target);
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

/// A value as text.
pub fn text<'a>(value: impl std::fmt::Display) -> Cow<'a, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

/// The host without its port, in lower case.
pub fn host(host: &[u8]) -> Cow<'_, [u8]> {
    let name = split_port(host).0;
    match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// The first cookie of this name in the value of a Cookie field.
pub fn cookie<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    field.split(|byte| *byte == b';').find_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        (pair[..equals].trim_ascii() == name.as_bytes()).then(|| pair[equals + 1..].trim_ascii())
    })
}

/// The first parameter of this name in a query; one without a value is empty.
pub fn argument<'a>(query: &'a [u8], name: &str) -> Option<&'a [u8]> {
    query.split(|byte| *byte == b'&').find_map(|pair| {
        let (key, value) = match memchr::memchr(b'=', pair) {
            Some(equals) => (&pair[..equals], &pair[equals + 1..]),
            None => (pair, &pair[pair.len()..]),
        };
        (key == name.as_bytes()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::AvailableFrom;

    #[test]
    fn values_of_a_request() {
        let fields = [("Cookie", "a=1; Session=x y ;b="), ("X-Key", "k"), ("cookie", "c=3")];
        let view = RequestView {
            query: Some(b"page=2&flag&page=3&q=a%20b"),
            host: Some(b"WWW.Example.org:8080"),
            fields: &fields,
            ..RequestView::example("/a")
        };
        let value = |text: &str| {
            let (variable, _) = Variable::read(text, AvailableFrom::Answer, &[]).unwrap();
            view.value(&variable).map(|value| String::from_utf8(value.into_owned()).unwrap())
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(value("client"), some("192.0.2.1"));
        assert_eq!(value("host"), some("www.example.org"));
        assert_eq!(value("cookie{Session}"), some("x y"));
        assert_eq!(value("cookie{c}"), some("3"));
        assert_eq!(value("cookie{b}"), some(""));
        assert_eq!(value("cookie{d}"), None);
        assert_eq!(value("arg{page}"), some("2"));
        assert_eq!(value("arg{flag}"), some(""));
        assert_eq!(value("arg{q}"), some("a%20b"));
        assert_eq!(value("arg{none}"), None);
        assert_eq!(value("header{x-key}"), some("k"));
        assert_eq!(value("status"), None);
    }
}
