//! The structures and constants of `include/nsapi.h`, which plug-ins read and write.
//!
//! Every size and offset is asserted below at compile time, and once more from C in `shim/layout.c`.

#![allow(missing_docs, reason = "the members are those of nsapi.h, which says what they are")]

use std::ffi::{c_char, c_int, c_long, c_short, c_uint, c_ulong, c_void};

/// A name with its value.
#[repr(C)]
pub struct PbParam {
    pub name: *mut c_char,
    pub value: *mut c_char,
}

/// A link in a chain of a [`Pblock`].
#[repr(C)]
pub struct PbEntry {
    pub param: *mut PbParam,
    pub next: *mut PbEntry,
}

/// A parameter block: a hash table with chains. Plug-ins walk through it.
#[repr(C)]
pub struct Pblock {
    pub hsize: c_int,
    pub ht: *mut *mut PbEntry,
}

/// A connection with its client.
#[repr(C)]
pub struct Session {
    pub client: *mut Pblock,
    pub csd: *mut c_void,
    pub inbuf: *mut Netbuf,
    pub csd_open: c_int,
    pub iaddr: libc::in_addr,
    pub pool: *mut c_void,
    pub clauth: *mut c_void,
    pub next: *mut Session,
    pub fill: c_int,
    pub local_addr: libc::sockaddr_in,
    pub subject: *mut c_void,
    pub ssl: c_int,
    pub clientauth: c_int,
    pub pr_client_addr: *mut c_void,
    pub pr_local_addr: *mut c_void,
}

/// A request.
#[repr(C)]
pub struct Request {
    pub vars: *mut Pblock,
    pub reqpb: *mut Pblock,
    pub loadhdrs: c_int,
    pub headers: *mut Pblock,
    pub senthdrs: c_int,
    pub srvhdrs: *mut Pblock,
    pub os: *mut c_void,
    pub tmpos: *mut c_void,
    pub statpath: *mut c_char,
    pub staterr: *mut c_char,
    pub finfo: *mut libc::stat,
    pub aclstate: c_int,
    pub acldirno: c_int,
    pub aclname: *mut c_char,
    pub aclpb: *mut Pblock,
    pub acllist: *mut c_void,
    pub request_is_cacheable: c_int,
    pub directive_is_cacheable: c_int,
    pub cached_headers: *mut c_char,
    pub cached_headers_len: c_int,
    pub unused: *mut c_char,
    pub req_start: libc::time_t,
    pub protv_num: c_short,
    pub method_num: c_short,
    pub rq_attr: c_ulong,
    pub hostname: *mut c_char,
    pub allowed: c_int,
    pub byterange: c_int,
    pub status_num: c_short,
    pub staterrno: c_int,
    pub orig_rq: *mut Request,
}

/// `rq_attr.chunked`
pub const ATTRIBUTE_CHUNKED: c_ulong = 1 << 1;
/// `rq_attr.keep_alive`
pub const ATTRIBUTE_KEEP_ALIVE: c_ulong = 1 << 2;
/// `rq_attr.internal_req`
pub const ATTRIBUTE_INTERNAL: c_ulong = 1 << 4;
/// `rq_attr.req_restarted`
pub const ATTRIBUTE_RESTARTED: c_ulong = 1 << 9;

/// A connection that is read through a buffer.
#[repr(C)]
pub struct Netbuf {
    pub sd: *mut c_void,
    pub pos: c_int,
    pub cursize: c_int,
    pub maxsize: c_int,
    pub rdtimeout: c_int,
    pub inbuf: *mut u8,
    pub errmsg: *mut c_char,
    pub address: [c_char; 64],
}

/// A file that is read through a buffer.
#[repr(C)]
pub struct Filebuffer {
    pub fd: *mut c_void,
    pub fp: *mut c_char,
    pub len: c_int,
    pub inbuf: *mut u8,
    pub cursize: c_int,
    pub pos: c_int,
    pub errmsg: *const c_char,
}

