//! What happens in a history: resources of an origin, and operations, made from a seed.

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use touchstone_accelerator::rules::policy::SetCookie;

/// Which client sends the request, and its credentials.
#[derive(Debug, Clone, Copy)]
pub struct User {
    /// Field lines of its requests.
    pub fields: &'static str,
    /// Who the server has found it to be, by a password for example.
    pub authenticated: Option<&'static str>,
    /// It has shown a client certificate.
    pub has_certificate: bool,
}

impl User {
    const fn with(fields: &'static str) -> User {
        User { fields, authenticated: None, has_certificate: false }
    }

    pub fn has_cookie(self) -> bool {
        self.fields.contains("Cookie")
    }

    /// It has proved, or tries to prove, who it is.
    pub fn is_authorized(self) -> bool {
        self.fields.contains("Authorization") || self.authenticated.is_some() || self.has_certificate
    }

    pub fn has_credentials(self) -> bool {
        self.has_cookie() || self.is_authorized()
    }
}

pub const USERS: [User; 11] = [
    User::with(""),
    User::with(""),
    User::with("Cookie: u=alice\r\n"),
    User::with("Cookie: u=bob\r\n"),
    User::with("Authorization: Bearer carol\r\n"),
    User::with("Authorization: Bearer dave\r\n"),
    User::with("Cookie: u=erin\r\nAuthorization: Bearer erin\r\n"),
    User { authenticated: Some("frank"), ..User::with("") },
    User { authenticated: Some("grace"), ..User::with("Cookie: u=grace\r\n") },
    User { has_certificate: true, ..User::with("") },
    User { has_certificate: true, ..User::with("Cookie: u=ivan\r\n") },
];

/// A client's directives for caches, with its conditions and ranges.
pub const WISHES: [&str; 21] = [
    "Cache-Control: max-stale\r\n",
    "Cache-Control: max-stale=30\r\n",
    "Cache-Control: no-cache\r\n",
    "Cache-Control: no-store\r\n",
    "Cache-Control: only-if-cached, max-stale\r\n",
    "Cache-Control: only-if-cached\r\n",
    "Cache-Control: max-age=0\r\n",
    "Cache-Control: max-age=5\r\n",
    "Cache-Control: max-age=5, max-stale\r\n",
    "Cache-Control: stale-if-error=600\r\n",
    "Cache-Control: min-fresh=5\r\n",
    "Cache-Control: min-fresh=15, max-stale\r\n",
    "Cache-Control: no-cache, stale-if-error=600\r\n",
    "Range: bytes=0-31\r\n",
    "Range: bytes=32-79\r\n",
    "If-None-Match: \"none\"\r\n",
    "If-None-Match: \"r0\"\r\n",
    "If-None-Match: \"r1\"\r\n",
    "If-None-Match: \"r0\", \"r1\", \"r2\"\r\n",
    "X-Lang: de\r\n",
    "",
];

const CACHE_CONTROL: [&str; 20] = [
    "",
    "",
    "public, max-age=20",
    "max-age=20",
    "max-age=0",
    "s-maxage=20",
    "no-cache",
    "no-store",
    "private, max-age=20",
    "private=\"X-Personal\", max-age=20",
    "no-cache=\"Set-Cookie, X-Personal\", max-age=20",
    "must-revalidate",
    "must-revalidate, max-age=20",
    "public",
    "public, max-age=0",
    "max-age=5, stale-while-revalidate=30",
    "stale-while-revalidate=30, stale-if-error=60",
    "max-age=5, stale-if-error=60",
    "max-age=20, must-understand",
    "proxy-revalidate, max-age=5",
];

