//! Interfaces for requests that no file answers: those for programs, origins and plug-ins.
//!
//! An [`Interface`](handler::Interface) is the configuration of one of these, shared by all cores. Each core
//! makes a [`Handler`](handler::Handler) of it, which converts a [`Request`](request::Request) to an
//! [`Answer`](answer::Answer). Bodies are streamed in both directions through a [`pipe`]: the slower end
//! determines the speed, and each end notices when the other is dropped.
//!
//! | module | |
//! |---|---|
//! | `handler` | the traits of interfaces, and the functions of the server that a handler may call |
//! | `request` | a request as handlers get it |
//! | `answer` | an answer before it is written |
//! | `ranges` | ranges of a representation as its body |
//! | `reason_phrase` | the reason phrase of its status |
//! | `pipe` | a body between a connection and a handler |
//! | `interim` | interim responses before an answer |
//! | `trace` | the trace of a request, and the spans in it |
//! | `variables` | the values of variables of conditions and texts |
//! | `shared_by_name` | values that are kept under a name as long as something uses them |
//! | `configurations` | which configurations use such a value |
//! | `count`, `service_counts` | a count; all counts of one server, by name, of the next modules |
//! | `component_counts` | the counts of WebAssembly components |
//! | `crawler_counts` | the counts of bots and of visitors that are checked |
//! | `login_counts` | the counts of logins |
//! | `stream_counts` | the counts of streams: connections without requests |
//! | `webdav_counts` | the counts of WebDAV |
//!
//! The interfaces themselves are in crates above this one: `interfaces`, `servlet`, `nsapi`, `wasm`.

pub mod answer;
pub mod component_counts;
pub mod configurations;
pub mod count;
pub mod crawler_counts;
pub mod handler;
pub mod interim;
pub mod login_counts;
pub mod pipe;
pub mod ranges;
pub mod reason_phrase;
pub mod request;
pub mod service_counts;
pub mod shared_by_name;
pub mod stream_counts;
pub mod trace;
pub mod variables;
pub mod webdav_counts;
