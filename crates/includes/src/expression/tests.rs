//! Tests of the grammars with tables and with random inputs.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Page {
    variables: HashMap<Vec<u8>, Vec<u8>>,
    captures: Captures,
}

impl Scope for Page {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        if let [digit @ b'0'..=b'9'] = name {
            return self.captures.group(usize::from(digit - b'0')).map(<[u8]>::to_vec);
        }
        self.variables.get(name).cloned()
    }

    fn system_variable(&mut self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn request_field(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        name.eq_ignore_ascii_case(b"x-field").then(|| b"field value".to_vec())
    }

    fn now(&mut self) -> i64 {
        1_000_000_000
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        path == b"/yes"
    }

    fn is_file(&mut self, path: &[u8]) -> bool {
        path == b"/root/file"
    }

    fn captures(&mut self) -> &mut Captures {
        &mut self.captures
    }

    fn set_variable(&mut self, name: &[u8], value: Vec<u8>) {
        self.variables.insert(name.to_vec(), value);
    }
}

fn page() -> Page {
    let mut page = Page::default();
    for (name, value) in [("a", "1"), ("b", "two words"), ("empty", ""), ("REMOTE_ADDR", "10.1.2.3")] {
        page.set_variable(name.as_bytes(), value.as_bytes().to_vec());
    }
    page
}

fn evaluate(text: &str, legacy: bool) -> Result<bool, String> {
    let grammar = if legacy { Grammar::Legacy } else { Grammar::Apache24 };
    let expression = Expression::parse(text.as_bytes(), grammar)?;
    expression.holds(&mut page()).map_err(|error| error.to_string())
}

#[test]
fn modern_conditions() {
    let table = [
        ("true", true),
        ("false", false),
        ("!true", false),
        ("!!true", true),
        ("not false", true),
        ("true && false", false),
        ("true and not false", true),
        ("false || true && false", false),
        ("true || true && false", true),
        ("(false || true) && true", true),
        ("v('a') = '1'", true),
        ("v('a') == \"1\"", true),
        ("v('a') != '1'", false),
        ("'abc' < 'abd'", true),
        ("'10' < '9'", true),
        ("10 -lt 9", false),
        ("9 -lt 10", true),
        ("v('a') -eq 01", true),
        ("1 eq 1", true),
        ("5 ge 6", false),
        ("-3 -lt 2", true),
        ("'x' in {'a', 'x'}", true),
        ("'y' -in {'a', 'x'}", false),
        ("-z v('empty')", true),
        ("-n v('b')", true),
        ("-T 'off'", false),
        ("-T 'yes'", true),
        ("-A '/yes'", true),
        ("-U '/no'", false),
        ("-F '/root/file'", true),
        ("-F '/etc/passwd'", false),
        ("-R '10.0.0.0/8'", true),
        ("-R '10.9.0.0/16'", false),
        ("'192.168.1.1' -ipmatch '192.168.0.0/16'", true),
        ("'/a/b.html' -strmatch '*.html'", true),
        ("'/a/b.HTML' -strcmatch '*.html'", true),
        ("'/a/b.html' -fnmatch '/*.html'", false),
        ("v('b') =~ /two (.*)/ && $1 == 'words'", true),
        ("v('b') =~ m#TWO#i", true),
        ("v('b') !~ /three/", true),
        ("'a' . 'b' == 'ab'", true),
        ("'%{v:a}-%{REMOTE_ADDR}' == '1-10.1.2.3'", true),
        ("%{REMOTE_ADDR} =~ /^10\\./", true),
        ("tolower('ABC') == 'abc'", true),
        ("toupper(v('b')) == 'TWO WORDS'", true),
        ("escape('a b') == 'a%20b'", true),
        ("unescape('a%20b') == 'a b'", true),
        ("base64('any') == 'YW55' && unbase64('YW55') == 'any'", true),
        ("md5('a') == '0cc175b9c0f1b6a831c399e269772661'", true),
        ("sha1('a') == '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'", true),
        ("req('X-Field') == 'field value'", true),
        ("http('None') == ''", true),
        ("replace('a.b.c', '.', '-') == 'a-b-c'", true),
        ("sub(s/o/0/g, v('b')) == 'tw0 w0rds'", true),
        ("sub s/(t)w/$1W/, v('b') == 'tWo words'", true),
        ("join({'a', 'b'}, '+') == 'a+b'", true),
        ("'words' in split(/ /, v('b'))", true),
        ("join(split(/,/, '1,2,3'), ';') == '1;2;3'", true),
        ("'%{:true && false:}' == 'false'", true),
        ("'%{:v('a') . 'x':}' == '1x'", true),
        ("%{TIME_YEAR} -ge 2001", true),
        ("'\\x41\\102\\n' == 'AB\\n'", true),
        ("(v('a')) == ('1')", true),
        ("((((v('a'))))) == '1'", true),
        ("'it''s' == ''", false),
    ];
    for (text, expected) in table {
        let result = evaluate(text, false);
        if text == "'it''s' == ''" {
            assert!(result.is_err(), "{text}");
        } else {
            assert_eq!(result, Ok(expected), "{text}");
        }
    }
}

