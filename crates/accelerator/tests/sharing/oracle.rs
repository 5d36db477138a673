//! Who may be given what, and how old. Written from RFC 9111 and docs/accelerator.md alone, without the
//! layer's own rules.
//!
//! An answer is right if the origin made it for this very request, or if some fetch of the same
//! representation may be shared
//! with this client and is not too old.

use super::history::{USERS, WISHES};
use super::world::{Asked, Fetch, Got, Record, body};

/// Looks at every answer; the error says what is wrong with one.
pub fn judge(record: &Record) -> Result<(), String> {
    for (id, asked) in record.asked.iter().enumerate() {
        if let Some(got) = &asked.got {
            judge_answer(record, id, asked, got)
                .map_err(|wrong| format!("request {id}: {wrong}\n{asked:#?}"))?;
        }
    }
    Ok(())
}

fn is_personal_of(record: &Record, id: usize, value: &str) -> bool {
    let fetch = value.rsplit("of-").next().and_then(|fetch| fetch.trim().parse::<usize>().ok());
    fetch.and_then(|fetch| record.fetches.get(fetch)).is_some_and(|fetch| fetch.asked_by == id)
}

fn judge_answer(record: &Record, id: usize, asked: &Asked, got: &Got) -> Result<(), String> {
    let own: Vec<&Fetch> = record.fetches.iter().filter(|fetch| fetch.asked_by == id).collect();
    for line in got.fields.lines() {
        let (name, value) = line.split_once(": ").ok_or("a line that is no field")?;
        if name.eq_ignore_ascii_case("set-cookie") && !is_personal_of(record, id, value) {
            return Err(format!("the cookie of another: {line}"));
        }
        if name.eq_ignore_ascii_case("x-personal")
            && got.fields.contains("X-Personal\"")
            && !is_personal_of(record, id, value)
        {
            return Err(format!("a field that was private to another: {line}"));
        }
    }
    match got.status {
        200 | 206 if asked.is_head => Ok(()),
        200 | 206 => judge_body(record, id, asked, got),
        304 | 204 | 416 => Ok(()),
        504 if WISHES[asked.wish].contains("only-if-cached") => Ok(()),
        // An error is that of a request of its own.
        500..=599
            if own.iter().any(|fetch| fetch.status >= 500 || fetch.was_cut || fetch.ended.is_none()) =>
        {
            Ok(())
        }
        status => Err(format!("{status}, and no request of its own to the origin has failed")),
    }
}

fn judge_body(record: &Record, id: usize, asked: &Asked, got: &Got) -> Result<(), String> {
    if !got.is_whole && got.body.is_empty() {
        return Ok(());
    }
    let text = &got.body;
    let representation: usize = text
        .get(1..7)
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("a body that the origin has not sent: {text}"))?;
    let whole = body(representation);
    let first = match got.fields.split("Content-Range: bytes ").nth(1) {
        Some(range) if got.status == 206 => {
            range.split('-').next().and_then(|first| first.parse().ok()).unwrap_or(0)
        }
        _ => 0usize,
    };
    let expected = whole.get(first..).and_then(|rest| rest.get(..got.body.len()));
    if expected != Some(got.body.as_bytes()) {
        return Err(format!("a body put together of different ones: {text}"));
    }
    if got.status == 200 && got.is_whole && got.body.len() != whole.len() {
        return Err(format!("a part of a body as the whole: {text}"));
    }
    let of_it = || {
        record
            .fetches
            .iter()
            .filter(|fetch| fetch.path == asked.path && fetch.representation == representation)
    };
    if of_it().any(|fetch| fetch.asked_by == id && matches!(fetch.status, 200 | 206)) {
        return Ok(());
    }
    let mut reasons = Vec::new();
    for fetch in of_it().filter(|fetch| matches!(fetch.status, 200 | 206) && !fetch.is_head) {
        // Answers to HEAD and 304 bring a newer word with them.
        let newer = record.fetches.iter().filter(|other| {
            other.path == fetch.path && other.began >= fetch.began && (other.is_head || other.status == 304)
        });
        for said in std::iter::once(fetch).chain(newer) {
            let fetch = Fetch { resource: said.resource.clone(), ..fetch.clone() };
            match may_share(record, id, asked, got, &fetch) {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(format!("{reason}, from the fetch {fetch:?}")),
            }
        }
    }
    Err(format!("it got {text:.16}…, which it may not: {}", reasons.join("; ")))
}

/// What `Cache-Control` says.
struct Word<'a>(&'a str);

impl Word<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.split(',').any(|directive| directive.trim() == name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.0
            .split(',')
            .find_map(|directive| directive.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }

    fn is_for_cookies(&self) -> bool {
        self.has("public") || self.lifetime().is_some_and(|lifetime| lifetime > 0)
    }

    fn is_for_authorized(&self) -> bool {
        self.has("public") || self.has("must-revalidate") || self.number("s-maxage").is_some()
    }

    fn lifetime(&self) -> Option<i64> {
        self.number("s-maxage").or(self.number("max-age"))
    }

    fn is_strict(&self) -> bool {
        ["must-revalidate", "proxy-revalidate", "no-cache"].iter().any(|name| self.has(name))
            || self.number("s-maxage").is_some()
    }
}

