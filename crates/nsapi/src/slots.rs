//! The tables that plug-ins call through: every slot in its order, with the function behind it.
//!
//! The names are those of `include/nsapi.h`; a test compares them. The pointers `__nsapi30_table` and its
//! like, which plug-ins look for, are in `shim/exports.c`.

use std::ffi::c_void;

use crate::api::*;
use crate::{engine, memory, pblock};

/// Functions of the shim. Only their addresses are taken, so their types do not matter here.
mod shim {
    use std::ffi::c_void;

    unsafe extern "C" {
        pub fn ereport() -> *mut c_void;
        pub fn ereport_v() -> *mut c_void;
        pub fn log_ereport() -> *mut c_void;
        pub fn log_error() -> *mut c_void;
        pub fn log_error_v() -> *mut c_void;
        pub fn util_snprintf() -> *mut c_void;
        pub fn util_sprintf() -> *mut c_void;
        pub fn util_strcasecmp() -> *mut c_void;
        pub fn util_strncasecmp() -> *mut c_void;
        pub fn util_vsnprintf() -> *mut c_void;
        pub fn util_vsprintf() -> *mut c_void;
    }
}

// The pointers in `shim/exports.c`.
unsafe extern "C" {
    static __nsapi30_table: *const c_void;
    static __nsapi302_table: *const c_void;
    static __nsapi303_table: *const c_void;
}

/// Keeps the exported names in the program: a linker removes names that nothing refers to.
pub fn install() {
    // SAFETY: the pointers are set by the loader, and never changed.
    let tables = unsafe { [__nsapi30_table, __nsapi302_table, __nsapi303_table] };
    assert!(std::hint::black_box(tables).iter().all(|table| !table.is_null()));
}

/// The address of a function.
#[repr(transparent)]
pub struct Slot(*const c_void);

// SAFETY: addresses of functions may be read anywhere.
unsafe impl Sync for Slot {}