/// The properties of a file that its extensions imply.
#[repr(C)]
pub struct Cinfo {
    pub r#type: *mut c_char,
    pub encoding: *mut c_char,
    pub language: *mut c_char,
}

/// For `net_sendfile`.
#[repr(C)]
pub struct SendFileData {
    pub fd: *mut c_void,
    pub offset: usize,
    pub len: usize,
    pub header: *const c_void,
    pub hlen: c_int,
    pub trailer: *const c_void,
    pub tlen: c_int,
}

/// For `net_writev`.
#[repr(C)]
pub struct IoVec {
    pub iov_base: *mut c_char,
    pub iov_len: c_int,
}

/// A function of a plug-in.
pub type FuncPtr = unsafe extern "C" fn(*mut Pblock, *mut Session, *mut Request) -> c_int;

/// A function with its name, as the tables of functions hold it.
#[repr(C)]
pub struct FuncStruct {
    pub name: *const c_char,
    pub func: Option<FuncPtr>,
    pub next: *mut FuncStruct,
    pub flags: c_uint,
    pub pool_id: c_uint,
    pub pool_resolved: c_uint,
}

/// Memory shared between processes.
#[repr(C)]
pub struct SharedMemory {
    pub data: *mut c_void,
    pub size: c_int,
    pub name: *mut c_char,
    pub fd: *mut c_void,
}

/// The values that the macros `server_hostname`, `server_portnum`, `security_active` and so on read.
#[repr(C)]
pub struct ConfGlobals {
    pub port: c_int,
    pub addr: *mut c_char,
    pub userpw: *mut libc::passwd,
    pub chr: *mut c_char,
    pub pidfn: *mut c_char,
    pub pool_max: c_int,
    pub pool_min: c_int,
    pub pool_life: c_int,
    pub pool_maxthreads: c_int,
    pub pool_minthreads: c_int,
    pub secure_keyfn: *mut c_char,
    pub secure_certfn: *mut c_char,
    pub security_active: c_int,
    pub ssl3_active: c_int,
    pub ssl2_active: c_int,
    pub secure_auth: c_int,
    pub security_session_timeout: c_int,
    pub ssl3_session_timeout: c_long,
    pub server_hostname: *mut c_char,
    pub root_object: *mut c_char,
    pub std_os: *mut c_void,
    pub acl_root: *mut c_void,
    pub master_error_log: *mut c_char,
    pub server_root: *mut c_char,
    pub server_id: *mut c_char,
    pub admin_users: *mut c_char,
    pub netsite_root: *mut c_char,
    pub digest_stale_timeout: c_int,
    pub obsolete_numbers: [c_int; 7],
    pub accept_language: c_int,
    pub mtahost: *mut c_char,
    pub nntphost: *mut c_char,
    pub acl_root_30: *mut c_void,
    pub agent_file_path: *mut c_char,
    pub allowed: c_int,
    pub generic_globals: *mut Pblock,
    pub agents_acl_file: *mut c_char,
    pub more_numbers: [c_int; 7],
    pub initfns: *mut *mut Pblock,
    pub vs_config_file: *mut c_char,
}

pub const REQ_PROCEED: c_int = 0;
pub const REQ_ABORTED: c_int = -1;
pub const REQ_NOACTION: c_int = -2;
pub const REQ_EXIT: c_int = -3;
pub const REQ_RESTART: c_int = -4;
pub const REQ_TOOBUSY: c_int = -5;

pub const IO_OKAY: c_int = 1;
pub const IO_ERROR: c_int = -1;
pub const IO_EOF: c_int = 0;
pub const NETBUF_EOF: c_int = -1;
pub const NETBUF_ERROR: c_int = -2;

pub const LOG_WARN: c_int = 0;
pub const LOG_MISCONFIG: c_int = 1;
pub const LOG_FAILURE: c_int = 3;
pub const LOG_CATASTROPHE: c_int = 4;
pub const LOG_INFORM: c_int = 5;

