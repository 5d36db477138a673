//! Hits of the cache before programs and origins, on an HTTP/1 connection: like those of files, each is one write of a
//! buffer that was ready before.

use touchstone_files::cache::Variant;

use super::hits::Hit;
use super::{Connection, protocol_of};
use crate::accelerator::{self, Ready};
use crate::account::{self, HitOf};
use crate::core::Hot;
use touchstone_http::request_view::{HeadFields, RequestView};

impl Connection {
    /// Answers the plain GET in `hot.head` from the cache; `None`: nothing is stored for it that is ready.
    #[inline]
    pub(super) fn try_accelerated(
        &mut self,
        hot: &mut Hot,
        bytes: &[u8],
        site: usize,
        path: &[u8],
        last: bool,
    ) -> Option<Hit> {
        let variant = self.variant(hot);
        let date = self.core.clock.second();
        let snapshot = &hot.snapshot;
        let fields = HeadFields { head: &hot.head, buffer: bytes };
        let is_tls = self.transport.scheme() != "http";
        let is_secure = snapshot.connection_gate.is_secure(self.peer.map(|peer| peer.ip()), &fields, is_tls);
        let target = hot.head.target.of(bytes);
        let view = RequestView {
            client: self.peer.map(|peer| snapshot.connection_gate.client(peer.ip(), &fields)),
            method: b"GET",
            path,
            query: (path.len() < target.len()).then(|| &target[path.len() + 1..]),
            host: hot.head.host.map(|host| host.of(bytes)),
            fields: &fields,
        };
        let site_now = &snapshot.sites[site];
        let front = hot.front.as_mut()?;
        let Ready { prepared, route } =
            accelerator::ready(front, site_now, &view, fields, is_secure, (variant, &date))?;
        let (first, second) = (prepared.first_buffer(), prepared.second_buffer());
        if last && hot.gathered.is_empty() {
            match self.send_answer(first, second, variant) {
                Ok(sent) if sent == first.len() + second.len() => {}
                Ok(sent) => return Some(Hit::Partly { prepared: prepared.clone(), sent }),
                Err(_) => return Some(Hit::Broken),
            }
        } else {
            hot.gathered.extend_from_slice(first);
            hot.gathered.extend_from_slice(second);
        }
        let body_bytes = prepared.body_length() as u64;
        self.requests += 1;
        let protocol = protocol_of(&hot.head);
        if hot.log.is_on() {
            self.tls_facts();
        }
        let of = HitOf { site, route: Some(route), is_accelerated: true };
        account::note_hit(hot, self.origin(protocol), of, body_bytes, |_| None, bytes);
        Some(Hit::Answered { persistent: variant != Variant::Close })
    }
}