/// What the origin states about one of its pages.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Its `Cache-Control`; empty: none.
    pub cache_control: &'static str,
    /// The same after every second change.
    pub other_cache_control: &'static str,
    /// It has an ETag.
    pub has_etag: bool,
    /// It has a Last-Modified, some days old.
    pub has_modified: bool,
    /// It has `Vary: X-Lang`.
    pub varies: bool,
    /// The body is made for the user of the request, and so is its ETag.
    pub is_personal: bool,
    /// It sets a cookie with 200.
    pub sets_cookie: bool,
    /// It sets a cookie with 304 and with answers to HEAD.
    pub sets_cookie_later: bool,
    /// It answers conditional requests with 304 for every user.
    pub answers_304: bool,
    /// Its body arrives in two pieces.
    pub streams: bool,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Operation {
    /// A client sends a request.
    Ask { user: usize, path: usize, wish: usize, is_head: bool, is_bad: bool },
    /// The origin continues with one of the requests that wait there.
    Release { which: usize },
    /// It continues with all.
    ReleaseAll,
    /// It fails with one of the requests that wait there: with a status, or in the middle of the body.
    Fail { which: usize, cuts: bool },
    /// A client leaves.
    Leave { which: usize },
    /// Time passes.
    Pass { seconds: i64 },
    /// An operator purges a page.
    Purge { path: usize },
    /// The origin has a new version of a page, and the cache is not notified.
    Deploy { path: usize },
    /// A client changes a page.
    Change { path: usize },
    /// The server starts again. Without a disk the cache is empty then.
    Restart,
}

/// A whole history.
#[derive(Debug, Clone)]
pub struct History {
    pub resources: Vec<Resource>,
    pub operations: Vec<Operation>,
    /// The memory of the cache is small.
    pub is_small: bool,
    /// What the route makes of answers that set cookies.
    pub set_cookie: SetCookie,
}

struct Dice(TestRng);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        (self.0.next_u32() as usize) % most
    }

    fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

impl History {
    /// The history of a seed.
    pub fn of_seed(seed: u64, with_disk: bool) -> History {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut dice = Dice(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let pages = if dice.is(80) { 1 } else { 2 };
        let resources = (0..pages).map(|_| Resource::random(&mut dice)).collect::<Vec<_>>();
        // Few users, so that what one has left is met by another.
        let users: Vec<usize> = (0..2 + dice.below(2)).map(|_| dice.below(USERS.len())).collect();
        let count = 4 + dice.below(12);
        let operations =
            (0..count).map(|_| Operation::random(&mut dice, &users, resources.len(), with_disk)).collect();
        let set_cookie = [SetCookie::Refuse, SetCookie::Remove, SetCookie::Store][dice.below(3)];
        History { resources, operations, is_small: dice.is(20), set_cookie }
    }
}

impl Resource {
    fn random(dice: &mut Dice) -> Resource {
        Resource {
            cache_control: CACHE_CONTROL[dice.below(CACHE_CONTROL.len())],
            other_cache_control: CACHE_CONTROL[dice.below(CACHE_CONTROL.len())],
            has_etag: dice.is(70),
            has_modified: dice.is(40),
            varies: dice.is(20),
            is_personal: dice.is(60),
            sets_cookie: dice.is(15),
            sets_cookie_later: dice.is(30),
            answers_304: dice.is(70),
            streams: dice.is(30),
        }
    }
}

impl Operation {
    fn random(dice: &mut Dice, users: &[usize], paths: usize, with_disk: bool) -> Operation {
        let which = dice.below(4);
        match dice.below(100) {
            0..=54 => Operation::Ask {
                user: users[dice.below(users.len())],
                path: dice.below(paths),
                wish: if dice.is(45) { WISHES.len() - 1 } else { dice.below(WISHES.len()) },
                is_head: dice.is(10),
                is_bad: dice.is(10),
            },
            55..=69 => Operation::Release { which },
            70..=76 => Operation::ReleaseAll,
            77..=81 => Operation::Fail { which, cuts: dice.is(50) },
            82..=85 => Operation::Leave { which },
            86..=93 => Operation::Pass { seconds: [1, 4, 10, 40, 400, -100][dice.below(6)] },
            94..=95 => Operation::Purge { path: dice.below(paths) },
            96..=98 if with_disk => Operation::Restart,
            96 => Operation::Change { path: dice.below(paths) },
            _ => Operation::Deploy { path: dice.below(paths) },
        }
    }
}
