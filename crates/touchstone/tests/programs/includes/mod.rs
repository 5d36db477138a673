//! Pages with directives from the outside: the server as visitors and operators see it, and its output beside
//! that of Apache and nginx, byte for byte.

mod oracle;
mod oracle_pages;
mod serving;
