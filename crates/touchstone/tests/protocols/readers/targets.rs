//! Raw request targets: a table, and as many generated and mutated ones as requested, the same in each run.

/// What has got past the rules of one server or another.
const TABLE: [&str; 62] = [
    "/admin/secret",
    "/admin//../secret",
    "/admin\\secret",
    "/x/..;/admin/secret",
    "/x/../admin/secret",
    "/x/%2e%2e/admin/secret",
    "/x/%2e%2e%2fadmin/secret",
    "/admin%2fsecret",
    "/admin%2Fsecret",
    "/%61dmin/secret",
    "//admin/secret",
    "/./admin/secret",
    "/;/admin/secret",
    "/;a=b/admin/secret",
    "/admin;x/secret",
    "/admin;/secret",
    "/x/..%5cadmin/secret",
    "/x/..%5Cadmin\\secret",
    "/admin%5csecret",
    "/x/.%2e/admin/secret",
    "/x/..%3b/admin/secret",
    "/x/%2e%2e;/admin/secret",
    "/x/..;a=b/admin/secret",
    "/admin/..;/admin/secret",
    "http://x/admin/secret",
    "http://x//admin/secret",
    "http://admin//admin/secret",
    "/%2fadmin/secret",
    "/%2F%2Fadmin/secret",
    "/%00/../admin/secret",
    "/x//..//admin/secret",
    "/x/...//admin/secret",
    "/admin/.;/secret",
    "/.;/admin/secret",
    "/a%2f..%2fadmin/secret",
    "/a/%252e%252e/admin/secret",
    "/x/..%252fadmin/secret",
    "/admin?/secret",
    "/x/..\\admin\\secret",
    "/\\admin/secret",
    "/\\/admin/secret",
    "/x\\..\\admin/secret",
    "/admin%0a/secret",
    "/adm%09in/secret",
    "/adm%0Din/secret",
    "/x%2f%2e%2e%2fadmin%2fsecret",
    "/x/%2E%2E;%2Fadmin/secret",
    "/x/..;/..;/admin/secret",
    "/x/..%00/admin/secret",
    "/x;/%2e./admin/secret",
    "/x;%2f..%2f../admin/secret",
    "/x;\\..\\..\\admin/secret",
    "/%5cadmin/secret",
    "/%5c%5cadmin/secret",
    "/x%5c..%5cadmin/secret",
    "/x/.%09./admin/secret",
    "/x/%0a../admin/secret",
    "/@x/../admin/secret",
    "/:80/../admin/secret",
    "/http://x/../../admin/secret",
    "/admin%3bx/secret",
    "/x?/../admin/secret",
];

const PIECES: [&str; 30] = [
    "/", "/", "/", "//", "admin", "admin", "admin/", "secret", "x", ".", "..", "..", "../", "%2e", "%2E",
    "%2f", "%2F", "%5c", "\\", ";", ";a=b", "%3b", "%09", "%0A", "%25", "%252f", "%61dmin", ":", "@",
    "%C3%A9",
];

/// Numbers that are the same in each run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((number ^ (number >> 31)) % end as u64) as usize
    }
}

/// The table, and `generated` others. Those that are not in absolute form begin with a slash.
pub(crate) fn all(generated: usize) -> Vec<Vec<u8>> {
    let mut numbers = Numbers(17);
    let mut targets: Vec<Vec<u8>> = TABLE.iter().map(|target| target.as_bytes().to_vec()).collect();
    for number in 0..generated {
        let target = match number % 2 {
            0 => {
                let pieces = (0..1 + numbers.below(9)).map(|_| PIECES[numbers.below(PIECES.len())]);
                format!("/{}", pieces.collect::<String>()).into_bytes()
            }
            _ => mutated(TABLE[numbers.below(TABLE.len())], &mut numbers),
        };
        targets.push(target);
    }
    targets
}

fn mutated(target: &str, numbers: &mut Numbers) -> Vec<u8> {
    let mut target = target.as_bytes().to_vec();
    for _ in 0..=numbers.below(3) {
        let at = 1 + numbers.below(target.len());
        let at = at.min(target.len());
        match numbers.below(4) {
            0 if at < target.len() => {
                target.remove(at);
            }
            1 if at < target.len() => {
                let escape = format!("%{:02x}", target[at]);
                target.splice(at..=at, escape.bytes());
            }
            2 if at < target.len() => target[at] = b"/.\\;%a2fF5cC?"[numbers.below(13)],
            _ => {
                target.splice(at..at, PIECES[numbers.below(PIECES.len())].bytes());
            }
        }
    }
    target
}
