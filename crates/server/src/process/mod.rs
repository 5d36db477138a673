//! The server as a process: its start, signals and the control socket, and the loop of each core.
//!
//! | module | |
//! |---|---|
//! | `server` | opens all files and sockets, and starts the cores |
//! | `running` | reload, upgrade, stop |
//! | `core_loop` | the event loop of a core |
//! | `listening`, `listener` | the listening sockets of the process, and the accept loop of a core |
//! | `socket_rights` | the permissions and owners of the files of unix sockets |
//! | `datagram_sockets` | the sockets of streams for datagrams |
//! | `stream_server` | the functions of a core for streams |
//! | `control_api` | opens the control API for the changes that outlive a process |
//! | `operator_view` | the state of the server for the admin listener |

mod control_api;
pub mod core_loop;
pub mod datagram_sockets;
pub mod listener;
pub mod listening;
pub mod operator_view;
pub mod running;
pub mod server;
mod socket_rights;
mod stream_server;