/// Whether what `fetch` has brought may be given to this client.
fn may_share(
    record: &Record,
    id: usize,
    asked: &Asked,
    got: &Got,
    fetch: &Fetch,
) -> Result<(), &'static str> {
    let word = Word(fetch.resource.cache_control);
    let maker = &record.asked[fetch.asked_by];
    if word.has("no-store") || word.has("private") || WISHES[maker.wish].contains("no-store") {
        return Err("it may not be stored");
    }
    if fetch.resource.sets_cookie && !fetch.resource.cache_control.contains("Set-Cookie") {
        return Err("it sets a cookie");
    }
    let credentials = [USERS[maker.user].1, USERS[asked.user].1];
    if credentials.iter().any(|fields| fields.contains("Cookie")) && !word.is_for_cookies() {
        return Err("it has not said that it may be shared with cookies");
    }
    if credentials.iter().any(|fields| fields.contains("Authorization")) && !word.is_for_authorized() {
        return Err("it has not said that it may be shared with authorization");
    }
    let language = |request: &Asked| WISHES[request.wish].contains("X-Lang");
    if fetch.resource.varies && language(maker) != language(asked) {
        return Err("it is for other requests, by Vary");
    }
    // What has not ended yet is given as it comes.
    let ended = fetch.ended.unwrap_or(usize::MAX);
    // What was on its way when the request came is as new as can be.
    if asked.began <= ended || ended == asked.began {
        return Ok(());
    }
    let validated = validation(record, id, asked, got, fetch);
    if validated == Some(asked.began) {
        return Ok(());
    }
    // A purge takes what was there before it.
    let was_purged = |(path, step): &(usize, usize)| {
        *path == asked.path && *step < asked.began && fetch.began <= *step && ended <= *step
    };
    if record.purges.iter().any(was_purged) {
        return Err("it was purged");
    }
    judge_age(record, id, asked, got, fetch, &word)
}

/// The step in which this client's own request, or one that it may have waited for, has shown that it is
/// right still.
fn validation(record: &Record, id: usize, asked: &Asked, got: &Got, fetch: &Fetch) -> Option<usize> {
    let is_it = |other: &&Fetch| {
        other.status == 304
            && other.path == fetch.path
            && other.ended.is_some_and(|ended| asked.began <= ended && ended <= got.ended)
            && (other.asked_by == id || other.began <= got.ended)
    };
    record.fetches.iter().find(is_it).map(|_| asked.began)
}

fn judge_age(
    record: &Record,
    id: usize,
    asked: &Asked,
    got: &Got,
    fetch: &Fetch,
    word: &Word<'_>,
) -> Result<(), &'static str> {
    // Every answer of the origin for this page renews it: 304, HEAD, or a part of it.
    let last = record
        .fetches
        .iter()
        .filter(|other| {
            other.path == fetch.path
                && other.ended.is_some_and(|ended| ended <= got.ended)
                && (other.status == 304
                    || (other.is_head && other.status == 200)
                    || other.representation == fetch.representation)
        })
        .map(|other| other.time)
        .max()
        .unwrap_or(fetch.time);
    let age = got.time.min(asked.time.max(last)) - last.max(fetch.time);
    let guess = if fetch.resource.has_modified { 86_400 } else { 0 };
    let has_credentials = !USERS[record.asked[fetch.asked_by].user].1.is_empty();
    let lifetime = word.lifetime().unwrap_or(if has_credentials && !word.has("public") { 0 } else { guess });
    if word.has("no-cache") {
        return Err("it must be validated each time");
    }
    if age <= lifetime {
        return Ok(());
    }
    if word.is_strict() {
        return Err("it may not be given stale");
    }
    let has_failed = record.fetches.iter().any(|other| {
        other.path == fetch.path
            && other.began <= got.ended
            && (other.ended.is_none() || other.ended.is_some_and(|ended| ended >= asked.began))
            && (other.status >= 500 || other.was_cut || other.asked_by != id)
    });
    let wish = WISHES[asked.wish];
    let mut staleness = word.number("stale-while-revalidate").unwrap_or(0);
    if has_failed {
        let of_policy = if has_credentials { 0 } else { 300 };
        staleness = staleness.max(word.number("stale-if-error").unwrap_or(of_policy));
        if wish.contains("stale-if-error=600") && !has_credentials {
            staleness = staleness.max(600);
        }
    }
    if !has_credentials && wish.contains("max-stale") {
        staleness = staleness.max(if wish.contains("max-stale=30") { 30 } else { i64::MAX / 2 });
    }
    if age <= lifetime + staleness { Ok(()) } else { Err("it is too old") }
}
