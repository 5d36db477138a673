//! CGI/1.1 (RFC 3875): a program is started for each request. It gets the request in its environment, and
//! answers on its standard output.
//!
//! ```text
//! server: handler -> resolve, spool, queue -> connection --- socket ---> spawner -> spawn: the program
//!            ^------- run: input, output, error output, time ------------------------'
//! ```
//!
//! | module | |
//! |---|---|
//! | [`settings`] | the settings |
//! | [`handler`] | a request from its path to its answer |
//! | [`resolve`] | from a path to a program |
//! | [`queue`] | limits how many run at a time |
//! | [`spool`] | bodies whose length is not known |
//! | [`run`] | one running program, with its [`error_output`] |
//! | [`service`], [`connection`] | the server's side of the spawners: all of them, and that of a core |
//! | [`message`] | the messages between server and spawner |
//! | [`spawner`] | the process that starts programs, and why there is one |
//! | [`spawn`] | starts one program |

pub mod connection;
pub mod error_output;
pub mod handler;
pub mod message;
pub mod queue;
pub mod resolve;
pub mod run;
pub mod service;
pub mod settings;
pub mod spawn;
pub mod spawner;
pub mod spool;
