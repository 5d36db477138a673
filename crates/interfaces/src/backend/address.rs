//! The address at which a program listens.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::{TcpStream, UnixStream};

use touchstone_upstream::stream::Stream;

/// The longest path of a socket: `sun_path` of Linux, without the zero byte at its end.
const LONGEST_SOCKET_PATH: usize = 107;

/// The address at which a program listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl Address {
    /// Reads `unix:/run/app.sock`, `/run/app.sock` or `127.0.0.1:9000`. Relative paths start at `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Address, String> {
        let path = match text.strip_prefix("unix:") {
            Some(path) => Some(path),
            None => text.contains('/').then_some(text),
        };
        if let Some(path) = path {
            let path = base.join(path);
            let length = path.as_os_str().len();
            return match path.to_string_lossy().contains('\0') || path.file_name().is_none() {
                true => Err(format!("{text:?} does not name a socket")),
                false if length > LONGEST_SOCKET_PATH => Err(format!(
                    "the path of a socket may have {LONGEST_SOCKET_PATH} bytes, and '{}' has {length}",
                    path.display()
                )),
                false => Ok(Address::Unix(path)),
            };
        }
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_string(),
        };
        match numeric.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Address::Tcp(address)),
            _ => Err(format!(
                "{text:?} is not an address of a program; write \"unix:/run/app.sock\" or \"127.0.0.1:9000\""
            )),
        }
    }

    /// Connects to the backend.
    pub async fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Address::Tcp(address) => write!(formatter, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse =
            |text| Address::parse(text, Path::new("/etc/touchstone")).map(|address| address.to_string());
        for (text, expected) in [
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("/run/app.sock", "unix:/run/app.sock"),
            ("unix:app.sock", "unix:/etc/touchstone/app.sock"),
            ("./app.sock", "unix:/etc/touchstone/./app.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("[::1]:9000", "[::1]:9000"),
        ] {
            assert_eq!(parse(text), Ok(expected.to_string()), "{text}");
        }
        for text in
            ["", "unix:", "/", "app", "app:9000", "127.0.0.1", "127.0.0.1:0", "localhost:", "localhost:99999"]
        {
            let refused = parse(text);
            // An empty path means the directory itself.
            assert!(refused.is_err() || text == "unix:", "{text}: {refused:?}");
        }
        assert!(parse(&format!("/{}", "a".repeat(107))).is_err());
    }
}
