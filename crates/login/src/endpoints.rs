//! The paths that a login answers itself: callback, sign-in and sign-out.

use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::request::Request;
use touchstone_http::request::Method;

use crate::browser::{BrowserFields, Cause};
use crate::callback;
use crate::cookies;
use crate::flows::{self, Code, Failure, GrantedTokens};
use crate::pending_login::PendingLogin;
use crate::provider::DiscoveredProvider;
use crate::rule::{Endpoint, Login, LoginRefusal, LoginRequest};
use crate::seal::random;
use crate::session::Session;
use touchstone_http::addresses::{form, is_local_path, parameter, with_parameters};

/// An answer, with the message for the operator.
pub type EndpointAnswer = LoginRefusal;

impl Login {
    /// Answers a request for one of the login's own paths.
    pub async fn answer(&self, endpoint: Endpoint, request: &Request) -> EndpointAnswer {
        let answered = match LoginRequest::read(request) {
            Err(refused) => Err(refused),
            Ok(login_request) => match (endpoint, request.method()) {
                (Endpoint::Callback, Method::Get) => {
                    let taken = self.complete_login(request, &login_request).await;
                    match &taken {
                        Ok(_) => self.client.counts.completed.add(1),
                        Err(refused) => self.client.counts.refused(refused.answer.status),
                    }
                    taken
                }
                (Endpoint::SignIn, Method::Get) => Ok(self.sign_in(request, &login_request).await),
                (Endpoint::SignOut, Method::Get | Method::Post) => Ok(self.sign_out(request, &login_request)),
                (Endpoint::SignOut, _) => Ok(not_allowed("GET, POST")),
                _ => Ok(not_allowed("GET")),
            },
        };
        answered.unwrap_or_else(|refused| refused)
    }

    async fn sign_in(&self, request: &Request, login_request: &LoginRequest<'_>) -> EndpointAnswer {
        let to = parameter(request.query.as_deref().unwrap_or_default(), "to");
        match to {
            Ok(to) => self.begin(to.unwrap_or_default().as_bytes(), login_request).await,
            Err(_) => LoginRefusal::new(400, "'to' is given twice, or is not encoded text"),
        }
    }

    /// Completes a login that this browser has started.
    async fn complete_login(
        &self,
        request: &Request,
        login_request: &LoginRequest<'_>,
    ) -> Result<EndpointAnswer, LoginRefusal> {
        let query = request.query.as_deref().unwrap_or_default();
        let callback_query = callback::read(query).map_err(|problem| LoginRefusal::new(400, problem))?;
        let prefix = cookies::login_prefix(&self.name, login_request.is_https);
        let name = format!("{prefix}{}", PendingLogin::name_of(&callback_query.state));
        let removed = cookies::expire(
            login_request.cookies(),
            |other| other == name.as_bytes(),
            login_request.is_https,
        );
        let with_removal = |mut refused: LoginRefusal| {
            refused.answer.fields.extend_from_slice(&removed);
            refused
        };
        let pending = self.pending(&name, &callback_query.state, login_request).map_err(with_removal)?;
        let finished = self.finish_login(callback_query, pending, login_request).await;
        finished.map(with_removal).map_err(with_removal)
    }

    /// The login that a browser has started with this state.
    fn pending(
        &self,
        name: &str,
        state: &str,
        login_request: &LoginRequest<'_>,
    ) -> Result<PendingLogin, LoginRefusal> {
        let refused = |problem: &str| LoginRefusal::new(400, problem);
        let sealed = cookies::value(login_request.cookies(), name.as_bytes())
            .ok_or_else(|| refused("this browser has not started the login, or started it too long ago"))?;
        let contents = self.keys.open(sealed, &self.purpose("login", login_request));
        let pending = contents.and_then(|contents| PendingLogin::decode(&contents));
        let pending = pending.ok_or_else(|| refused("the cookie of the login does not open"))?;
        let is_same =
            aws_lc_rs::constant_time::verify_slices_are_equal(pending.state.as_bytes(), state.as_bytes());
        if is_same.is_err() {
            return Err(refused("the state is that of another login"));
        }
        if pending.is_over(login_request.now_s) {
            return Err(refused("the login was started too long ago"));
        }
        Ok(pending)
    }

    async fn finish_login(
        &self,
        callback_query: callback::Callback,
        pending: PendingLogin,
        login_request: &LoginRequest<'_>,
    ) -> Result<EndpointAnswer, LoginRefusal> {
        let discovered = self
            .provider
            .wait_until_discovered(self.config.timeout)
            .await
            .ok_or_else(LoginRefusal::unavailable)?;
        // RFC 9207 section 2.4: the answer of another provider.
        match &callback_query.issuer {
            Some(issuer) if *issuer != self.config.issuer => {
                return Err(LoginRefusal::new(400, "the callback is from another provider"));
            }
            None if discovered.metadata.names_itself => {
                return Err(LoginRefusal::new(400, "the callback does not name the provider"));
            }
            _ => {}
        }
        let code = match callback_query.outcome {
            Ok(code) => code,
            Err(error) if error == "access_denied" => {
                return Err(LoginRefusal::new(
                    403,
                    "the provider or the user refused the login: access_denied",
                ));
            }
            Err(error) => {
                return Err(LoginRefusal::new(502, format!("the provider refused the login: {error}")));
            }
        };
        let code = Code {
            code,
            verifier: pending.verifier.clone(),
            nonce: pending.nonce.clone(),
            redirect_uri: self.redirect_uri(login_request),
        };
        let granted = self.exchange(code, &discovered).await.map_err(|failure| {
            let status = match &failure {
                Failure::Refused(_) => 400,
                Failure::Broken(_) => 502,
                Failure::Late => 504,
                Failure::Busy => 503,
            };
            LoginRefusal::new(status, failure.text())
        })?;
        let session = self.session(granted, &discovered, login_request.now_s)?;
        let mut answer =
            Answer::redirect(303, pending.return_to.as_bytes()).field("Cache-Control", "no-store");
        answer.fields.extend(self.sealed(&session, login_request)?);
        Ok(LoginRefusal::usual(answer))
    }

