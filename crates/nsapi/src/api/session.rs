//! `session_*`: sessions that plug-ins make, and the name of a client.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::{Netbuf, Session};
use crate::memory::{allocate_for_good, bytes, free};
use crate::pblock;

/// A session without the block of the client and without a buffer, which [`session_fill`] adds.
pub unsafe extern "C" fn session_alloc(csd: *mut c_void, address: *mut libc::sockaddr_in) -> *mut Session {
    let session = allocate_for_good(size_of::<Session>()).cast::<Session>();
    if session.is_null() {
        return session;
    }
    let mut new: Session = std::mem::zeroed();
    new.csd = csd;
    new.csd_open = 1;
    new.pool = crate::memory::current_pool().cast();
    if let Some(address) = address.as_ref() {
        new.iaddr = address.sin_addr;
    }
    session.write(new);
    session
}

/// Adds the block of the client, with its address, and the buffer.
pub unsafe extern "C" fn session_fill(session: *mut Session) -> *mut Session {
    let Some(filled) = session.as_mut() else { return session };
    let before = crate::memory::set_current_pool(ptr::null_mut());
    if filled.client.is_null() {
        filled.client = pblock::pblock_create(5);
        if filled.iaddr.s_addr != 0 {
            let ip = std::net::Ipv4Addr::from(filled.iaddr.s_addr.to_ne_bytes()).to_string();
            pblock::insert(filled.client, b"ip", ip.as_bytes());
        }
    }
    if filled.inbuf.is_null() {
        filled.inbuf = super::buffer::netbuf_open(filled.csd, crate::plugin_request::BODY_BUFFER_BYTES);
    }
    crate::memory::set_current_pool(before);
    session
}

pub unsafe extern "C" fn session_create(csd: *mut c_void, address: *mut libc::sockaddr_in) -> *mut Session {
    session_fill(session_alloc(csd, address))
}

pub unsafe extern "C" fn session_free(session: *mut Session) {
    if session.is_null()
        || crate::handle::handle((*session).csd).is_some_and(|handle| !handle.plugin_request().is_null())
    {
        return;
    }
    pblock::pblock_free((*session).client);
    let inbuf: *mut Netbuf = (*session).inbuf;
    super::buffer::netbuf_close(inbuf);
    free(session.cast());
}

/// The name of the client, which is then stored in its block as well; null if it has none. Queries DNS, so it
/// may take long.
pub unsafe extern "C" fn session_dns_lookup(session: *mut Session, verify: c_int) -> *mut c_char {
    let Some(session) = session.as_mut() else { return ptr::null_mut() };
    let known = pblock::find_param(session.client, b"dns");
    if !known.is_null() {
        let is_none = bytes((*known).value) == b"-none";
        return if is_none { ptr::null_mut() } else { (*known).value };
    }
    let is_off = crate::engine::current().is_none_or(|engine| {
        // As configured in magnus.conf; off by default, because a look-up can take seconds.
        !engine.setting("DNS").is_some_and(|value| crate::engine::is_true(value.as_bytes()))
    });
    if is_off {
        return ptr::null_mut();
    }
    let ip = pblock::find(session.client, b"ip").unwrap_or_default();
    let name = match String::from_utf8_lossy(ip).parse() {
        Ok(ip) => super::net::host_of(ip, verify != 0),
        Err(_) => None,
    };
    // A missing name is stored too, so that DNS is queried only once.
    let param = pblock::insert(session.client, b"dns", name.as_deref().unwrap_or("-none").as_bytes());
    if name.is_none() || param.is_null() { ptr::null_mut() } else { (*param).value }
}

pub unsafe extern "C" fn util_hostname() -> *mut c_char {
    let mut name = [0u8; 256];
    if libc::gethostname(name.as_mut_ptr().cast(), 255) != 0 {
        return ptr::null_mut();
    }
    crate::memory::text(bytes(name.as_ptr().cast()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_made_at_once_or_in_two_steps() {
        // SAFETY: the structures are valid, and each session is freed once.
        unsafe {
            let mut address: libc::sockaddr_in = std::mem::zeroed();
            address.sin_addr.s_addr = u32::from_ne_bytes([192, 0, 2, 1]);
            let session = session_alloc(ptr::null_mut(), &raw mut address);
            assert!((*session).client.is_null() && (*session).inbuf.is_null());
            assert_eq!(session_fill(session), session);
            let whole = session_create(ptr::null_mut(), &raw mut address);
            for session in [session, whole] {
                assert_eq!(pblock::find((*session).client, b"ip"), Some(&b"192.0.2.1"[..]));
                let client = (*session).client;
                assert_eq!((*session_fill(session)).client, client);
                session_free(session);
            }
            assert!(session_fill(ptr::null_mut()).is_null());
            session_free(session_alloc(ptr::null_mut(), ptr::null_mut()));
        }
    }
}
