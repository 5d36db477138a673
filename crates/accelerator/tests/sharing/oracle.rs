//! Who may be given what, and how old. Written from RFC 9111 and docs/accelerator.md alone, without the
//! layer's own rules.
//!
//! An answer is right if the origin made it for this very request, or if some fetch of the same
//! representation may be shared with this client and is not too old. The newest statement of the origin
//! counts for a stored response: a 304 or an answer to HEAD that arrived before the request replaces earlier
//! statements.

use touchstone_accelerator::rules::policy::SetCookie;

use super::history::{USERS, User, WISHES};
use super::world::{Asked, Fetch, Got, Record, body, number_of};

/// How long the policy of the route lets stale responses replace errors.
const STALE_IF_ERROR: i64 = 300;

/// Checks every answer; the error states what is wrong with one.
pub fn judge(record: &Record) -> Result<(), String> {
    for (id, asked) in record.asked.iter().enumerate() {
        if let Some(got) = &asked.got {
            let wrong = Judged { record, id, asked, got }.judge();
            wrong.map_err(|wrong| format!("request {id}: {wrong}\n{asked:#?}"))?;
        }
    }
    Ok(())
}

/// The directives of `Cache-Control`.
struct Word<'a>(&'a str);

impl Word<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.split(',').any(|directive| directive.trim() == name)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.0
            .trim_end()
            .split([',', ':'])
            .find_map(|directive| directive.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }

    fn is_for_cookies(&self) -> bool {
        self.has("public") || self.lifetime().is_some_and(|lifetime| lifetime > 0)
    }

    fn is_for_authorized(&self) -> bool {
        self.has("public") || self.has("must-revalidate") || self.number("s-maxage").is_some()
    }

    fn is_for(&self, user: User) -> Result<(), &'static str> {
        if user.has_cookie() && !self.is_for_cookies() {
            return Err("it has not said that it may be shared with cookies");
        }
        if user.is_authorized() && !self.is_for_authorized() {
            return Err("it has not said that it may be shared with those who are known");
        }
        Ok(())
    }

    fn lifetime(&self) -> Option<i64> {
        self.number("s-maxage").or(self.number("max-age"))
    }

    fn is_strict(&self) -> bool {
        ["must-revalidate", "proxy-revalidate", "no-cache"].iter().any(|name| self.has(name))
            || self.number("s-maxage").is_some()
    }
}

/// One answer.
struct Judged<'a> {
    record: &'a Record,
    id: usize,
    asked: &'a Asked,
    got: &'a Got,
}

fn wish_of(asked: &Asked) -> &'static str {
    WISHES[asked.wish]
}

fn is_no_store(asked: &Asked) -> bool {
    wish_of(asked).contains("no-store")
}