#[test]
fn modern_conditions_that_are_wrong() {
    let table = [
        "",
        "a = b",
        "'a'",
        "'a' =",
        "= 'a'",
        "'a' == 'b",
        "(true",
        "true)",
        "true false",
        "'a' =~ 'a'",
        "'a' =~ /a",
        "'a' =~ /a/x",
        "'a' =~ /(a/",
        "'a' =~ /(?=a)/",
        "nosuch('a') == ''",
        "file('/etc/passwd') == ''",
        "-e '/etc/passwd'",
        "-Q 'a'",
        "'a' -nosuch 'b'",
        "%{NO_SUCH} == ''",
        "%{open",
        "'%{open'",
        "'a' in 'b'",
        "-R 'nonsense'",
        "-R v('a')",
        "'\\400' == ''",
        "true &&",
        "!",
        "@",
    ];
    for text in table {
        assert!(Expression::parse(text.as_bytes(), Grammar::Apache24).is_err(), "{text}");
    }
}

#[test]
fn captures_stay_when_a_pattern_has_no_groups() {
    assert_eq!(evaluate("'abc' =~ /(b)/ && 'x' =~ /x/ && $1 == 'b'", false), Ok(true));
    assert_eq!(evaluate("'abc' =~ /(b)/ && !('x' =~ /(y)/) && $1 == ''", false), Ok(true));
}

#[test]
fn legacy_conditions() {
    let table = [
        ("", false),
        ("$a", true),
        ("$empty", false),
        ("$nosuch", false),
        ("!$nosuch", true),
        ("!", false),
        ("()", true),
        ("$a = 1", true),
        ("$a == 1", true),
        ("$a != 1", false),
        ("$b = two words", true),
        ("$b = 'two words'", true),
        ("${a}x = 1x", true),
        ("$a < 2", true),
        ("$a >= 2", false),
        ("$b = /^two/", true),
        ("$b = /$a/", false),
        ("$b != /three/", true),
        ("$b = / (w.*)/ && $1 = words", true),
        ("$b = / (?P<last>w.*)/ && $last = words", true),
        // Both operators have equal precedence and associate to the right.
        ("$nosuch && $a || $a", false),
        ("($nosuch && $a) || $a", true),
        ("$a || $nosuch && $nosuch", true),
        ("!($a = 2)", true),
        ("!$a || $a", true),
        ("-A /yes", true),
        ("-A '/no'", false),
        ("$a = \\1", true),
        ("a\\=b = 'a=b'", true),
        ("'unfinished", false),
        ("a|b = a|b", true),
        ("a&&b", true),
    ];
    for (text, expected) in table {
        assert_eq!(evaluate(text, true), Ok(expected), "{text}");
    }
}

#[test]
fn legacy_conditions_that_are_wrong() {
    let table = [
        "= a", "a =", "a = (b)", "!a = b", "(a", "a)", "/x/", "a /x/", "a < /x/", "&& a", "a && ", "a = /(/",
        "-A", "a (b)",
    ];
    for text in table {
        assert!(Expression::parse(text.as_bytes(), Grammar::Legacy).is_err(), "{text}");
    }
    assert!(evaluate("a = /$b(/", true).is_err());
}