macro_rules! table {
    ($(#[$doc:meta])* $symbol:ident $names:ident $count:literal { $($name:ident = $function:path;)* }) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "the name is for C")]
        pub static $symbol: [Slot; $count] = [$(Slot($function as *const c_void)),*];

        #[cfg(test)]
        const $names: [&str; $count] = [$(stringify!($name)),*];
    };
}

table! {
    /// `nsapi_dispatch_s`
    touchstone_nsapi30_slots NAMES_30 308 {
        system_version = globals::system_version;
        system_malloc = memory::system_malloc;
        system_calloc = memory::system_calloc;
        system_realloc = memory::system_realloc;
        system_free = memory::system_free;
        system_strdup = memory::system_strdup;
        system_malloc_perm = memory::system_malloc_perm;
        system_calloc_perm = memory::system_calloc_perm;
        system_realloc_perm = memory::system_realloc_perm;
        system_free_perm = memory::system_free_perm;
        system_strdup_perm = memory::system_strdup_perm;
        getThreadMallocKey = memory::get_thread_malloc_key;
        magnus_atrestart = engine::magnus_atrestart;
        filebuf_open = buffer::filebuf_open;
        netbuf_open = buffer::netbuf_open;
        filebuf_create = buffer::filebuf_create;
        filebuf_close_buffer = buffer::filebuf_close_buffer;
        filebuf_open_nostat = buffer::filebuf_open_nostat;
        pipebuf_open = dispatch::not_on_unix;
        filebuf_next = buffer::filebuf_next;
        netbuf_next = buffer::netbuf_next;
        pipebuf_next = dispatch::not_on_unix;
        filebuf_close = buffer::filebuf_close;
        netbuf_close = buffer::netbuf_close;
        pipebuf_close = dispatch::not_on_unix;
        filebuf_grab = buffer::filebuf_grab;
        netbuf_grab = buffer::netbuf_grab;
        pipebuf_grab = dispatch::not_on_unix;
        netbuf_buf2sd = buffer::netbuf_buf2sd;
        filebuf_buf2sd = buffer::filebuf_buf2sd;
        pipebuf_buf2sd = dispatch::not_on_unix;
        pipebuf_netbuf2sd = dispatch::not_on_unix;
        pipebuf_netbuf2pipe = dispatch::not_on_unix;
        cinfo_init = types::cinfo_nothing;
        cinfo_terminate = types::cinfo_nothing;
        cinfo_merge = types::cinfo_merge;
        cinfo_find = types::cinfo_find;
        cinfo_lookup = types::cinfo_lookup;
        cinfo_dump_database = types::cinfo_dump_database;
        crit_init = sync::crit_init;
        crit_enter = sync::crit_enter;
        crit_exit = sync::crit_exit;
        crit_terminate = sync::crit_terminate;
        condvar_init = sync::condvar_init;
        condvar_wait = sync::condvar_wait;
        condvar_notify = sync::condvar_notify;
        condvar_notifyAll = sync::condvar_notify_all;
        condvar_terminate = sync::condvar_terminate;
        cs_init = sync::cs_init;
        cs_terminate = sync::cs_terminate;
        cs_wait = sync::cs_wait;
        cs_trywait = sync::cs_trywait;
        cs_release = sync::cs_release;
        daemon_atrestart = engine::magnus_atrestart;
        servssl_init = dispatch::servssl_init;
        ereport = shim::ereport;
        ereport_v = shim::ereport_v;
        ereport_init = files::ereport_init;
        ereport_terminate = dispatch::ereport_terminate;
        ereport_getfd = files::ereport_getfd;
        system_fopenRO = files::system_fopen_ro;
        system_fopenWA = files::system_fopen_wa;
        system_fopenRW = files::system_fopen_rw;
        system_fopenWT = files::system_fopen_wt;
        system_fread = files::system_fread;
        system_fwrite = files::system_fwrite;
        system_fwrite_atomic = files::system_fwrite_atomic;
        system_lseek = files::system_lseek;
        system_fclose = files::system_fclose;
        system_stat = files::system_stat;
        system_rename = files::system_rename;
        system_unlink = files::system_unlink;
        system_tlock = files::system_tlock;
        system_flock = files::system_flock;
        system_ulock = files::system_ulock;
        dir_open = dispatch::not_on_unix;
        dir_read = dispatch::not_on_unix;
        dir_close = dispatch::not_on_unix;
        dir_create_all = files::dir_create_all;
        system_winsockerr = dispatch::not_on_unix;
        system_winerr = dispatch::not_on_unix;
        system_pread = dispatch::not_on_unix;
        system_pwrite = dispatch::not_on_unix;
        file_unix2local = dispatch::not_on_unix;
        system_nocoredumps = files::system_nocoredumps;
        file_setinherit = files::file_setinherit;
        file_notfound = files::file_notfound;
        system_errmsg = files::system_errmsg;
        system_errmsg_fn = files::system_errmsg_fn;
        net_socket = net::net_socket;
        net_listen = net::net_listen;
        net_create_listener = net::net_create_listener;
        net_connect = net::net_connect;
        net_getpeername = net::net_getpeername;
        net_close = net::net_close;
        net_bind = net::net_bind;
        net_accept = net::net_accept;
        net_read = net::net_read;
        net_write = net::net_write;
        net_writev = net::net_writev;
        net_isalive = net::net_isalive;
        net_ip2host = net::net_ip2host;
        net_getsockopt = net::net_getsockopt;
        net_setsockopt = net::net_setsockopt;
        net_select = net::net_select;
        net_ioctl = net::net_ioctl;
        param_create = pblock::param_create;
        param_free = pblock::param_free;
        pblock_create = pblock::pblock_create;
        pblock_free = pblock::pblock_free;
        pblock_findval = pblock::pblock_findval;
        pblock_nvinsert = pblock::pblock_nvinsert;
        pblock_nninsert = pblock::pblock_nninsert;
        pblock_pinsert = pblock::pblock_pinsert;
        pblock_str2pblock = pblock::pblock_str2pblock;
        pblock_pblock2str = pblock::pblock_pblock2str;
        pblock_copy = pblock::pblock_copy;
        pblock_dup = pblock::pblock_dup;
        pblock_pb2env = env::pblock_pb2env;
        pblock_fr = pblock::pblock_fr;
        pblock_replace = pblock::pblock_replace;
        pool_create = memory::pool_create;
        pool_destroy = memory::pool_destroy;
        pool_enabled = memory::pool_enabled;
        pool_malloc = memory::pool_malloc;
        pool_free = memory::pool_free;
        pool_calloc = memory::pool_calloc;
        pool_realloc = memory::pool_realloc;
        pool_strdup = memory::pool_strdup;
        regexp_valid = regexp::regexp_valid;
        regexp_match = regexp::regexp_match;
        regexp_cmp = regexp::regexp_cmp;
        regexp_casecmp = regexp::regexp_casecmp;
        sem_init = sync::sem_init;
        sem_terminate = sync::sem_terminate;
        sem_grab = sync::sem_grab;
        sem_tgrab = sync::sem_tgrab;
        sem_release = sync::sem_release;
        session_alloc = session::session_alloc;
        session_fill = session::session_fill;
        session_create = session::session_create;
        session_free = session::session_free;
        session_dns_lookup = session::session_dns_lookup;
        shexp_valid = regexp::shexp_valid;
        shexp_match = regexp::shexp_match;
        shexp_cmp = regexp::shexp_cmp;
        shexp_casecmp = regexp::shexp_casecmp;
        shmem_alloc = sync::shmem_alloc;
        shmem_free = sync::shmem_free;
        systhread_start = thread::systhread_start;
        systhread_current = thread::systhread_current;
        systhread_yield = thread::systhread_yield;
        systhread_attach = thread::systhread_attach;
        systhread_detach = thread::systhread_detach;
        systhread_terminate = thread::systhread_terminate;
        systhread_sleep = thread::systhread_sleep;
        systhread_init = thread::systhread_init;
        systhread_timerset = thread::systhread_timerset;
        systhread_newkey = thread::systhread_newkey;
        systhread_getdata = thread::systhread_getdata;
        systhread_setdata = thread::systhread_setdata;
        systhread_set_default_stacksize = thread::systhread_set_default_stacksize;
        util_getline = buffer::util_getline;
        util_env_create = env::util_env_create;
        util_env_str = env::util_env_str;
        util_env_replace = env::util_env_replace;
        util_env_free = env::util_env_free;
        util_env_copy = env::util_env_copy;
        util_env_find = env::util_env_find;
        util_hostname = session::util_hostname;
        util_chdir2path = escape::util_chdir2path;
        util_is_mozilla = escape::util_is_mozilla;
        util_is_url = escape::util_is_url;
        util_later_than = time::util_later_than;
        util_time_equal = time::util_time_equal;
        util_str_time_equal = time::util_str_time_equal;
        util_uri_is_evil = escape::util_uri_is_evil;
        util_uri_parse = escape::util_uri_parse;
        util_uri_unescape = escape::util_uri_unescape;
        util_uri_escape = escape::util_uri_escape;
        util_url_escape = escape::util_url_escape;
        util_sh_escape = escape::util_sh_escape;
        util_mime_separator = escape::util_mime_separator;
        util_itoa = escape::util_itoa;
        util_vsprintf = shim::util_vsprintf;
        util_sprintf = shim::util_sprintf;
        util_vsnprintf = shim::util_vsnprintf;
        util_snprintf = shim::util_snprintf;
        util_strftime = time::util_strftime;
        util_strtok = escape::util_strtok;
        util_localtime = time::util_localtime;
        util_ctime = time::util_ctime;
        util_strerror = time::util_strerror;
        util_gmtime = time::util_gmtime;
        util_asctime = time::util_asctime;
        util_strcasecmp = shim::util_strcasecmp;
        util_strncasecmp = shim::util_strncasecmp;
        util_can_exec = files::util_can_exec;
        util_getpwnam = files::util_getpwnam;
        util_waitpid = files::util_waitpid;
        util_delete_directory = dispatch::not_on_unix;
        conf_init = dispatch::not_for_plugins;
        conf_run_init_functions = dispatch::not_for_plugins;
        conf_terminate = dispatch::not_for_plugins;
        conf_getglobals = globals::conf_getglobals;
        func_init = functions::func_init;
        func_find = functions::func_find;
        func_exec = functions::func_exec;
        func_insert = functions::func_insert;
        object_execute = dispatch::object_execute;
        http_find_request = dispatch::not_for_plugins;
        http_parse_request = protocol::http_parse_request;
        http_scan_headers = dispatch::not_for_plugins;
        http_start_response = protocol::http_start_response;
        http_hdrs2env = protocol::http_hdrs2env;
        http_status = protocol::http_status;
        http_set_finfo = protocol::http_set_finfo;
        http_dump822 = protocol::http_dump822;
        http_finish_request = protocol::http_finish_request;
        http_handle_session = dispatch::not_for_plugins;
        http_uri2url = protocol::http_uri2url;
        http_uri2url_dynamic = protocol::http_uri2url_dynamic;
        http_set_keepalive_timeout = protocol::http_set_keepalive_timeout;
        log_error_v = shim::log_error_v;
        log_error = shim::log_error;
        log_ereport_v = shim::ereport_v;
        log_ereport = shim::log_ereport;
        object_create = dispatch::object_create;
        object_free = dispatch::object_free;
        object_add_directive = dispatch::object_add_directive;
        objset_scan_buffer = dispatch::objset_scan_buffer;
        objset_create = dispatch::objset_create;
        objset_free = dispatch::objset_free;
        objset_free_setonly = dispatch::objset_free_setonly;
        objset_new_object = dispatch::objset_new_object;
        objset_add_object = dispatch::objset_add_object;
        objset_add_init = dispatch::objset_add_init;
        objset_findbyname = dispatch::objset_findbyname;
        objset_findbyppath = dispatch::objset_findbyppath;
        request_create = request::request_create;
        request_free = request::request_free;
        request_restart_internal = request::request_restart_internal;
        request_header = request::request_header;
        request_stat_path = request::request_stat_path;
        conf_getServerString = globals::conf_get_server_string;
        func_replace = functions::func_replace;
        net_socketpair = net::net_socketpair;
        net_dup2 = net::net_dup2;
        net_is_STDOUT = net::net_is_stdout;
        net_is_STDIN = net::net_is_stdin;
        func_set_native_thread_flag = globals::never_native;
        random_create = md5::random_create;
        random_update = md5::random_update;
        random_generate = md5::random_generate;
        random_destroy = md5::random_destroy;
        md5hash_create = md5::md5hash_create;
        md5hash_copy = md5::md5hash_copy;
        md5hash_begin = md5::md5hash_begin;
        md5hash_update = md5::md5hash_update;
        md5hash_end = md5::md5hash_end;
        md5hash_destroy = md5::md5hash_destroy;
        md5hash_data = md5::md5hash_data;
        ACL_SetupEval = request::acl_setup_eval;
        netbuf_getbytes = buffer::netbuf_getbytes;
        servact_translate_uri = request::servact_translate_uri;
        rsa_set_priv_fn = dispatch::rsa_set_priv_fn;
        net_native_handle = net::net_native_handle;
        internal_request = request::internal_request;
        util_cookie_find = cookie::util_cookie_find;
        util_cookie_next = cookie::util_cookie_next;
        util_cookie_next_av_pair = cookie::util_cookie_next_av_pair;
        objset_get_number_objects = dispatch::objset_get_number_objects;
        objset_get_object = dispatch::objset_get_object;
        objset_get_initfns = dispatch::objset_get_initfns;
        object_get_name = dispatch::object_get_name;
        object_get_num_directives = dispatch::object_get_num_directives;
        object_get_directive_table = dispatch::object_get_directive_table;
        directive_table_get_num_directives = dispatch::directive_table_get_num_directives;
        directive_table_get_directive = dispatch::directive_table_get_directive;
        directive_get_pblock = dispatch::directive_get_pblock;
        directive_get_funcstruct = dispatch::directive_get_funcstruct;
        directive_get_client_pblock = dispatch::directive_get_client_pblock;
        vs_register_cb = sites::vs_register_cb;
        vs_get_id = sites::vs_get_id;
        vs_lookup_config_var = sites::vs_lookup_config_var;
        vs_alloc_slot = sites::vs_alloc_slot;
        vs_set_data = sites::vs_set_data;
        vs_get_data = sites::vs_get_data;
        request_get_vs = sites::request_get_vs;
        vs_get_httpd_objset = dispatch::vs_get_httpd_objset;
        vs_get_default_httpd_object = dispatch::vs_get_default_httpd_object;
        vs_get_doc_root = sites::vs_get_doc_root;
        vs_translate_uri = sites::vs_translate_uri;
        vs_get_mime_type = sites::vs_get_mime_type;
        vs_is_default_vs = sites::vs_is_default_vs;
        vs_get_acllist = sites::vs_get_acllist;
        vs_set_acllist = sites::vs_set_acllist;
        file_is_path_abs = files::file_is_path_abs;
        file_canonicalize_path = files::file_canonicalize_path;
        file_are_files_distinct = files::file_are_files_distinct;
        vs_directive_register_cb = sites::vs_directive_register_cb;
        vs_substitute_vars = sites::vs_substitute_vars;
        conf_getfilename = sites::conf_getfilename;
        conf_getstring = sites::conf_getstring;
        conf_getboolean = sites::conf_getboolean;
        conf_getinteger = sites::conf_getinteger;
        conf_getboundedinteger = sites::conf_getboundedinteger;
        prepare_nsapi_thread = globals::prepare_nsapi_thread;
    }
}

table! {
    /// `nsapi302_dispatch_s`
    touchstone_nsapi302_slots NAMES_302 9 {
        net_flush = net::net_flush;
        net_sendfile = net::net_sendfile;
        filter_create = dispatch::filter_create;
        filter_name = dispatch::filter_name;
        filter_find = dispatch::filter_find;
        filter_layer = dispatch::filter_layer;
        filter_insert = dispatch::filter_insert;
        filter_remove = dispatch::filter_remove;
        filter_create_stack = dispatch::filter_create_stack;
    }
}

table! {
    /// `nsapi303_dispatch_s`
    touchstone_nsapi303_slots NAMES_303 1 {
        dns_set_hostent = request::dns_set_hostent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of a table in the header, in their order.
    fn names_in_header(table: &str) -> Vec<String> {
        let header = include_str!("../../../include/nsapi.h");
        let begin = header.find(&format!("struct {table} {{")).unwrap();
        let body = &header[begin..begin + header[begin..].find("\n};").unwrap()];
        let pointers = body.split("(*f_").skip(1);
        pointers.map(|rest| rest[..rest.find(')').unwrap()].to_string()).collect()
    }

    #[test]
    fn slots_stand_in_the_order_of_the_header() {
        assert_eq!(names_in_header("nsapi_dispatch_s"), NAMES_30);
        assert_eq!(names_in_header("nsapi302_dispatch_s"), NAMES_302);
        assert_eq!(names_in_header("nsapi303_dispatch_s"), NAMES_303);
        install();
    }

    #[test]
    fn plain_names_that_are_missing_are_documented() {
        let shim = [include_str!("../shim/exports.c"), include_str!("../shim/variadic.c")].concat();
        let docs = include_str!("../../../docs/nsapi.md");
        let documented = docs.split("Under plain names").nth(1).unwrap().split("\n## ").next().unwrap();
        let names: Vec<&str> = documented.split('`').skip(1).step_by(2).collect();
        let is_documented = |name: &str| {
            names.iter().any(|known| match known.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => *known == name,
            })
        };
        for name in NAMES_30.iter().chain(&NAMES_302).chain(&NAMES_303) {
            let is_exported = shim.contains(&format!(", {name}, ")) || shim.contains(&format!(", {name},\n"));
            assert!(
                is_exported || is_documented(name),
                "{name} is neither exported nor documented as missing"
            );
            assert!(!is_exported || names.iter().all(|known| known != name), "{name} is exported");
        }
    }
}