    async fn exchange(
        &self,
        code: Code,
        discovered: &std::sync::Arc<DiscoveredProvider>,
    ) -> Result<GrantedTokens, Failure> {
        let (client, discovered) = (self.client.clone(), discovered.clone());
        let job = self.provider.run(move |http| flows::with_code(http, client, discovered, code));
        let result = job.ok_or(Failure::Busy)?;
        match tokio::time::timeout(self.config.timeout * 2, result).await {
            Ok(Ok(granted)) => granted,
            _ => Err(Failure::Late),
        }
    }

    fn session(
        &self,
        granted: GrantedTokens,
        discovered: &DiscoveredProvider,
        now_s: u64,
    ) -> Result<Session, LoginRefusal> {
        let id = random().ok_or_else(|| LoginRefusal::new(500, "the system has no random numbers"))?;
        Ok(Session {
            id,
            began_s: now_s,
            seen_s: now_s,
            renewed_s: now_s,
            claims: Session::kept_claims(granted.claims.unwrap_or_default()),
            refresh_token: granted.refresh_token.filter(|_| self.keeps_refresh_token()).unwrap_or_default(),
            id_token: granted.id_token.filter(|_| self.keeps_id_token(discovered)).unwrap_or_default(),
        })
    }

    /// Ends the session, here and at the provider. A page of another site cannot do so: for a link from there
    /// a question is shown, a form from there is refused.
    fn sign_out(&self, request: &Request, login_request: &LoginRequest<'_>) -> EndpointAnswer {
        let field = |name: &str| request.received.values(name).next();
        let fields = BrowserFields {
            fetch_site: field("sec-fetch-site"),
            origin: field("origin"),
            ..Default::default()
        };
        let is_get = request.method() == Method::Get;
        match fields.cause(&login_request.origin()) {
            Cause::Own => {}
            // Every browser identifies a form of another site in its fields.
            Cause::Unknown if !is_get => {}
            Cause::Other if !is_get => {
                return LoginRefusal::new(403, "a page of another site tried to sign a user out");
            }
            Cause::Other | Cause::Unknown => return page(QUESTION),
        }
        let open = self.session_of(login_request);
        let name = cookies::session_name(&self.name, login_request.is_https);
        let removed = cookies::remove(&name, login_request.is_https, login_request.cookies());
        let discovered = self.provider.discovered();
        let at_provider =
            discovered.as_ref().and_then(|discovered| discovered.metadata.end_session_endpoint.as_ref());
        let after = &self.config.after_sign_out;
        if open.is_some() {
            self.client.counts.signed_out.add(1);
        }
        let mut answered = match (at_provider, open) {
            (Some(endpoint), Some(open)) => {
                let address = format!("{}{after}", login_request.origin());
                let hint = [("id_token_hint", open.session().id_token.as_str())];
                let return_to = [("post_logout_redirect_uri", address.as_str())];
                let parameters = hint
                    .into_iter()
                    .filter(|(_, token)| !token.is_empty())
                    .chain([("client_id", self.config.client_id.as_str())])
                    .chain(return_to.into_iter().filter(|_| !after.is_empty()));
                to(&with_parameters(endpoint, &form(parameters)))
            }
            _ if is_local_path(after.as_bytes()) => to(after),
            _ => page(SIGNED_OUT),
        };
        answered.answer.fields.extend_from_slice(&removed);
        answered
    }
}

const QUESTION: &str = "<h1>Sign out?</h1><form method=\"post\"><button>Sign out</button></form>";
const SIGNED_OUT: &str = "<h1>You are signed out.</h1>";

fn page(body: &str) -> EndpointAnswer {
    let text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sign out</title></head>\n\
         <body>{body}</body></html>\n"
    );
    let answer = Answer::new(200)
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Cache-Control", "no-store")
        .field("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        .field("X-Frame-Options", "DENY")
        .part(BodyPart::Bytes(text.into()));
    LoginRefusal::usual(answer)
}

fn to(address: &str) -> EndpointAnswer {
    let answer = Answer::redirect(303, address.as_bytes()).field("Cache-Control", "no-store");
    LoginRefusal::usual(answer)
}

fn not_allowed(methods: &str) -> EndpointAnswer {
    LoginRefusal::usual(Answer::error(405).field("Allow", methods))
}