/// A regular expression that is yet to be evaluated prevents earlier operands from being skipped.
#[test]
fn legacy_regular_expressions_are_always_evaluated() {
    assert_eq!(evaluate("($nosuch && $b = /(two)/) || $1 = two", true), Ok(true));
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in
        [("(", ")"), ("!(", ")"), ("%{:", ":}"), ("tolower(", ")"), ("'%{:", ":}'"), ("%{v:%{v:", "}}")]
    {
        let text = format!("{}'a' == 'a'{}", open.repeat(100_000), close.repeat(100_000));
        for legacy in [false, true] {
            let grammar = if legacy { Grammar::Legacy } else { Grammar::Apache24 };
            let result = Expression::parse(text.as_bytes(), grammar);
            assert!(legacy || result.is_err(), "{open}");
        }
    }
    let negations = format!("{}true", "!".repeat(100_001));
    assert_eq!(evaluate(&negations, false), Ok(false));
    assert_eq!(evaluate(&negations, true), Ok(false));
    let chain = vec!["true"; 50_000].join(" && ");
    assert_eq!(evaluate(&chain, false), Ok(true));
    assert_eq!(evaluate(&chain, true), Ok(true));
    let words = vec!["'a'"; 50_000].join(" . ");
    assert_eq!(evaluate(&format!("{words} == 'b'"), false), Ok(false));
}

#[test]
fn what_grows_is_bounded() {
    let mut text = "'aaaaaaaaaaaaaaaa'".to_owned();
    for _ in 0..10 {
        text = format!("replace({text}, 'a', 'aaaaaaaaaaaaaaaa')");
    }
    assert!(evaluate(&format!("{text} == ''"), false).is_err());
}

fn fragment() -> impl Strategy<Value = String> {
    let fragments = [
        "true",
        "false",
        "(",
        ")",
        "{",
        "}",
        ",",
        "!",
        "&&",
        "||",
        "and",
        "or",
        "'a'",
        "\"b$1\"",
        "$0",
        "v('a')",
        "=",
        "==",
        "!=",
        "<",
        "-eq",
        "=~",
        "!~",
        "/a(b)/",
        "/x/i",
        "m#x#",
        "s/a/$0b/g",
        "sub",
        "join",
        "split",
        "in",
        "%{",
        "%{:",
        ":}",
        "}",
        "%{TIME}",
        "%{v:a}",
        "-z",
        "-A",
        "-strmatch",
        ".",
        "12",
        "-3",
        "'",
        "\"",
        "\\",
        "$a",
        "${b}",
        " ",
        "-R",
        "'10.0.0.0/8'",
        "/",
        "=/",
        "|",
        "&",
        "x",
        "%",
    ];
    proptest::collection::vec(proptest::sample::select(fragments.to_vec()), 0..24)
        .prop_map(|parts| parts.join(" "))
}

fn grammar() -> impl Strategy<Value = Grammar> {
    proptest::sample::select(vec![Grammar::Apache24, Grammar::Legacy, Grammar::Nginx])
}

proptest! {
    #[test]
    fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..80), grammar in grammar()) {
        if let Ok(expression) = Expression::parse(&text, grammar) {
            _ = expression.holds(&mut page());
        }
    }

    #[test]
    fn any_fragments(text in fragment(), grammar in grammar()) {
        if let Ok(expression) = Expression::parse(text.as_bytes(), grammar) {
            _ = expression.holds(&mut page());
        }
    }

    #[test]
    fn conditions_of_constants_follow_logic(
        values in proptest::collection::vec(any::<bool>(), 1..12),
        ands in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let mut text = values[0].to_string();
        let mut groups = vec![values[0]];
        for (value, and) in values[1..].iter().zip(&ands) {
            text.push_str(if *and { " && " } else { " || " });
            text.push_str(&value.to_string());
            match groups.last_mut() {
                Some(last) if *and => *last &= value,
                _ => groups.push(*value),
            }
        }
        prop_assert_eq!(evaluate(&text, false), Ok(groups.into_iter().any(|group| group)), "{}", text);
    }
}
