//! The objects behind `SYS_NETFD` and `SYS_FILE`. A plug-in gets them from the server and passes them back; a
//! pointer to anything else is refused if its tag differs.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::abi::error_handle;

const TAG: usize = 0x6e73_6170_6920_6664;

/// A connection or a file.
#[repr(C)]
pub struct Handle {
    tag: usize,
    kind: Kind,
}

enum Kind {
    /// The client of the plug-in request at this address.
    Client(*mut c_void),
    Descriptor(OwnedFd),
}

impl Handle {
    /// A handle for the client of the plug-in request at this address.
    pub fn client(plugin_request: *mut c_void) -> Handle {
        Handle { tag: TAG, kind: Kind::Client(plugin_request) }
    }

    /// Makes a handle from a descriptor; `close` frees it.
    pub fn open(descriptor: OwnedFd) -> *mut c_void {
        Box::into_raw(Box::new(Handle { tag: TAG, kind: Kind::Descriptor(descriptor) })).cast()
    }

    /// The address of the plug-in request whose client this is, or null.
    pub fn plugin_request(&self) -> *mut c_void {
        match self.kind {
            Kind::Client(plugin_request) => plugin_request,
            Kind::Descriptor(_) => std::ptr::null_mut(),
        }
    }

    /// The descriptor, if it has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.kind {
            Kind::Client(_) => None,
            Kind::Descriptor(descriptor) => Some(descriptor.as_raw_fd()),
        }
    }
}

/// The handle behind a pointer of a plug-in.
///
/// # Safety
/// `pointer` must be null, -1, or point to at least 8 readable bytes that live as long as the result.
pub unsafe fn handle<'a>(pointer: *mut c_void) -> Option<&'a Handle> {
    if pointer.is_null() || pointer == error_handle() || !(pointer as usize).is_multiple_of(8) {
        return None;
    }
    let handle = pointer.cast::<Handle>();
    ((*handle).tag == TAG).then(|| &*handle)
}

/// The descriptor behind a pointer of a plug-in.
///
/// # Safety
/// As for [`handle`].
pub unsafe fn descriptor(pointer: *mut c_void) -> Option<RawFd> {
    handle(pointer)?.descriptor()
}

/// Closes a handle of [`Handle::open`]; the client of a request stays open.
///
/// # Safety
/// As for [`handle`], and the handle must not be used any more.
pub unsafe fn close(pointer: *mut c_void) -> bool {
    let Some(found) = handle(pointer) else { return false };
    if found.descriptor().is_some() {
        (*pointer.cast::<Handle>()).tag = 0;
        drop(Box::from_raw(pointer.cast::<Handle>()));
    }
    true
}