impl<'a> Judged<'a> {
    fn maker(&self, fetch: &Fetch) -> &'a Asked {
        &self.record.asked[fetch.asked_by]
    }

    fn own(&self) -> impl Iterator<Item = &'a Fetch> {
        let id = self.id;
        self.record.fetches.iter().filter(move |fetch| fetch.asked_by == id)
    }

    fn field(&self, name: &str) -> Option<&'a str> {
        self.got.fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn judge(&self) -> Result<(), String> {
        self.judge_fields()?;
        let wish = wish_of(self.asked);
        match self.got.status {
            200 | 206 if !self.asked.is_head => self.judge_body(),
            200 | 206 => self.judge_head(),
            304 => {
                let is_asked = self.field("ETag").is_some_and(|etag| wish.contains(etag));
                if !is_asked {
                    return Err("304 for an entity tag that it has not asked for".into());
                }
                self.judge_head()
            }
            204 | 416 => Ok(()),
            504 if wish.contains("only-if-cached") => Ok(()),
            // An error is that of a request of its own.
            500..=599 if self.own().any(|fetch| fetch.status >= 500 || fetch.was_cut) => Ok(()),
            status => Err(format!("{status}, and no request of its own to the origin has failed")),
        }
    }

    /// No cookie, and no private field, of a fetch for another.
    fn judge_fields(&self) -> Result<(), String> {
        let says = self.field("Cache-Control").unwrap_or_default();
        let is_named =
            |name: &str| says.contains(&format!("{name}\"")) || says.contains(&format!("\"{name}"));
        let stores_cookies = self.record.set_cookie == Some(SetCookie::Store);
        for line in self.got.fields.lines() {
            let (name, value) = line.split_once(": ").ok_or("a line that is not a field")?;
            let is_private = match name {
                "Set-Cookie" => !stores_cookies || is_named(name),
                "X-Personal" => is_named(name),
                _ => false,
            };
            let of: Option<usize> = value.rsplit("of-").next().and_then(|fetch| fetch.trim().parse().ok());
            let is_own =
                of.and_then(|of| self.record.fetches.get(of)).is_some_and(|fetch| fetch.asked_by == self.id);
            if is_private && !is_own {
                return Err(format!("a field that is for another alone: {line}"));
            }
        }
        Ok(())
    }

    /// An answer without a body confirms a representation.
    fn judge_head(&self) -> Result<(), String> {
        match self.field("ETag").and_then(number_of) {
            Some(representation) => self.judge_representation(representation),
            None => Ok(()),
        }
    }

    fn judge_body(&self) -> Result<(), String> {
        let got = self.got;
        if !got.is_whole && got.body.is_empty() {
            return Ok(());
        }
        let text = &got.body;
        let representation: usize = text
            .get(1..7)
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("a body that the origin has not sent: {text}"))?;
        let whole = body(representation);
        let first = match self.field("Content-Range").and_then(|range| range.strip_prefix("bytes ")) {
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
        if self.field("ETag").is_some_and(|etag| number_of(etag) != Some(representation)) {
            return Err(format!("a body under another's entity tag: {text}"));
        }
        self.judge_representation(representation)
    }

    fn judge_representation(&self, representation: usize) -> Result<(), String> {
        let of_it = |fetch: &&Fetch| fetch.path == self.asked.path && fetch.representation == representation;
        let is_of_origin = |fetch: &Fetch| matches!(fetch.status, 200 | 206 | 304);
        let wants_stored = wish_of(self.asked).contains("only-if-cached");
        if !wants_stored && self.own().filter(of_it).any(is_of_origin) {
            return Ok(());
        }
        let mut reasons = Vec::new();
        let stored = |fetch: &&Fetch| matches!(fetch.status, 200 | 206) && !fetch.is_head;
        for fetch in self.record.fetches.iter().filter(of_it).filter(stored) {
            match self.may_share(fetch) {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(format!("{reason}, from the fetch {fetch:?}")),
            }
        }
        Err(format!("it got r{representation}, which it may not: {}", reasons.join("; ")))
    }

    /// Whether what `fetch` has brought may be given to this client.
    fn may_share(&self, fetch: &'a Fetch) -> Result<(), &'static str> {
        self.may_be_stored(fetch)?;
        let word = Word(fetch.resource.cache_control);
        let maker = self.maker(fetch);
        if fetch.resource.varies && speaks_german(maker) != speaks_german(self.asked) {
            return Err("it is for other requests, by Vary");
        }
        let was_purged = |(path, step): &(usize, usize)| {
            *path == self.asked.path && *step < self.asked.began && fetch.began < *step
        };
        if self.record.purges.iter().any(was_purged) {
            return Err("it was asked for before a purge");
        }
        // An answer that has not ended yet is passed on as it arrives, and is as new as possible.
        let ended = fetch.ended.unwrap_or(usize::MAX);
        if self.asked.began <= ended {
            return word.is_for(USERS[self.asked.user]);
        }
        if self.is_replaced(fetch) {
            return Err("a newer response was stored in its place");
        }
        let mut wrong = "";
        for said in std::iter::once(fetch).chain(self.renewals(fetch)) {
            for word in self.words(fetch, said) {
                match self.may_share_as(fetch, said, &word) {
                    Ok(()) => return Ok(()),
                    Err(reason) => wrong = reason,
                }
            }
        }
        Err(wrong)
    }

    /// The directives that count for the answer `said`: its own. If it has no `Cache-Control`, that of an
    /// earlier answer remains (RFC 9111 section 3.2).
    fn words(&self, fetch: &'a Fetch, said: &'a Fetch) -> Vec<Word<'a>> {
        if !said.resource.cache_control.is_empty() {
            return vec![Word(said.resource.cache_control)];
        }
        let before = |other: &&Fetch| other.ended <= said.ended;
        let all = std::iter::once(fetch).chain(self.renewals(fetch).filter(before));
        all.map(|other| Word(other.resource.cache_control)).collect()
    }

    /// Whether the answer to `fetch` may be stored.
    fn may_be_stored(&self, fetch: &Fetch) -> Result<(), &'static str> {
        let word = Word(fetch.resource.cache_control);
        let maker = self.maker(fetch);
        if word.has("no-store") || word.has("private") || is_no_store(maker) {
            return Err("it may not be stored");
        }
        if fetch.resource.sets_cookie && !word.0.contains("Set-Cookie") {
            let is_explicit = word.lifetime().is_some();
            match self.record.set_cookie {
                Some(SetCookie::Remove) => {}
                Some(SetCookie::Store) if is_explicit => {}
                _ => return Err("it sets a cookie"),
            }
        }
        word.is_for(USERS[maker.user])
    }

    /// Answers that confirm that the response of `fetch` is still valid.
    fn renewals(&self, fetch: &'a Fetch) -> impl Iterator<Item = &'a Fetch> {
        let last = self.got.ended;
        self.record.fetches.iter().filter(move |other| {
            let is_about_it = match other.status {
                304 => other.confirmed.is_none_or(|confirmed| confirmed == fetch.representation),
                200 if other.is_head => {
                    !other.resource.has_etag || other.representation == fetch.representation
                }
                _ => false,
            };
            is_about_it
                && other.path == fetch.path
                && other.began >= fetch.began
                && other.ended.is_some_and(|ended| ended <= last)
        })
    }

    /// Whether an answer that arrived before the request has replaced that of `fetch`: one that is certainly
    /// stored. If the origin has confirmed `fetch` since then, either may be the newest.
    fn is_replaced(&self, fetch: &'a Fetch) -> bool {
        let language = speaks_german(self.maker(fetch));
        self.record.fetches.iter().any(|newer| {
            let ended = newer.ended.filter(|ended| *ended < self.asked.began);
            let is_confirmed = || self.renewals(fetch).any(|renewal| renewal.ended >= newer.ended);
            newer.path == fetch.path
                && (newer.status, newer.is_head, newer.was_cut) == (200, false, false)
                && fetch.ended.is_some_and(|before| before < newer.began)
                && speaks_german(self.maker(newer)) == language
                && newer.representation != fetch.representation
                && self.may_be_stored(newer).is_ok()
                && Word(newer.resource.cache_control).lifetime().is_some_and(|lifetime| lifetime > 0)
                && ended.is_some_and(|ended| self.was_kept(newer, ended))
                && !is_confirmed()
        })
    }

    /// No purge, start or absence of the client has kept it from being stored.
    fn was_kept(&self, fetch: &Fetch, ended: usize) -> bool {
        let disturbs =
            |(path, step): &(usize, usize)| *path == fetch.path && (fetch.began..=ended).contains(step);
        !self.record.purges.iter().any(disturbs)
    }

    /// Whether a newer answer has replaced the statement of `said` before the request arrived.
    fn is_outdated(&self, fetch: &'a Fetch, said: &Fetch) -> bool {
        let language = speaks_german(self.maker(fetch));
        self.renewals(fetch).any(|newer| {
            let maker = self.maker(newer);
            let counts = match newer.is_head {
                // Others may have sent requests that ignore the stored response.
                true => !USERS[maker.user].has_credentials(),
                false => newer.confirmed == Some(fetch.representation),
            };
            counts
                && !is_no_store(maker)
                && speaks_german(maker) == language
                && said.ended.is_some_and(|before| before < newer.began)
                && newer.ended.is_some_and(|ended| ended < self.asked.began && self.was_kept(newer, ended))
        })
    }

    /// Whether the response of `fetch` may be returned by the directives of `said`.
    fn may_share_as(&self, fetch: &'a Fetch, said: &Fetch, word: &Word<'_>) -> Result<(), &'static str> {
        let window = self.asked.began..=self.got.ended;
        let is_validation = said.status == 304 && said.ended.is_some_and(|ended| window.contains(&ended));
        if is_validation && said.asked_by == self.id {
            return Ok(());
        }
        word.is_for(USERS[self.asked.user])?;
        if word.has("no-store") || word.has("private") {
            return Err("it may be shared no longer");
        }
        word.is_for(USERS[self.maker(said).user])?;
        if is_validation {
            return Ok(());
        }
        if self.is_outdated(fetch, said) {
            return Err("the origin has said something newer");
        }
        self.judge_age(fetch, said, word)
    }

    /// How old it is at least, at the best moment between question and answer.
    fn age(&self, said: &Fetch) -> i64 {
        let during = &self.record.clock[self.asked.began.saturating_sub(1)..];
        let times = during.iter().take(self.got.ended + 2 - self.asked.began).copied();
        (times.chain([self.asked.time, self.got.time]).min().unwrap_or(0) - said.time).max(0)
    }

    fn judge_age(&self, fetch: &Fetch, said: &Fetch, word: &Word<'_>) -> Result<(), &'static str> {
        let age = self.age(said);
        let makers = [self.maker(fetch), self.maker(said)].map(|maker| USERS[maker.user]);
        let has_credentials = makers.iter().any(|user| user.has_credentials());
        let guess = match fetch.resource.has_modified && (!has_credentials || word.has("public")) {
            true => 86_400,
            false => 0,
        };
        let lifetime = word.lifetime().unwrap_or(guess);
        let wish = Word(wish_of(self.asked).trim_end());
        let wants = wish_of(self.asked);
        if word.has("no-cache") {
            return Err("it must be validated each time");
        }
        if wants.contains("no-cache") {
            return Err("the client wants what is validated");
        }
        let has_failed = self.has_failed();
        if !has_failed {
            if wish.number("max-age").is_some_and(|most| age > most) {
                return Err("it is older than the client wants");
            }
            if wish.number("min-fresh").is_some_and(|least| lifetime - age < least) {
                return Err("it is not fresh for as long as the client wants");
            }
        }
        // At the end of its lifetime it is stale.
        if age < lifetime {
            return Ok(());
        }
        if word.is_strict() {
            return Err("it may not be given stale");
        }
        let staleness = age - lifetime;
        let revalidates = word.number("stale-while-revalidate").is_some_and(|most| staleness < most);
        let mut on_error = word.number("stale-if-error").unwrap_or(match has_credentials {
            true => -1,
            false => STALE_IF_ERROR,
        });
        if !has_credentials {
            on_error = on_error.max(wish.number("stale-if-error").unwrap_or(-1));
        }
        let max_stale = match wants {
            _ if has_credentials || !wants.contains("max-stale") => -1,
            _ => wish.number("max-stale").unwrap_or(i64::MAX),
        };
        match revalidates || (has_failed && staleness <= on_error) || staleness <= max_stale {
            true => Ok(()),
            false => Err("it is too old"),
        }
    }

    /// The origin has failed while the client waited: for it, or for a request that it may have waited for.
    fn has_failed(&self) -> bool {
        self.record.fetches.iter().any(|other| {
            let ended = other.ended.is_some_and(|ended| (self.asked.began..=self.got.ended).contains(&ended));
            other.path == self.asked.path && ended && (other.status >= 500 || other.was_cut)
        })
    }
}

fn speaks_german(asked: &Asked) -> bool {
    wish_of(asked).contains("X-Lang")
}
