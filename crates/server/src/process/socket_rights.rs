//! What the files of the unix sockets of a configuration are to be.

use std::collections::HashMap;

use touchstone_config::{Config, ListenAddress, socket_files};
use touchstone_lifecycle::privileges::{Account, socket_file_rights};
use touchstone_lifecycle::start_error::StartError;
use touchstone_lifecycle::unix_socket::SocketFileRights;

/// The rights of the file of each unix socket.
pub type SocketRights = HashMap<ListenAddress, SocketFileRights>;

/// Those of a configuration. `account` is the one under which the server is going to run.
pub fn socket_rights(config: &Config, account: Option<&Account>) -> Result<SocketRights, StartError> {
    let rights = |(address, file)| match socket_file_rights(&file, account) {
        Ok(rights) => Ok((address, rights)),
        Err((key, message)) => Err(StartError(format!("cannot listen on {address}: {key}: {message}"))),
    };
    socket_files(config).into_iter().map(rights).collect()
}
