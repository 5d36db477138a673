//! The login of a site or route: from a request to a session, or to the answer for a request without one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest;
use touchstone_access::{AccessShared, Identity, Report, TokenRejection, TokenRules};
use touchstone_config::LoginConfig;
use touchstone_handler::answer::Answer;
use touchstone_handler::login_counts;
use touchstone_handler::request::Request;
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_http::addresses::{form, is_this_machine, with_parameters};
use touchstone_http::cookie;
use touchstone_http::hexadecimal;
use touchstone_http::request::Method;

use crate::browser::BrowserFields;
use crate::cookies;
use crate::flows::{Client, now_s};
use crate::logout_table::SessionNames;
use crate::pending_login::{LIFETIME_S, MOST_AT_A_TIME, PendingLogin};
use crate::provider::{DiscoveredProvider, Provider, ProviderSettings};
use crate::renewal;
use crate::renewal_table::Renewal;
use crate::seal::SealingKeys;
use crate::session::{Lifetimes, Session};
use crate::shared::LoginShared;

/// The most sessions that a core keeps open, so that their cookies are not decrypted again.
const MOST_OPEN: usize = 1024;

/// The login of a site or route.
pub struct Login {
    pub(crate) config: LoginConfig,
    /// The identity of a client that needs no session.
    unknown: Arc<Identity>,
    /// Names the provider and the client in cookies.
    pub(crate) name: String,
    pub(crate) provider: Arc<Provider>,
    pub(crate) client: Arc<Client>,
    pub(crate) keys: Arc<SealingKeys>,
    /// The rules for the claims of a session, and the fields and variables that they set.
    rules: TokenRules,
    lifetimes: Lifetimes,
    report: Report,
    /// No other login of the process has it.
    number: u64,
}

/// A decrypted session of a request.
pub struct OpenSession {
    login: u64,
    name: String,
    host: Vec<u8>,
    /// What the provider may end it by.
    names: SessionNames,
    session: Session,
    identity: Result<Arc<Identity>, TokenRejection>,
}

/// A request with a session.
pub struct SignedInRequest {
    /// The user, and fields for programs and origins.
    pub identity: Arc<Identity>,
    /// The session, for requests that are derived from this one.
    pub session: Rc<OpenSession>,
    /// `Set-Cookie` lines for the client.
    pub cookies: Vec<u8>,
}

/// A request that does not pass.
pub struct LoginRefusal {
    /// The answer.
    pub answer: Box<Answer>,
    /// The message for the operator, without secrets.
    pub problem: Option<String>,
}

/// What a path of a login does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Takes what the browser brings back from the provider.
    Callback,
    /// Begins a login.
    SignIn,
    /// Ends a session.
    SignOut,
    /// Receives logout tokens of the provider, see [`Login::answer_back_channel`].
    BackChannel,
}

/// What of a request all steps need.
pub(crate) struct LoginRequest<'r> {
    pub host: &'r str,
    pub is_https: bool,
    pub cookies: Vec<&'r [u8]>,
    pub now_s: u64,
}

impl LoginRefusal {
    pub(crate) fn new(status: u16, problem: impl Into<String>) -> LoginRefusal {
        let answer = Answer::error(status).field("Cache-Control", "no-store");
        LoginRefusal { answer: Box::new(answer), problem: Some(problem.into()) }
    }

    /// An answer without a message for the operator.
    pub(crate) fn usual(answer: Answer) -> LoginRefusal {
        LoginRefusal { answer: Box::new(answer), problem: None }
    }

    pub(crate) fn unavailable() -> LoginRefusal {
        let refused = LoginRefusal::new(503, "the provider's metadata have not been fetched yet");
        LoginRefusal { answer: Box::new(refused.answer.field("Retry-After", "5")), ..refused }
    }
}

