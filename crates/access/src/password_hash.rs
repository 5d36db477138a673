//! Stored passwords: the accepted formats, the limits of their costs, and the comparison with a password.
//!
//! Formats that are slow on purpose are accepted: bcrypt (`$2y$`), SHA-crypt (`$5$`, `$6$`) and Argon2id.
//! Formats that an attacker with the file could test a billion times a second are refused, and so is plain
//! text; each refusal states what to do. Costs have an upper limit, so that one line of a file cannot occupy
//! a processor for minutes.

use argon2::{Algorithm, Argon2, Params};
use argon2::{PasswordHash as Argon2Hash, PasswordVerifier as _};
use sha_crypt::{PasswordHashRef as ShaCryptHash, ShaCrypt};

/// 2 to this power rounds, which takes some seconds.
const MOST_BCRYPT_COST: u32 = 16;
/// About a second for a long password.
const MOST_SHA_CRYPT_ROUNDS: u32 = 1_000_000;
/// In KiB.
const MOST_ARGON2_MEMORY_KIB: u32 = 256 * 1024;
const MOST_ARGON2_PASSES: u32 = 16;
const MOST_ARGON2_LANES: u32 = 16;

/// A stored password in an accepted form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPassword {
    form: Form,
    text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bcrypt,
    ShaCrypt,
    Argon2id,
}

impl StoredPassword {
    /// Parses a stored password. The error does not repeat it.
    pub fn parse(text: &str) -> Result<StoredPassword, String> {
        let form = match text.split('$').nth(1) {
            Some("2y" | "2b" | "2a") if text.starts_with('$') => check_bcrypt(text).map(|()| Form::Bcrypt),
            Some("5" | "6") if text.starts_with('$') => check_sha_crypt(text).map(|()| Form::ShaCrypt),
            Some("argon2id") if text.starts_with('$') => check_argon2(text).map(|()| Form::Argon2id),
            _ => Err(refusal(text)),
        }?;
        Ok(StoredPassword { form, text: text.into() })
    }

