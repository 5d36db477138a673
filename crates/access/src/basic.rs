//! Basic authentication (RFC 7617): a user name and a password with every request.
//!
//! A password check is slow on purpose, so it runs on another thread, a few at a time, and its success is
//! stored for a short time. Only a hash with a secret key over name, password and stored password is stored:
//! it reveals no password, and a change of the stored password invalidates it. Failures are counted for each
//! client's address. A client with too many is refused before any slow check.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::client_table::Client;
use super::password_file::{LONGEST_NAME_BYTES, PasswordFile, StoredUser};
use super::rate::{Limit, Rate};
use super::refusal::Refusal;
use super::shared::AccessShared;
use super::success_cache::Fingerprint;
use touchstone_http::request_view::RequestView;

/// The longest password, in bytes.
pub const LONGEST_PASSWORD_BYTES: usize = 1024;

/// Name, colon, password.
const LONGEST_CREDENTIALS_BYTES: usize = LONGEST_NAME_BYTES + 1 + LONGEST_PASSWORD_BYTES;

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User(Arc<[u8]>);

impl User {
    /// A user with this name.
    pub fn new(name: &[u8]) -> User {
        User(name.into())
    }

    /// The name, as the file has it.
    pub fn name(&self) -> &[u8] {
        &self.0
    }
}

/// The authentication of a site or route.
pub struct BasicAuthentication {
    file: Arc<PasswordFile>,
    /// The value of `WWW-Authenticate`.
    challenge: Box<str>,
    remember: Duration,
    failures: Option<Limit>,
    shared: Arc<AccessShared>,
}

/// The result of a quick check of a request's credentials.
pub enum PasswordCheck {
    /// The credentials were checked successfully a short time ago.
    Verified(User),
    /// There are no credentials, or they are malformed or refused.
    Refuse(Refusal),
    /// The credentials must be checked.
    Check(PendingCheck),
}

impl BasicAuthentication {
    /// Authentication with a password file. `failures` is the number of wrong passwords that a client may
    /// send in a minute; 0: no limit.
    pub fn new(
        file: Arc<PasswordFile>,
        realm: &str,
        remember: Duration,
        failures: u64,
        shared: &Arc<AccessShared>,
    ) -> Arc<BasicAuthentication> {
        let rate = Rate::new(failures, Duration::from_secs(60), failures);
        let id = shared.limit_id(&("failed logins", failures));
        Arc::new(BasicAuthentication {
            file,
            challenge: challenge(realm).into(),
            remember,
            failures: rate.map(|rate| Limit::new(id, rate)),
            shared: shared.clone(),
        })
    }

    /// Checks the credentials of a request as far as this is quick.
    pub fn check_quickly(self: &Arc<BasicAuthentication>, request: &RequestView<'_>) -> PasswordCheck {
        let mut buffer = [0; LONGEST_CREDENTIALS_BYTES + 3];
        let Some(credentials) = credentials(request, &mut buffer) else {
            return PasswordCheck::Refuse(self.refusal());
        };
        let now_ns = self.shared.now_ns();
        if !self.file.has_changed(now_ns)
            && let Some(user) = self.file.users().get(credentials.name)
            && self.shared.successes.contains(&self.fingerprint(user, credentials.password), now_ns)
        {
            return PasswordCheck::Verified(User(user.name.clone()));
        }
        let client = request.client.map(Client::of);
        if let Some((limit, client)) = self.failure_limit(client)
            && let Err(too_many) = limit.peek(&self.shared.clients, client, now_ns)
        {
            return PasswordCheck::Refuse(Refusal::too_many(too_many));
        }
        PasswordCheck::Check(PendingCheck {
            authentication: self.clone(),
            client,
            name: credentials.name.into(),
            password: credentials.password.into(),
        })
    }

    fn failure_limit(&self, client: Option<Client>) -> Option<(&Limit, Client)> {
        self.failures.as_ref().zip(client)
    }

    fn fingerprint(&self, user: &StoredUser, password: &[u8]) -> Fingerprint {
        self.shared.successes.fingerprint([&user.name, user.password.as_str().as_bytes(), password])
    }

