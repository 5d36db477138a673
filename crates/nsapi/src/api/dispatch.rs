//! `object_*`, `objset_*` and `filter_*`: internals of the original servers, and filters. Touchstone's
//! configuration does not use these structures; searching finds nothing, and changes are refused.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::{IO_ERROR, Pblock, REQ_ABORTED, REQ_NOACTION, Request, Session, error_handle};
use crate::engine::unsupported;

macro_rules! nothing {
    ($($name:ident ($($parameter:ty),*) -> $answer:ty = $value:expr;)*) => {
        $(pub unsafe extern "C" fn $name($(_: $parameter),*) -> $answer {
            unsupported(stringify!($name));
            $value
        })*
    };
}

type Pointer = *mut c_void;

nothing! {
    object_execute(Pointer, *mut Session, *mut Request) -> c_int = REQ_ABORTED;
    object_create(c_int, *mut Pblock) -> Pointer = ptr::null_mut();
    object_free(Pointer) -> () = ();
    object_add_directive(c_int, *mut Pblock, *mut Pblock, Pointer) -> () = ();
    objset_scan_buffer(Pointer, *mut c_char, Pointer) -> Pointer = ptr::null_mut();
    objset_create() -> Pointer = ptr::null_mut();
    objset_free(Pointer) -> () = ();
    objset_free_setonly(Pointer) -> () = ();
    objset_new_object(*mut Pblock, Pointer) -> Pointer = ptr::null_mut();
    objset_add_object(Pointer, Pointer) -> () = ();
    objset_add_init(*mut Pblock, Pointer) -> () = ();
    objset_findbyname(*const c_char, Pointer, Pointer) -> Pointer = ptr::null_mut();
    objset_findbyppath(*mut c_char, Pointer, Pointer) -> Pointer = ptr::null_mut();
    objset_get_number_objects(Pointer) -> c_int = 0;
    objset_get_object(Pointer, c_int) -> Pointer = ptr::null_mut();
    objset_get_initfns(Pointer) -> Pointer = ptr::null_mut();
    object_get_name(Pointer) -> Pointer = ptr::null_mut();
    object_get_num_directives(Pointer) -> c_int = 0;
    object_get_directive_table(Pointer, c_int) -> Pointer = ptr::null_mut();
    directive_table_get_num_directives(Pointer) -> c_int = 0;
    directive_table_get_directive(Pointer, c_int) -> Pointer = ptr::null_mut();
    directive_get_pblock(Pointer) -> Pointer = ptr::null_mut();
    directive_get_funcstruct(Pointer) -> Pointer = ptr::null_mut();
    directive_get_client_pblock(Pointer) -> Pointer = ptr::null_mut();
    vs_get_httpd_objset(Pointer) -> Pointer = ptr::null_mut();
    vs_get_default_httpd_object(Pointer) -> Pointer = ptr::null_mut();
    rsa_set_priv_fn(Pointer) -> c_int = -1;
    filter_create(*const c_char, c_int, Pointer) -> Pointer = ptr::null_mut();
    filter_name(Pointer) -> *const c_char = c"".as_ptr();
    filter_find(*const c_char) -> Pointer = ptr::null_mut();
    filter_layer(Pointer, Pointer) -> Pointer = ptr::null_mut();
    filter_insert(Pointer, *mut Pblock, *mut Session, *mut Request, Pointer, Pointer) -> c_int = REQ_ABORTED;
    filter_remove(Pointer, Pointer) -> c_int = REQ_NOACTION;
    filter_create_stack(*mut Session) -> Pointer = error_handle();
    // For Windows only, or internal to the original server: never called on Unix.
    not_on_unix() -> Pointer = ptr::null_mut();
    not_for_plugins() -> c_int = IO_ERROR;
}

pub unsafe extern "C" fn ereport_terminate() {}

pub unsafe extern "C" fn servssl_init() {}
