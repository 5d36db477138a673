//! HTTP/3 from the outside, with a client that shares no code with the server: aioquic, driven by
//! `client.py`.

pub(crate) mod client;
mod connections;
mod content;
mod early_data;
mod errors;
mod lookups;
mod programs;
mod sites;
mod tunnels;

use crate::support::{Server, Tree};
use client::Client;

/// A server of `tree` with two cores and HTTP/3, and a client process; `None` if there is no client.
fn server_and_client(tree: &Tree, more: &[&str]) -> Option<(Server, Client)> {
    let client = Client::start()?;
    let root = tree.root();
    let root = root.to_str().expect("the path is text");
    let fixed =
        ["--listen", "127.0.0.1:0", "--root", root, "--development-certificate", "--http3", "--cores", "2"];
    Some((Server::start(fixed.iter().chain(more)), client))
}

/// A server with this `[[site]]` and these sections before it, and a client process.
fn configured(tree: &Tree, sections: &str, site: &str) -> Option<(Server, Client)> {
    let client = Client::start()?;
    let text = format!(
        "[server]\ncores = 2\n{sections}\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\nhttp3 = true\n\
         {site}\n",
        tree.root()
    );
    Some((Server::configured(tree.around(), &text), client))
}