impl LoginRequest<'_> {
    /// Reads a request; the error is the answer where no login is possible.
    pub(crate) fn read(request: &Request) -> Result<LoginRequest<'_>, LoginRefusal> {
        let host = request.host.as_deref().and_then(|host| std::str::from_utf8(host).ok());
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            return Err(LoginRefusal::new(400, "a request without a host cannot have a session"));
        };
        let is_https = request.is_https();
        if !is_https && !is_this_machine(host) {
            return Err(LoginRefusal::new(
                403,
                "a login works over HTTPS only: browsers would send the cookie of the session unencrypted; a \
                 proxy that ends TLS is named in 'proxies.trusted', and sends X-Forwarded-Proto",
            ));
        }
        let cookies = request.received.values("cookie").collect();
        Ok(LoginRequest { host, is_https, cookies, now_s: now_s() })
    }

    pub(crate) fn cookies(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.cookies.iter().copied()
    }

    /// This site, as browsers name it.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", if self.is_https { "https" } else { "http" }, self.host)
    }
}

impl Login {
    /// The login that the keys of a site or route configure; `None`: none. The error names the key.
    pub fn open(
        config: &LoginConfig,
        access: &AccessShared,
        shared: &LoginShared,
        counts: &ServiceCounts,
    ) -> Result<Option<Arc<Login>>, String> {
        // The caches of cores have it: two servers must not have logins with one number.
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if config.issuer.is_empty() {
            return Ok(None);
        }
        let (keys, secret) = files_of(config)?;
        let settings = ProviderSettings {
            issuer: config.issuer.clone(),
            ca_certificate: config.ca_certificate.clone(),
            refresh: config.refresh,
        };
        let provider = shared.provider(settings, access.report());
        let provider = provider.map_err(|problem| format!("'login': {problem}"))?;
        let rules = TokenRules::of_claims(config.required_claims(), &config.user, &config.fields);
        let of_id_tokens = TokenRules {
            algorithms: config.algorithms.iter().filter_map(|name| name.parse().ok()).collect(),
            issuer: config.issuer.clone(),
            audience: vec![config.client_id.clone()],
            leeway_s: config.leeway.as_secs(),
            ..TokenRules::of_claims(std::iter::empty(), "sub", &BTreeMap::new())
        };
        provider.logouts.note_lifetime(config.lifetime.as_secs());
        let counts = counts
            .logins
            .of(login_counts::Name { issuer: config.issuer.clone(), client: config.client_id.clone() });
        let client = Client {
            counts,
            id: config.client_id.clone(),
            secret,
            authentication: config.client_authentication,
            user_information: config.user_information,
            rules: of_id_tokens,
            leeway_s: config.leeway.as_secs(),
            timeout: config.timeout,
        };
        Ok(Some(Arc::new(Login {
            unknown: Arc::new(rules.unknown()),
            name: name_of(&config.issuer, &config.client_id),
            provider,
            client: Arc::new(client),
            keys: keys.map_or_else(|| shared.keys(), Arc::new),
            rules,
            lifetimes: Lifetimes { total_s: config.lifetime.as_secs(), idle_s: config.idle.as_secs() },
            report: access.report(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            config: config.clone(),
        })))
    }

    /// What is wrong with the files that the keys name: the key and a message.
    pub fn problem(config: &LoginConfig) -> Option<String> {
        if config.issuer.is_empty() { None } else { files_of(config).err() }
    }

    /// Whether both are of the same client of a provider, and share their sessions.
    pub fn is_same_client(&self, other: &Login) -> bool {
        (&self.config.issuer, &self.client.id) == (&other.config.issuer, &other.client.id)
    }

    /// What a path does, if it is one of the login's own.
    pub fn endpoint(&self, path: &[u8]) -> Option<Endpoint> {
        let is = |own: &str| !own.is_empty() && path == own.as_bytes();
        if is(&self.config.callback) {
            Some(Endpoint::Callback)
        } else if is(&self.config.sign_in) {
            Some(Endpoint::SignIn)
        } else if is(&self.config.sign_out) {
            Some(Endpoint::SignOut)
        } else if is(&self.config.back_channel) {
            Some(Endpoint::BackChannel)
        } else {
            None
        }
    }

    /// The identity of a client that needs no session: it removes the client's own values of the fields.
    pub fn unknown(&self) -> Arc<Identity> {
        self.unknown.clone()
    }

    /// Checks whether a request has a session that satisfies the rules. Queries the provider, if it is time
    /// to do so, whether the session continues.
    pub async fn check(&self, request: &Request) -> Result<SignedInRequest, LoginRefusal> {
        let login_request = LoginRequest::read(request)?;
        let carried = request.session.clone().and_then(|session| session.downcast::<OpenSession>().ok());
        let carried =
            carried.filter(|open| open.name == self.name && open.host == login_request.host.as_bytes());
        let found = match carried {
            Some(open) => Some(self.of_this_login(open)),
            None => self.session_of(&login_request),
        };
        let goes_on = |open: &Rc<OpenSession>| {
            !open.session.is_over(self.lifetimes, login_request.now_s)
                && !self.provider.logouts.has_ended(&open.names, open.session.began_s)
        };
        let Some(open) = found.filter(goes_on) else {
            return Err(self.without_session(request, &login_request).await);
        };
        // A rewritten request has the cookies of the client's own request.
        if request.depth > 0 {
            return self.passed(open, Vec::new());
        }
        let is_due = !self.config.renew.is_zero()
            && !open.session.refresh_token.is_empty()
            && login_request.now_s.saturating_sub(open.session.renewed_s) >= self.config.renew.as_secs();
        if is_due {
            match renewal::renew(&self.provider, &self.client, &open.session, &self.report).await {
                Renewal::Continues(session) => {
                    let cookies = self.sealed(&session, &login_request)?;
                    return self.passed(Rc::new(self.opened((*session).clone(), &login_request)), cookies);
                }
                Renewal::Ended => return Err(self.without_session(request, &login_request).await),
                Renewal::NotQueried => {}
            }
        }
        if open.session.is_to_be_sealed(self.lifetimes, login_request.now_s) {
            let session = Session { seen_s: login_request.now_s, ..open.session.clone() };
            let cookies = self.sealed(&session, &login_request)?;
            return self.passed(open, cookies);
        }
        self.passed(open, Vec::new())
    }

    fn passed(&self, open: Rc<OpenSession>, cookies: Vec<u8>) -> Result<SignedInRequest, LoginRefusal> {
        match &open.identity {
            Ok(identity) => Ok(SignedInRequest { identity: identity.clone(), session: open, cookies }),
            Err(TokenRejection::Insufficient) => Err(LoginRefusal::usual(forbidden())),
            Err(TokenRejection::Invalid(reason)) => Err(LoginRefusal::new(403, *reason)),
            Err(TokenRejection::UnknownKey) => Err(LoginRefusal::new(403, "the session has no key")),
        }
    }

    /// The same session under the rules of this login.
    fn of_this_login(&self, open: Rc<OpenSession>) -> Rc<OpenSession> {
        if open.login == self.number {
            return open;
        }
        Rc::new(OpenSession {
            login: self.number,
            name: open.name.clone(),
            host: open.host.clone(),
            names: open.names.clone(),
            session: open.session.clone(),
            identity: self.identity(&open.session),
        })
    }

    fn identity(&self, session: &Session) -> Result<Arc<Identity>, TokenRejection> {
        self.rules.accept(&session.claims).map(|accepted| Arc::new(accepted.identity))
    }

    fn opened(&self, session: Session, login_request: &LoginRequest<'_>) -> OpenSession {
        OpenSession {
            login: self.number,
            name: self.name.clone(),
            host: login_request.host.as_bytes().to_vec(),
            names: self.names_of(&session),
            identity: self.identity(&session),
            session,
        }
    }

    fn names_of(&self, session: &Session) -> SessionNames {
        let text = |name: &str| session.claims.get(name).and_then(serde_json::Value::as_str);
        SessionNames::new(&self.client.id, text("sid"), text("sub"))
    }

    /// The session of a request's cookies, which may have ended.
    pub(crate) fn session_of(&self, login_request: &LoginRequest<'_>) -> Option<Rc<OpenSession>> {
        thread_local! {
            /// The sessions that this core has opened, by what was sealed.
            static OPEN: RefCell<HashMap<Vec<u8>, Rc<OpenSession>>> = RefCell::default();
        }
        let name = cookies::session_name(&self.name, login_request.is_https);
        let sealed = cookies::joined(login_request.cookies(), &name)?;
        let cached = OPEN.with_borrow(|open| open.get(&sealed).cloned());
        let is_here =
            |open: &Rc<OpenSession>| open.login == self.number && open.host == login_request.host.as_bytes();
        if let Some(open) = cached.filter(is_here) {
            return Some(open);
        }
        let contents = self.keys.open(&sealed, &self.purpose("session", login_request))?;
        let open = Rc::new(self.opened(Session::decode(&contents)?, login_request));
        OPEN.with_borrow_mut(|sessions| {
            if sessions.len() >= MOST_OPEN {
                sessions.clear();
            }
            sessions.insert(sealed, open.clone());
        });
        Some(open)
    }

    /// The field lines that send a session to the client.
    pub(crate) fn sealed(
        &self,
        session: &Session,
        login_request: &LoginRequest<'_>,
    ) -> Result<Vec<u8>, LoginRefusal> {
        let name = cookies::session_name(&self.name, login_request.is_https);
        let purpose = self.purpose("session", login_request);
        let lines = |session: &Session| {
            let sealed = self.keys.seal(&session.encode(), &purpose)?;
            cookies::set(&name, &sealed, login_request.is_https, login_request.cookies())
        };
        // Without the ID token, the provider requests a confirmation of the user before the logout.
        let shorter = || Session { id_token: String::new(), ..session.clone() };
        lines(session).or_else(|| lines(&shorter())).ok_or_else(|| {
            LoginRefusal::new(
                502,
                format!(
                    "the session is too long for cookies, which hold about {} bytes: request fewer scopes, \
                     or configure the provider to include fewer claims in the ID token",
                    cookies::LONGEST_SEALED * 3 / 4
                ),
            )
        })
    }

    /// What a cookie is sealed for: a cookie of another kind, provider, client or host does not open.
    pub(crate) fn purpose(&self, kind: &str, login_request: &LoginRequest<'_>) -> Vec<u8> {
        [kind, &self.config.issuer, &self.config.client_id, login_request.host].join("\0").into_bytes()
    }

    /// The answer to a request without a session: a browser that loads a page is sent to the provider.
    async fn without_session(&self, request: &Request, login_request: &LoginRequest<'_>) -> LoginRefusal {
        let field = |name: &str| request.received.values(name).next();
        let fields = BrowserFields {
            fetch_mode: field("sec-fetch-mode"),
            accept: field("accept"),
            requested_with: field("x-requested-with"),
            ..Default::default()
        };
        if request.method() != Method::Get || request.depth > 0 || !fields.is_navigation() {
            let answer = Answer::error(401)
                .field("WWW-Authenticate", "Cookie realm=\"Restricted\"")
                .field("Cache-Control", "no-store");
            return LoginRefusal::usual(answer);
        }
        self.begin(&request.path_and_query(), login_request).await
    }

    /// Sends a browser to the provider.
    pub(crate) async fn begin(&self, return_to: &[u8], login_request: &LoginRequest<'_>) -> LoginRefusal {
        let Some(discovered) = self.provider.wait_until_discovered(self.config.timeout).await else {
            self.client.counts.refused(503);
            return LoginRefusal::unavailable();
        };
        let pending = PendingLogin::new(return_to, login_request.now_s);
        let Some(sealed) = self.keys.seal(&pending.encode(), &self.purpose("login", login_request)) else {
            return LoginRefusal::new(500, "the system has no random numbers");
        };
        let prefix = cookies::login_prefix(&self.name, login_request.is_https);
        let is_pending = |name: &&[u8]| name.starts_with(prefix.as_bytes());
        let mut old: Vec<&[u8]> =
            cookie::pairs(login_request.cookies()).map(|(name, _)| name).filter(is_pending).collect();
        // Browsers send the oldest first (RFC 6265 section 5.4).
        old.truncate((old.len() + 1).saturating_sub(MOST_AT_A_TIME));
        let mut answer = Answer::redirect(
            302,
            self.authorization_address(&discovered, &pending, login_request).as_bytes(),
        )
        .field("Cache-Control", "no-store");
        let expired =
            cookies::expire(login_request.cookies(), |name| old.contains(&name), login_request.is_https);
        answer.fields.extend_from_slice(&expired);
        self.client.counts.started.add(1);
        let name = format!("{prefix}{}", PendingLogin::name_of(&pending.state));
        let line = cookies::set_line(&name, &sealed, Some(LIFETIME_S), login_request.is_https);
        answer.fields.extend_from_slice(line.as_bytes());
        LoginRefusal::usual(answer)
    }

    /// Where a browser signs in (OpenID Connect Core 1.0 section 3.1.2.1).
    fn authorization_address(
        &self,
        discovered: &DiscoveredProvider,
        pending: &PendingLogin,
        login_request: &LoginRequest<'_>,
    ) -> String {
        let (scope, challenge) = (self.config.scopes.join(" "), pending.challenge());
        let redirect_uri = self.redirect_uri(login_request);
        let own = [
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", &redirect_uri),
            ("scope", &scope),
            ("state", &pending.state),
            ("nonce", &pending.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let more = self.config.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        with_parameters(&discovered.metadata.authorization_endpoint, &form(own.into_iter().chain(more)))
    }

    /// The address of the callback.
    pub(crate) fn redirect_uri(&self, login_request: &LoginRequest<'_>) -> String {
        format!("{}{}", login_request.origin(), self.config.callback)
    }

    /// Whether the ID token is kept in the session.
    pub(crate) fn keeps_id_token(&self, discovered: &DiscoveredProvider) -> bool {
        discovered.metadata.end_session_endpoint.is_some() && !self.config.sign_out.is_empty()
    }

    /// Whether the refresh token is kept in the session.
    pub(crate) fn keeps_refresh_token(&self) -> bool {
        !self.config.renew.is_zero()
    }
}

impl OpenSession {
    /// The session.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

fn forbidden() -> Answer {
    Answer::error(403).field("Cache-Control", "no-store")
}

/// The keys of cookies and the secret of the client, if there are files of them.
fn files_of(config: &LoginConfig) -> Result<(Option<SealingKeys>, Option<String>), String> {
    let keys = match &config.key_file {
        Some(path) => Some(SealingKeys::open_file(path).map_err(|problem| format!("'login': {problem}"))?),
        None => None,
    };
    let secret = match &config.client_secret_file {
        Some(path) => Some(read_secret(path).map_err(|problem| format!("'login': {problem}"))?),
        None => None,
    };
    Ok((keys, secret))
}

fn read_secret(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("client_secret_file '{}' cannot be read: {error}", path.display()))?;
    let secret = text.trim();
    if secret.is_empty() || secret.chars().any(char::is_control) {
        return Err(format!("client_secret_file '{}' must have one line, the secret", path.display()));
    }
    Ok(secret.to_string())
}

/// The name of a client of a provider in cookies.
fn name_of(issuer: &str, client_id: &str) -> String {
    let hash = digest::digest(&digest::SHA256, [issuer, client_id].join("\0").as_bytes());
    hexadecimal::encode(&hash.as_ref()[..4])
}