    /// Whether it is the hash of this password. The check is slow on purpose, and takes the same time for a
    /// wrong password.
    pub fn fits(&self, password: &[u8]) -> bool {
        match self.form {
            Form::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Form::ShaCrypt => match ShaCryptHash::new(&self.text) {
                Ok(hash) => ShaCrypt::default().verify_password(password, hash).is_ok(),
                Err(_) => false,
            },
            Form::Argon2id => match Argon2Hash::new(&self.text) {
                Ok(hash) => Argon2::default().verify_password(password, &hash).is_ok(),
                Err(_) => false,
            },
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

const MAKE_AGAIN: &str = "make it again with 'htpasswd -B' (bcrypt)";

/// The reason why a format is not accepted.
fn refusal(text: &str) -> String {
    let is_traditional =
        text.len() == 13 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./".contains(&byte));
    let what = match text {
        "" => return format!("has no password; {MAKE_AGAIN}"),
        _ if text.starts_with("$apr1$") => "is an MD5 hash of Apache's ($apr1$), which is guessed quickly",
        _ if text.starts_with("$1$") => "is an MD5 hash ($1$), which is guessed quickly",
        _ if text.starts_with("{SHA}") => "is a plain SHA-1 hash ({SHA}), which is guessed at once",
        _ if text.starts_with("{SSHA}") => "is a salted SHA-1 hash ({SSHA}), which is guessed quickly",
        _ if text.starts_with("$2x$") => "is of a faulty variant of bcrypt ($2x$)",
        _ if text.starts_with("$argon2i$") || text.starts_with("$argon2d$") => {
            "is of a variant of Argon2 other than Argon2id"
        }
        _ if text.starts_with("$y$") || text.starts_with("$gy$") => {
            "is a yescrypt hash, which is not supported"
        }
        _ if text.starts_with("$7$") => "is an scrypt hash, which is not supported",
        _ if text.starts_with('$') || text.starts_with('{') => "has an unknown form",
        _ if is_traditional => "is a DES hash of crypt(), which is guessed at once, or plain text",
        _ => "is plain text",
    };
    format!("has a password that {what}; {MAKE_AGAIN}")
}

fn check_bcrypt(text: &str) -> Result<(), String> {
    let broken = || format!("has a bcrypt hash that is damaged; {MAKE_AGAIN}");
    let hash: bcrypt::HashParts = text.parse().map_err(|_| broken())?;
    match hash.get_cost() {
        4..=MOST_BCRYPT_COST => Ok(()),
        cost => Err(format!(
            "has a bcrypt hash of cost {cost}; it must be from 4 to {MOST_BCRYPT_COST}, \
             because each one more takes twice as long"
        )),
    }
}

fn check_sha_crypt(text: &str) -> Result<(), String> {
    let broken = || format!("has a SHA-crypt hash that is damaged; {MAKE_AGAIN}");
    let mut fields = text.split('$').skip(1);
    let hash_length = if fields.next() == Some("5") { 43 } else { 86 };
    let mut salt = fields.next();
    if let Some(rounds_text) = salt.and_then(|field| field.strip_prefix("rounds=")) {
        let rounds: Option<u32> = rounds_text.parse().ok().filter(|_| !rounds_text.starts_with(['0', '+']));
        match rounds {
            Some(1_000..=MOST_SHA_CRYPT_ROUNDS) => {}
            Some(rounds) => {
                return Err(format!(
                    "has a SHA-crypt hash of {rounds} rounds; it must be from 1000 to {MOST_SHA_CRYPT_ROUNDS}"
                ));
            }
            None => return Err(broken()),
        }
        salt = fields.next();
    }
    let is_hash_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    let is_hash_text = |text: &str| text.bytes().all(is_hash_byte);
    let salt_is_right = salt.is_some_and(|salt| (1..=16).contains(&salt.len()) && is_hash_text(salt));
    let hash_is_right = fields.next().is_some_and(|hash| hash.len() == hash_length && is_hash_text(hash));
    let is_right = salt_is_right && hash_is_right && fields.next().is_none();
    if is_right && ShaCryptHash::new(text).is_ok() { Ok(()) } else { Err(broken()) }
}

fn check_argon2(text: &str) -> Result<(), String> {
    let broken = || "has an Argon2id hash that is damaged; make it again".to_string();
    let hash = Argon2Hash::new(text).map_err(|_| broken())?;
    let is_argon2id = Algorithm::new(hash.algorithm.as_str()) == Ok(Algorithm::Argon2id);
    let has_all =
        hash.salt.is_some() && hash.hash.is_some() && hash.version.is_none_or(|version| version == 19);
    if !is_argon2id || !has_all {
        return Err(broken());
    }
    let params = Params::try_from(&hash).map_err(|_| broken())?;
    let in_limits = params.m_cost() <= MOST_ARGON2_MEMORY_KIB
        && params.t_cost() <= MOST_ARGON2_PASSES
        && params.p_cost() <= MOST_ARGON2_LANES;
    in_limits.then_some(()).ok_or_else(|| {
        format!(
            "has an Argon2id hash of {} KiB, {} passes and {} lanes; at most {MOST_ARGON2_MEMORY_KIB}, \
             {MOST_ARGON2_PASSES} and {MOST_ARGON2_LANES} are accepted",
            params.m_cost(),
            params.t_cost(),
            params.p_cost()
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `secret`, hashed by `htpasswd -B -C 5`.
    pub(crate) const BCRYPT: &str = "$2y$05$BP4Fqmn5gVrMfkzfbyFV.ekoZ5d8giqy28nL/HDMpEfTQOLz77BsW";
    /// `secret`, hashed by glibc's crypt(3).
    pub(crate) const SHA_512: &str = "$6$rounds=1500$saltsalt$34Syr0FSbWlp9hNFif0BNSVHRPxwiPh79DU920\
        TQC0DoAPilRd9UG4mVZjASSDEENmIuJl1xJneHoAcjNgCp00";
    /// `secret`, hashed by glibc's crypt(3).
    pub(crate) const SHA_256: &str = "$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2";

    fn fits(stored: &str, password: &str) -> bool {
        StoredPassword::parse(stored).unwrap().fits(password.as_bytes())
    }

    #[test]
    fn passwords_made_by_others() {
        for (stored, password) in [
            (BCRYPT, "secret"),
            (SHA_512, "secret"),
            (SHA_256, "secret"),
            // openssl passwd, with the default number of rounds.
            ("$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA", "secret"),
            (
                "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT\
                 0Y77vwPZN.Pq.H91p5hVO1",
                "secret",
            ),
            (
                "$6$rounds=1000$saltsalt$Sx0pA8XCNq90Z0X31Gi3qea/LjpwvTn/IypBSGZye7Lt/OqMzFhq\
                 lc0N3lubKIIvfmoTI3M3yx.nESda55WL21",
                "p\u{e4}ss w:rd",
            ),
            // The reference implementation's test.c.
            (
                "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
                "password",
            ),
        ] {
            assert!(fits(stored, password), "{stored}");
            for wrong in ["", "Secret", "secret ", "secre", "password1"] {
                assert!(!fits(stored, wrong), "{stored} {wrong:?}");
            }
        }
        let long = "$5$rounds=1000$sixteencharssalt$DkzF.NxTEA1ADgEp.coU2pCQ7gDGQa0sFGi0p80aH0C";
        assert!(fits(long, &"x".repeat(300)) && !fits(long, &"x".repeat(299)));
    }

    /// bcrypt uses only the first 72 bytes; so do the programs that make the files.
    #[test]
    fn bcrypt_cuts_as_htpasswd_does() {
        let stored = "$2y$05$abcdefghijklmnopqrstuuGUnCqbfgs3htOkLrFduUjAyLBw1Rq/u";
        assert!(fits(stored, &("a".repeat(72) + "tail")) && fits(stored, &"a".repeat(72)));
        assert!(!fits(stored, &"a".repeat(71)));
    }

    #[test]
    fn forms_refused() {
        for (stored, message) in [
            ("", "has no password"),
            (
                "$apr1$7sgO.XOG$NO83cajaGsxtUEZ6EqJ8..",
                "has a password that is an MD5 hash of Apache's ($apr1$), which is guessed quickly",
            ),
            (
                "$1$abc$PZF73YJz5hJ9yyI.7OP.R.",
                "has a password that is an MD5 hash ($1$), which is guessed quickly",
            ),
            (
                "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
                "has a password that is a plain SHA-1 hash ({SHA}), which is guessed at once",
            ),
            ("{SSHA}x", "has a password that is a salted SHA-1 hash ({SSHA}), which is guessed quickly"),
            (
                ".x1e2t/54SMHA",
                "has a password that is a DES hash of crypt(), which is guessed at once, or plain text",
            ),
            ("secret", "has a password that is plain text"),
            ("se$2y$cret", "has a password that is plain text"),
            ("$y$j9T$x$y", "has a password that is a yescrypt hash, which is not supported"),
            ("$7$x", "has a password that is an scrypt hash, which is not supported"),
            (
                "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgL",
                "has a password that is of a variant of Argon2 other than Argon2id",
            ),
            ("$2x$05$BP4F", "has a password that is of a faulty variant of bcrypt ($2x$)"),
            ("$pbkdf2$x", "has a password that has an unknown form"),
            ("{PLAIN}x", "has a password that has an unknown form"),
            ("$", "has a password that has an unknown form"),
            ("$2y$05$BP4F", "has a bcrypt hash that is damaged"),
            ("$6$saltsalt$short", "has a SHA-crypt hash that is damaged"),
            (
                "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA$x",
                "has a SHA-crypt hash that is damaged",
            ),
            ("$5$$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA", "has a SHA-crypt hash that is damaged"),
            (
                "$5$rounds=01000$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
                "has a SHA-crypt hash that is damaged",
            ),
        ] {
            assert_eq!(StoredPassword::parse(stored).unwrap_err(), format!("{message}; {MAKE_AGAIN}"));
        }
    }

    #[test]
    fn costs_are_limited() {
        let bcrypt = |cost: &str| StoredPassword::parse(&BCRYPT.replacen("05", cost, 1));
        assert!(bcrypt("04").is_ok() && bcrypt("16").is_ok());
        for cost in ["03", "17", "31"] {
            assert!(bcrypt(cost).unwrap_err().contains("it must be from 4 to 16"), "{cost}");
        }
        let sha = |rounds: &str| StoredPassword::parse(&SHA_256.replacen("1000", rounds, 1));
        assert!(sha("1000000").is_ok());
        for rounds in ["999", "1000001", "999999999"] {
            assert!(sha(rounds).unwrap_err().contains("it must be from 1000 to 1000000"), "{rounds}");
        }
        let argon2 = |params: &str| {
            let hash =
                format!("$argon2id$v=19${params}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4");
            StoredPassword::parse(&hash)
        };
        assert!(argon2("m=262144,t=16,p=16").is_ok());
        for params in ["m=262145,t=1,p=1", "m=256,t=17,p=1", "m=4096,t=1,p=17"] {
            assert!(
                argon2(params).unwrap_err().contains("at most 262144, 16 and 16 are accepted"),
                "{params}"
            );
        }
        for params in ["m=1,t=1,p=1", "m=256", "t=0,m=256,p=1"] {
            assert!(argon2(params).is_err() || params == "m=256", "{params}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\$(2y|5|6|argon2id)\\$[ -~]{0,90}|\\PC{0,30}") {
            if let Err(message) = StoredPassword::parse(&text) {
                prop_assert!(!message.contains('\n'));
            }
        }

        /// A damaged hash is refused or matches no password; it never panics.
        #[test]
        fn damage_is_harmless(at in 0usize..60, byte in 0x20u8..0x7f) {
            let mut text = BCRYPT.as_bytes().to_vec();
            text[at] = byte;
            let text = String::from_utf8(text).unwrap();
            // Avoids a cost so high that the test takes long.
            if let Ok(stored) = StoredPassword::parse(&text)
                && text[4..6] == *"05"
                && text[7..] != BCRYPT[7..]
                // Four bits of the salt's last letter do not count.
                && at != 28
            {
                prop_assert!(!stored.fits(b"secret"));
            }
        }
    }
}
