//! The path to which the provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.5).

use touchstone_access::TokenRejection;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::login_counts;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::Request;
use touchstone_http::request::Method;

use crate::endpoints::EndpointAnswer;
use crate::flows::{now_s, verified_claims};
use crate::logout_table::LogoutRefusal;
use crate::logout_token::{LONGEST_FORM, LogoutToken, in_form};
use crate::rule::{Login, LoginRefusal};

impl Login {
    /// Takes a logout token for one of these logins, which have the same path and are of different clients.
    pub async fn answer_back_channel(
        logins: &[&Login],
        request: &Request,
        body: &mut Receiver,
    ) -> EndpointAnswer {
        if request.method() != Method::Post {
            return LoginRefusal::usual(Answer::error(405).field("Allow", "POST"));
        }
        let token = match body.collect(LONGEST_FORM).await {
            Ok(form) => in_form(&form),
            Err(_) => Err("the form broke off or is too long"),
        };
        let token = match token {
            Ok(token) => token,
            Err(reason) => return refused(400, reason),
        };
        let mut answered = refused(400, "no login has this path");
        for login in logins {
            match login.accept_logout_token(token.as_bytes()).await {
                Ok(()) => {
                    login.client.counts.logout_token_received(login_counts::LogoutToken::Accepted);
                    let done = Answer::new(200).field("Cache-Control", "no-store");
                    return LoginRefusal::usual(done);
                }
                Err((status, reason)) => answered = refused(status, reason),
            }
        }
        // The client of the token is unknown.
        if let Some(login) = logins.first() {
            login.client.counts.logout_token_received(login_counts::LogoutToken::Refused);
        }
        answered
    }

    async fn accept_logout_token(&self, token: &[u8]) -> Result<(), (u16, &'static str)> {
        let discovered = self.provider.wait_until_discovered(self.config.timeout).await;
        let discovered = discovered.ok_or((503, "the provider's metadata have not been fetched yet"))?;
        let claims = verified_claims(&self.client, &discovered, token).await.map_err(|rejection| {
            let reason = match rejection {
                TokenRejection::Invalid(reason) => reason,
                TokenRejection::UnknownKey => "no key of the provider matches it",
                TokenRejection::Insufficient => "it lacks a claim",
            };
            (400, reason)
        })?;
        let now_s = now_s();
        let token =
            LogoutToken::read(&claims, now_s, self.client.leeway_s).map_err(|reason| (400, reason))?;
        self.provider.logouts.end(&self.client.id, &token, now_s).map_err(|problem| match problem {
            LogoutRefusal::Replayed => (400, "it was received before"),
            LogoutRefusal::Full => (503, "too many sessions have ended; this one ends when it is renewed"),
        })
    }
}

/// Section 2.8: a document may describe the error. The log has more details than the answer to the sender.
fn refused(status: u16, reason: &str) -> EndpointAnswer {
    let error = if status == 400 { "invalid_request" } else { "temporarily_unavailable" };
    let answer = Answer::new(status)
        .field("Content-Type", "application/json")
        .field("Cache-Control", "no-store")
        .part(BodyPart::Bytes(format!("{{\"error\":\"{error}\"}}\n").into()));
    LoginRefusal { answer: Box::new(answer), problem: Some(format!("a logout token is refused: {reason}")) }
}
