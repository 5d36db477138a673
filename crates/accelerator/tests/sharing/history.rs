//! What happens in a history: resources of an origin, and operations, made from a seed.

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Who asks, and what the request carries for that.
pub const USERS: [(&str, &str); 7] = [
    ("anon", ""),
    ("anon2", ""),
    ("alice", "Cookie: u=alice\r\n"),
    ("bob", "Cookie: u=bob\r\n"),
    ("carol", "Authorization: Bearer carol\r\n"),
    ("dave", "Authorization: Bearer dave\r\n"),
    ("erin", "Cookie: u=erin\r\nAuthorization: Bearer erin\r\n"),
];

/// What a client asks of caches, conditions and ranges included.
pub const WISHES: [&str; 16] = [
    "",
    "",
    "",
    "",
    "Cache-Control: max-stale\r\n",
    "Cache-Control: max-stale=30\r\n",
    "Cache-Control: no-cache\r\n",
    "Cache-Control: no-store\r\n",
    "Cache-Control: only-if-cached, max-stale\r\n",
    "Cache-Control: max-age=5\r\n",
    "Cache-Control: stale-if-error=600\r\n",
    "Cache-Control: min-fresh=5\r\n",
    "Range: bytes=0-31\r\n",
    "Range: bytes=32-79\r\n",
    "If-None-Match: \"none\"\r\n",
    "X-Lang: de\r\n",
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

/// What the origin says of one of its pages.
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
    /// It says `Vary: X-Lang`.
    pub varies: bool,
    /// The body is made for the user that asks, and so is its ETag.
    pub is_personal: bool,
    /// It sets a cookie with 200.
    pub sets_cookie: bool,
    /// It sets a cookie with 304 and with answers to HEAD.
    pub sets_cookie_later: bool,
    /// It answers conditional requests with 304 for every user.
    pub answers_304: bool,
    /// Its body comes in two pieces.
    pub streams: bool,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Operation {
    /// A client asks.
    Ask { user: usize, path: usize, wish: usize, is_head: bool, is_bad: bool },
    /// The origin goes on with one of the requests that wait there.
    Release { which: usize },
    /// It goes on with all.
    ReleaseAll,
    /// It fails with one of the requests that wait there: with a status, or in the middle of the body.
    Fail { which: usize, cuts: bool },
    /// A client leaves.
    Leave { which: usize },
    /// Time passes.
    Pass { seconds: i64 },
    /// An operator purges a page.
    Purge { path: usize },
    /// The origin has a new version of a page, and the cache is not told.
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
    /// The memory of the cache, in bytes.
    pub memory: u64,
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
        let resources = (0..1 + dice.below(2)).map(|_| Resource::random(&mut dice)).collect::<Vec<_>>();
        let count = 4 + dice.below(12);
        let operations =
            (0..count).map(|_| Operation::random(&mut dice, resources.len(), with_disk)).collect();
        let memory = if dice.is(20) { 3000 } else { 1 << 20 };
        History { resources, operations, memory }
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
    fn random(dice: &mut Dice, paths: usize, with_disk: bool) -> Operation {
        let which = dice.below(4);
        match dice.below(100) {
            0..=54 => Operation::Ask {
                user: dice.below(USERS.len()),
                path: dice.below(paths),
                wish: dice.below(WISHES.len()),
                is_head: dice.is(10),
                is_bad: dice.is(10),
            },
            55..=69 => Operation::Release { which },
            70..=76 => Operation::ReleaseAll,
            77..=81 => Operation::Fail { which, cuts: dice.is(50) },
            82..=85 => Operation::Leave { which },
            86..=93 => Operation::Pass { seconds: [1, 4, 10, 40, 400, -100][dice.below(6)] },
            94..=95 => Operation::Purge { path: dice.below(paths) },
            96..=97 if with_disk => Operation::Restart,
            96 => Operation::Change { path: dice.below(paths) },
            _ => Operation::Deploy { path: dice.below(paths) },
        }
    }
}
