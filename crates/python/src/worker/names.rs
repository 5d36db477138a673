//! Objects of Python that every request needs, made once.

/// A type with texts that are the same objects for all requests.
macro_rules! interned_names {
    ($($field:ident = $text:literal;)*) => {
        /// Texts that are the same objects for all requests.
        pub struct Names {
            $(pub $field: $crate::api::Object,)*
        }

        impl Names {
            /// Makes them.
            pub fn new(gil: $crate::api::Gil) -> Result<Names, $crate::api::PythonException> {
                Ok(Names { $($field: gil.interned($text)?,)* })
            }
        }
    };
}

pub(super) use interned_names;

interned_names! {
    request_method = c"REQUEST_METHOD";
    path_info = c"PATH_INFO";
    script_name = c"SCRIPT_NAME";
    query_string = c"QUERY_STRING";
    request_uri = c"REQUEST_URI";
    server_name = c"SERVER_NAME";
    server_port = c"SERVER_PORT";
    server_protocol = c"SERVER_PROTOCOL";
    server_software = c"SERVER_SOFTWARE";
    remote_addr = c"REMOTE_ADDR";
    remote_port = c"REMOTE_PORT";
    remote_user = c"REMOTE_USER";
    https = c"HTTPS";
    url_scheme = c"wsgi.url_scheme";
    input = c"wsgi.input";
    errors = c"wsgi.errors";
    wsgi_version = c"wsgi.version";
    multithread = c"wsgi.multithread";
    multiprocess = c"wsgi.multiprocess";
    run_once = c"wsgi.run_once";
    file_wrapper = c"wsgi.file_wrapper";
    input_terminated = c"wsgi.input_terminated";
    request_id = c"touchstone.request_id";
    close = c"close";
}