    fn refusal(&self) -> Refusal {
        Refusal::new(401).field("WWW-Authenticate", &self.challenge)
    }
}

/// Credentials that must be checked against the file.
pub struct PendingCheck {
    authentication: Arc<BasicAuthentication>,
    client: Option<Client>,
    name: Box<[u8]>,
    password: Box<[u8]>,
}

impl PendingCheck {
    /// Checks the credentials on another thread. Needs a tokio runtime around it.
    pub async fn run(self) -> Result<User, Refusal> {
        let PendingCheck { authentication, client, name, password } = self;
        let shared = authentication.shared.clone();
        // The failure is counted before the check and taken back after a success, so that simultaneous checks
        // count too.
        let now_ns = shared.now_ns();
        if let Some((limit, client)) = authentication.failure_limit(client) {
            limit.count(&shared.clients, client, now_ns).map_err(Refusal::too_many)?;
        }
        let result = match shared.checks.acquire().await {
            None => Err(Refusal::new(503).field("Retry-After", "1")),
            Some(permit) => {
                let for_thread = authentication.clone();
                let task = tokio::task::spawn_blocking(move || {
                    // The permit is held until the check has ended, even if the request is cancelled earlier.
                    let _permit = permit;
                    for_thread.check(&name, &password)
                });
                match task.await {
                    Ok(Some(user)) => Ok(user),
                    Ok(None) => return Err(authentication.refusal()),
                    Err(_) => Err(Refusal::new(500)),
                }
            }
        };
        if let Some((limit, client)) = authentication.failure_limit(client) {
            limit.uncount(&shared.clients, client);
        }
        result
    }
}

impl BasicAuthentication {
    /// The slow part of the check.
    fn check(&self, name: &[u8], password: &[u8]) -> Option<User> {
        let users = self.file.refresh(&*self.shared.report);
        let Some(user) = users.get(name) else {
            if let Some(stand_in) = users.stand_in() {
                stand_in.password.fits(password);
            }
            return None;
        };
        let fingerprint = self.fingerprint(user, password);
        let now_ns = self.shared.now_ns();
        // A browser sends many requests at the same time: the first check also answers those that waited.
        if !self.shared.successes.contains(&fingerprint, now_ns) {
            if !user.password.fits(password) {
                return None;
            }
            let until_ns = now_ns.saturating_add(u64::try_from(self.remember.as_nanos()).unwrap_or(u64::MAX));
            self.shared.successes.remember(fingerprint, until_ns, now_ns);
        }
        Some(User(user.name.clone()))
    }
}

/// `Basic realm="...", charset="UTF-8"` (RFC 7617 sections 2 and 2.1).
fn challenge(realm: &str) -> String {
    let mut challenge = String::from("Basic realm=\"");
    for character in realm.chars().filter(|character| !character.is_control()) {
        if matches!(character, '"' | '\\') {
            challenge.push('\\');
        }
        challenge.push(character);
    }
    challenge.push_str("\", charset=\"UTF-8\"");
    challenge
}

struct Credentials<'b> {
    name: &'b [u8],
    password: &'b [u8],
}

/// The credentials of a request; `None` if there are none, if there is more than one such field, or if they
/// are malformed.
fn credentials<'b>(request: &RequestView<'_>, buffer: &'b mut [u8]) -> Option<Credentials<'b>> {
    let mut values = request.values(b"authorization");
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let encoded = encoded.trim_ascii_start();
    let length = STANDARD.decode_slice(encoded, buffer).ok()?;
    let decoded = buffer.get(..length)?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (name, password) = (&decoded[..colon], &decoded[colon + 1..]);
    // RFC 7617 section 2: neither may contain control characters.
    let fits = (1..=LONGEST_NAME_BYTES).contains(&name.len()) && password.len() <= LONGEST_PASSWORD_BYTES;
    (fits && !decoded.iter().any(u8::is_ascii_control)).then_some(Credentials { name, password })
}
