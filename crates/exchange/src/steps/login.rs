//! The login of a site or route: its own paths, and the session of a request.

use std::sync::Arc;

use touchstone_access as access;
use touchstone_config::LogLevel;
use touchstone_handler::answer::Answer;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::Request;
use touchstone_http::forged_fields;
use touchstone_http::request_view::RequestView;
use touchstone_login::{Endpoint, Login, LoginRefusal};
use touchstone_sites::route::SiteRules;
use touchstone_sites::site::Snapshot;

use super::{Progress, RequestIdSuffix, error_log, write_fields};
use crate::core::Core;

/// The answer to a request for a path of a login; `None`: it is not one. Rules on addresses and rates apply.
pub async fn answer(
    core: &Core,
    snapshot: &Snapshot,
    rules: &SiteRules,
    view: &RequestView<'_>,
    (request, body): (&Request, &mut Receiver),
    progress: &Progress,
) -> Option<Answer> {
    let logins = rules.logins()?;
    let (login, endpoint) = logins.endpoint(view.path)?;
    if endpoint == Endpoint::Callback {
        // The code in it.
        progress.facts.hide_query();
    }
    let resolved = rules.resolve(view);
    if let Err(refusal) = access::pass_without_user(&resolved.gates, view) {
        return Some(refusal.answer());
    }
    let answered = match endpoint {
        Endpoint::BackChannel => {
            Login::answer_back_channel(&logins.of_back_channel(view.path), request, body).await
        }
        _ => login.answer(endpoint, request).await,
    };
    Some(noted(core, snapshot, request, answered))
}

/// Checks the session of `original`, and notes its user in `request`, which is the same without the cookies
/// of logins. The error is the answer to a request without a session.
pub async fn check(
    core: &Core,
    snapshot: &Arc<Snapshot>,
    login: &Login,
    original: &Request,
    (request, progress): (&mut Request, &Progress),
    cookies: &mut Vec<u8>,
) -> Result<(), Answer> {
    let passed = login.check(original).await.map_err(|refused| noted(core, snapshot, original, refused))?;
    if !write_fields(&passed.identity.fields, request) {
        return Err(Answer::error(500));
    }
    if let Some(user) = &passed.identity.user {
        request.user = Some(String::from_utf8_lossy(user.name()).into());
    }
    progress.facts.set_claims(passed.identity.clone());
    request.claims = Some(passed.identity);
    request.is_admitted = true;
    request.session = Some(passed.session);
    cookies.extend_from_slice(&passed.cookies);
    Ok(())
}

/// Answers of a site whose users have signed in are private, unless the answer states otherwise.
pub fn make_private(answer: &mut Answer) {
    let has_rule = answer.fields.split(|&byte| byte == b'\n').any(|line| {
        line.split(|&byte| byte == b':').next().is_some_and(|name| {
            forged_fields::is_alike(name, b"cache-control") || forged_fields::is_alike(name, b"expires")
        })
    });
    if !has_rule {
        answer.fields.extend_from_slice(b"Cache-Control: private, no-cache\r\n");
    }
}

fn noted(core: &Core, snapshot: &Snapshot, request: &Request, refused: LoginRefusal) -> Answer {
    if let Some(problem) = &refused.problem {
        let message = format_args!("{problem}{}", RequestIdSuffix(&request.id));
        error_log(core, snapshot, request).limited(LogLevel::Warning, "login failed", message);
    }
    *refused.answer
}
