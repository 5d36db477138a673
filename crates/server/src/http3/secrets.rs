//! The keys that the endpoints of all cores share: a packet may reach another core than its own, and a client
//! may send one core's token to another core. The keys exist as long as the process.

use std::sync::Arc;

use aws_lc_rs::{hkdf, hmac};
use quinn::{ServerConfig, ValidationTokenConfig, crypto};
use touchstone_observe::system_random;

/// The keys, which are new at each start.
#[derive(Clone)]
pub struct Secrets {
    /// Proves that a stateless reset is from this server (RFC 9000 section 10.3).
    pub reset_key: Arc<dyn crypto::HmacKey>,
    /// Encrypts the tokens that prove clients' addresses (RFC 9000 section 8.1).
    token_key: Arc<dyn crypto::HandshakeTokenKey>,
    /// Which tokens were used already.
    validation_tokens: ValidationTokenConfig,
}

impl Secrets {
    /// New keys. It fails if the system has no random numbers.
    pub fn new() -> Result<Secrets, &'static str> {
        let (mut reset, mut token) = ([0; 64], [0; 64]);
        for bytes in [&mut reset, &mut token] {
            if !system_random::fill(bytes) {
                return Err("the system returns no random bytes");
            }
        }
        Ok(Secrets {
            reset_key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)),
            token_key: Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&token)),
            validation_tokens: ValidationTokenConfig::default(),
        })
    }

    /// A configuration of QUIC with these keys.
    pub fn server_config(&self, tls: Arc<dyn crypto::ServerConfig>) -> ServerConfig {
        let mut config = ServerConfig::new(tls, self.token_key.clone());
        config.validation_token_config(self.validation_tokens.clone());
        config
    }
}
