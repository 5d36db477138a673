//! The values of variables of conditions and texts, for a request with its connection and its user.

use std::borrow::Cow;

use touchstone_expression::{Fact, Source, Variable, source};
use touchstone_http::request_view::{ConnectionView, TlsView, client_name};

use crate::request::{Request, RequestDetails, TlsFacts};

impl TlsFacts {
    /// The parts that rules use.
    pub fn view(&self) -> TlsView<'_> {
        TlsView {
            version: self.version,
            cipher: self.cipher_suite,
            server_name: self.server_name.as_deref(),
            subject: self.client_subject.as_deref(),
        }
    }
}

impl Request {
    /// The parts of its connection that rules use.
    pub fn connection_view(&self) -> ConnectionView<'_> {
        ConnectionView { is_secure: self.is_https(), ..connection_of(self) }
    }
}

/// The same, without the facts that only the whole request has.
fn connection_of(details: &RequestDetails) -> ConnectionView<'_> {
    ConnectionView {
        is_secure: details.tls.is_some(),
        protocol: details.protocol.text(),
        request_id: &details.id,
        tls: details.tls.as_ref().map(|tls| tls.view()),
    }
}

impl Source for Request {
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
        let value = match variable.fact {
            Fact::Client => return self.client.map(|client| source::text(client_name(client.ip()))),
            Fact::Country | Fact::System => {
                return source::place(variable.fact, self.locator.as_deref(), self.client?.ip());
            }
            Fact::Host => return self.host.as_deref().map(source::host),
            Fact::Target => return Some(Cow::Owned(self.path_and_query())),
            Fact::Method => Some(self.received.method_text()),
            Fact::Path => Some(&*self.path),
            Fact::Query => self.query.as_deref(),
            Fact::Header => self.received.values(&variable.name).next(),
            Fact::Cookie => {
                let mut fields = self.received.values("cookie");
                fields.find_map(|field| source::cookie(field, &variable.name))
            }
            Fact::Argument => source::argument(self.query.as_deref()?, &variable.name),
            Fact::Claim => return self.claims.as_ref()?.value(&variable.name).map(source::text),
            Fact::Bot => self.bot.as_ref().map(|bot| bot.name.as_bytes()),
            Fact::BotVerified => self.bot.as_ref().map(|bot| bot.state.as_bytes()),
            Fact::User => self.user.as_deref().map(str::as_bytes),
            // The scheme is that of the client's connection to a trusted proxy.
            Fact::Scheme => Some(if self.is_https() { &b"https"[..] } else { b"http" }),
            fact => return source::of_connection(&connection_of(self), fact),
        };
        value.map(Cow::Borrowed)
    }
}