/// The version of the interface that this server reports.
pub const NSAPI_VERSION: c_int = 303;

/// `SYS_ERROR_FD` and `SYS_NET_ERRORFD`.
pub fn error_handle() -> *mut c_void {
    std::ptr::without_provenance_mut(usize::MAX)
}

/// The number of a method, or -1.
pub fn method_number(method: &[u8]) -> c_short {
    const NAMES: [&[u8]; 12] = [
        b"HEAD", b"GET", b"PUT", b"POST", b"DELETE", b"TRACE", b"OPTIONS", b"MOVE", b"INDEX", b"MKDIR",
        b"RMDIR", b"COPY",
    ];
    NAMES.iter().position(|name| *name == method).map_or(-1, |number| number as c_short)
}

#[cfg(target_pointer_width = "64")]
mod layout {
    use super::*;
    use std::mem::{offset_of, size_of};

    macro_rules! layout {
        ($($type:ident $size:literal { $($field:ident $offset:literal)* })*) => {
            $(
                const _: () = assert!(size_of::<$type>() == $size, concat!("size of ", stringify!($type)));
                $(const _: () = assert!(
                    offset_of!($type, $field) == $offset,
                    concat!("offset of ", stringify!($type), ".", stringify!($field))
                );)*
            )*
        };
    }

    layout! {
        PbParam 16 { name 0 value 8 }
        PbEntry 16 { param 0 next 8 }
        Pblock 16 { hsize 0 ht 8 }
        Session 112 {
            client 0 csd 8 inbuf 16 csd_open 24 iaddr 28 pool 32 clauth 40 next 48 fill 56 local_addr 60
            subject 80 ssl 88 clientauth 92 pr_client_addr 96 pr_local_addr 104
        }
        Request 208 {
            vars 0 reqpb 8 loadhdrs 16 headers 24 senthdrs 32 srvhdrs 40 os 48 tmpos 56 statpath 64 staterr 72
            finfo 80 aclstate 88 acldirno 92 aclname 96 aclpb 104 acllist 112 request_is_cacheable 120
            directive_is_cacheable 124 cached_headers 128 cached_headers_len 136 unused 144 req_start 152
            protv_num 160 method_num 162 rq_attr 168 hostname 176 allowed 184 byterange 188 status_num 192
            staterrno 196 orig_rq 200
        }
        Netbuf 104 { sd 0 pos 8 cursize 12 maxsize 16 rdtimeout 20 inbuf 24 errmsg 32 address 40 }
        Filebuffer 48 { fd 0 fp 8 len 16 inbuf 24 cursize 32 pos 36 errmsg 40 }
        Cinfo 24 { r#type 0 encoding 8 language 16 }
        SendFileData 56 { fd 0 offset 8 len 16 header 24 hlen 32 trailer 40 tlen 48 }
        IoVec 16 { iov_base 0 iov_len 8 }
        FuncStruct 40 { name 0 func 8 next 16 flags 24 pool_id 28 pool_resolved 32 }
        SharedMemory 32 { data 0 size 8 name 16 fd 24 }
        ConfGlobals 328 {
            port 0 addr 8 userpw 16 chr 24 pidfn 32 pool_max 40 pool_min 44 pool_life 48 pool_maxthreads 52
            pool_minthreads 56 secure_keyfn 64 secure_certfn 72 security_active 80 ssl3_session_timeout 104
            server_hostname 112 root_object 120 std_os 128 acl_root 136 master_error_log 144 server_root 152
            server_id 160 admin_users 168 netsite_root 176 digest_stale_timeout 184 accept_language 216
            mtahost 224 nntphost 232 acl_root_30 240 agent_file_path 248 allowed 256 generic_globals 264
            agents_acl_file 272 more_numbers 280 initfns 312 vs_config_file 320
        }
    }
}
