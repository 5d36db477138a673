//! Evaluates expressions of version 7 for a request: conditions, and texts with variables.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use touchstone_http::hexadecimal;

use crate::abi::{
    ATTRIBUTE_CHUNKED, ATTRIBUTE_INTERNAL, ATTRIBUTE_KEEP_ALIVE, ATTRIBUTE_RESTARTED, Pblock, Request,
    Session,
};
use crate::api::escape::{escaped_path, unescape};
use crate::conf::expression::{
    Expression, Function, LiteralRegex, Operator, Piece, Template, Variable, regular_expression,
};
use crate::engine::text_path;
use crate::memory::bytes;
use crate::pattern::Pattern;
use crate::pblock;

/// The groups of the last regular expression that matched: `$&` first, then `$1` and so on.
pub type Groups = Arc<Vec<Vec<u8>>>;

/// The longest text that an expression may produce, in bytes.
const LONGEST_TEXT_BYTES: usize = 64 * 1024;

/// The longest file that `lookup` reads, in bytes.
const LONGEST_TABLE_BYTES: u64 = 16 * 1024 * 1024;

/// Evaluates expressions for one request.
pub struct Evaluation {
    session: *mut Session,
    request: *mut Request,
    groups: Groups,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Undefined,
    Text(Vec<u8>),
    Number(i64),
    /// A variable that is true or false.
    Flag(bool),
}

impl Evaluation {
    /// An evaluation for a request, with the groups of the regular expression that matched before.
    ///
    /// # Safety
    /// Session and request must be valid, and outlive this value.
    pub unsafe fn new(session: *mut Session, request: *mut Request, groups: Groups) -> Evaluation {
        Evaluation { session, request, groups }
    }

    /// The groups of the last regular expression.
    pub fn into_groups(self) -> Groups {
        self.groups
    }

    /// Whether an expression is true.
    pub fn is_true(&mut self, expression: &Expression) -> Result<bool, String> {
        Ok(self.value(expression)?.is_true())
    }

    /// A text with the values of its variables.
    pub fn text(&mut self, template: &Template) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        for piece in &template.0 {
            match piece {
                Piece::Literal(literal) => text.extend_from_slice(literal),
                Piece::Value(expression) => text.extend_from_slice(&self.value(expression)?.text()),
            }
        }
        bounded(text)
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, String> {
        Ok(match expression {
            Expression::Text(template) => Value::Text(self.text(template)?),
            Expression::Number(number) => Value::Number(*number),
            Expression::Variable(variable) => self.variable(variable),
            Expression::Defined(variable) => Value::Flag(self.variable(variable) != Value::Undefined),
            Expression::Not(inner) => Value::Flag(!self.is_true(inner)?),
            Expression::Negative(inner) => Value::Number(self.value(inner)?.number().saturating_neg()),
            Expression::File(test, path) => file_test(*test, &self.value(path)?.text()),
            Expression::Regex(left, LiteralRegex(regex), is_match) => {
                let left = self.value(left)?;
                Value::Flag(self.matches(&left, regex) == *is_match)
            }
            Expression::Choice(condition, left, right) => {
                let chosen = if self.is_true(condition)? { left } else { right };
                self.value(chosen)?
            }
            Expression::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Expression::Call(function, arguments) => {
                let values: Result<Vec<Value>, String> =
                    arguments.iter().map(|argument| self.value(argument)).collect();
                call(*function, &values?)?
            }
        })
    }

    fn matches(&mut self, value: &Value, regex: &regex::bytes::Regex) -> bool {
        for text in value.texts() {
            if let Some(found) = regex.captures(&text) {
                let group = |group: Option<regex::bytes::Match>| {
                    group.map(|group| group.as_bytes().to_vec()).unwrap_or_default()
                };
                self.groups = Arc::new(found.iter().take(10).map(group).collect());
                return true;
            }
        }
        false
    }

    fn binary(&mut self, operator: Operator, left: &Expression, right: &Expression) -> Result<Value, String> {
        match operator {
            Operator::And => return Ok(Value::Flag(self.is_true(left)? && self.is_true(right)?)),
            Operator::Or => return Ok(Value::Flag(self.is_true(left)? || self.is_true(right)?)),
            _ => {}
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        let numbers = || (left.number(), right.number());
        let texts = || (left.text(), right.text());
        let equal = || left.texts().iter().any(|text| right.texts().contains(text));
        Ok(Value::Flag(match operator {
            Operator::Plus => return Ok(Value::Number(left.number().saturating_add(right.number()))),
            Operator::Minus => return Ok(Value::Number(left.number().saturating_sub(right.number()))),
            Operator::Times => return Ok(Value::Number(left.number().saturating_mul(right.number()))),
            Operator::Divided | Operator::Modulo => {
                let (dividend, divisor) = numbers();
                let result = match operator {
                    Operator::Divided => dividend.checked_div(divisor),
                    _ => dividend.checked_rem(divisor),
                };
                let wrong = || format!("{dividend} cannot be divided by {divisor}");
                return result.map(Value::Number).ok_or_else(wrong);
            }
            Operator::Joined => return bounded([left.text(), right.text()].concat()).map(Value::Text),
            Operator::Xor => left.is_true() != right.is_true(),
            Operator::NumberEqual => left.number() == right.number(),
            Operator::NumberNotEqual => left.number() != right.number(),
            Operator::Equal => equal(),
            Operator::NotEqual => !equal(),
            Operator::Less => numbers().0 < numbers().1,
            Operator::AtMost => numbers().0 <= numbers().1,
            Operator::Greater => numbers().0 > numbers().1,
            Operator::AtLeast => numbers().0 >= numbers().1,
            Operator::TextLess => texts().0 < texts().1,
            Operator::TextAtMost => texts().0 <= texts().1,
            Operator::TextGreater => texts().0 > texts().1,
            Operator::TextAtLeast => texts().0 >= texts().1,
            Operator::Wildcard => wildcard(&left, &right)?,
            Operator::Matches | Operator::MatchesNot => {
                let regex = regular_expression(&right.text())?;
                self.matches(&left, &regex) == (operator == Operator::Matches)
            }
            Operator::And | Operator::Or => return Err("the operator is not known".to_string()),
        }))
    }

    fn variable(&self, variable: &Variable) -> Value {
        // SAFETY: session and request live, and their blocks are valid.
        unsafe {
            let (session, request) = (&*self.session, &*self.request);
            match variable {
                Variable::Group(number) => {
                    self.groups.get(*number).map_or(Value::Undefined, |group| Value::Text(group.clone()))
                }
                Variable::Own(name) => of(request.vars, &[b"$", name.as_slice()].concat()),
                Variable::Entry(map, key) => match *map {
                    "client" => of(session.client, key),
                    "cookie" => cookie(request, key),
                    "env" => self.environment(key),
                    "headers" => of(request.headers, &key.to_ascii_lowercase()),
                    "reqpb" => of(request.reqpb, key),
                    "srvhdrs" => of(request.srvhdrs, &key.to_ascii_lowercase()),
                    _ => of(request.vars, key),
                },
                Variable::Predefined(name) => self.predefined(name, session, request),
            }
        }
    }

    unsafe fn predefined(&self, name: &str, session: &Session, request: &Request) -> Value {
        let attribute = |bit| Value::Flag(request.rq_attr & bit != 0);
        let status = || pblock::find(request.srvhdrs, b"status").unwrap_or_default();
        let engine = crate::engine::current();
        match name {
            "auth_group" => of(request.vars, b"auth-group"),
            "auth_type" => of(request.vars, b"auth-type"),
            "auth_user" => of(request.vars, b"auth-user"),
            "browser" => of(request.headers, b"user-agent").or_empty(),
            "referer" => of(request.headers, b"referer").or_empty(),
            "chunked" => attribute(ATTRIBUTE_CHUNKED),
            "internal" => attribute(ATTRIBUTE_INTERNAL),
            "keep_alive" => attribute(ATTRIBUTE_KEEP_ALIVE),
            "restarted" => attribute(ATTRIBUTE_RESTARTED),
            "security" => Value::Flag(session.ssl != 0),
            "senthdrs" => Value::Flag(request.senthdrs != 0),
            "code" => Value::Text(status().get(..3).unwrap_or_default().to_vec()),
            "reason" => Value::Text(status().get(4..).unwrap_or_default().to_vec()),
            "dns" => match crate::api::session::session_dns_lookup(self.session, 0) {
                name if name.is_null() => Value::Undefined,
                name => Value::Text(bytes(name).to_vec()),
            },
            "ip" => of(session.client, b"ip"),
            "keysize" => of(session.client, b"keysize"),
            "secret_keysize" => of(session.client, b"secret-keysize"),
            "id" => engine
                .map_or(Value::Undefined, |engine| Value::Text(bytes(engine.globals().server_id).to_vec())),
            "docroot" => {
                engine.map_or(Value::Undefined, |engine| Value::Text(engine.document_root().to_vec()))
            }
            "method" => of(request.reqpb, b"method"),
            "protocol" => of(request.reqpb, b"protocol"),
            "query" => of(request.reqpb, b"query"),
            "uri" => of(request.reqpb, b"uri"),
            "ppath" => of(request.vars, b"ppath"),
            // Until NameTrans is finished, only the path translated so far or the requested path is known.
            "path" => [(request.vars, &b"path"[..]), (request.vars, b"ppath"), (request.reqpb, b"uri")]
                .into_iter()
                .map(|(block, name)| of(block, name))
                .find(|path| *path != Value::Undefined)
                .unwrap_or(Value::Undefined),
            "path_info" => of(request.vars, b"path-info"),
            "type" => of(request.srvhdrs, b"content-type"),
            "urlhost" => Value::Text(bytes(request.hostname).to_vec()),
            "server_url" => Value::Text(server_url(session, request)),
            "url" => {
                let uri = pblock::find(request.reqpb, b"uri").unwrap_or_default();
                let query = pblock::find(request.reqpb, b"query");
                let mut url = [server_url(session, request).as_slice(), &escaped_path(uri)].concat();
                query.iter().for_each(|query| url.extend_from_slice(&[b"?", *query].concat()));
                Value::Text(url)
            }
            time => time_value(time),
        }
    }

    /// The value of this name in a program's environment.
    unsafe fn environment(&self, name: &[u8]) -> Value {
        let request = &*self.request;
        let text = |value: Value| value.or_empty();
        match name {
            b"REMOTE_ADDR" => of((*self.session).client, b"ip"),
            b"REMOTE_USER" => of(request.vars, b"auth-user"),
            b"AUTH_TYPE" => of(request.vars, b"auth-type"),
            b"REQUEST_METHOD" => of(request.reqpb, b"method"),
            b"SERVER_PROTOCOL" => of(request.reqpb, b"protocol"),
            b"QUERY_STRING" => text(of(request.reqpb, b"query")),
            b"PATH_INFO" => of(request.vars, b"path-info"),
            b"CONTENT_TYPE" => of(request.headers, b"content-type"),
            b"CONTENT_LENGTH" => of(request.headers, b"content-length"),
            b"SERVER_NAME" => Value::Text(bytes(request.hostname).to_vec()),
            b"HTTPS" => Value::Text(if (*self.session).ssl != 0 { b"ON".to_vec() } else { b"OFF".to_vec() }),
            _ => match name.strip_prefix(b"HTTP_") {
                Some(field) => {
                    let dash = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
                    of(request.headers, &field.iter().map(dash).collect::<Vec<u8>>())
                }
                None => std::env::var_os(text_path(name))
                    .map_or(Value::Undefined, |value| Value::Text(value.into_encoded_bytes())),
            },
        }
    }
}

impl Value {
    fn is_true(&self) -> bool {
        match self {
            Value::Undefined => false,
            Value::Text(text) => !text.is_empty() && text != b"0",
            Value::Number(number) => *number != 0,
            Value::Flag(is_so) => *is_so,
        }
    }

    fn text(&self) -> Vec<u8> {
        match self {
            Value::Undefined => Vec::new(),
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string().into_bytes(),
            Value::Flag(is_so) => if *is_so { b"1" } else { b"0" }.to_vec(),
        }
    }

    /// The texts of which one must match: a flag has those that `<Client>` accepts for it.
    fn texts(&self) -> Vec<Vec<u8>> {
        match self {
            Value::Flag(true) => [&b"true"[..], b"on", b"yes", b"1"].map(<[u8]>::to_vec).to_vec(),
            Value::Flag(false) => [&b"false"[..], b"off", b"no", b"0", b""].map(<[u8]>::to_vec).to_vec(),
            value => vec![value.text()],
        }
    }

    /// The number of a text is the integer at its beginning.
    fn number(&self) -> i64 {
        match self {
            Value::Number(number) => *number,
            Value::Flag(is_so) => i64::from(*is_so),
            Value::Undefined => 0,
            Value::Text(text) => {
                let text = text.trim_ascii_start();
                let sign = usize::from(text.first().is_some_and(|byte| b"+-".contains(byte)));
                let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit());
                let magnitude = digits.fold(0_i64, |number, digit| {
                    number.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
                });
                if text.first() == Some(&b'-') { -magnitude } else { magnitude }
            }
        }
    }

    fn or_empty(self) -> Value {
        if self == Value::Undefined { Value::Text(Vec::new()) } else { self }
    }
}

unsafe fn of(block: *const Pblock, name: &[u8]) -> Value {
    pblock::find(block, name).map_or(Value::Undefined, |value| Value::Text(value.to_vec()))
}

unsafe fn cookie(request: &Request, name: &[u8]) -> Value {
    let cookies = pblock::find(request.headers, b"cookie").unwrap_or_default();
    let pairs = cookies.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let value = |pair: &[u8]| pair.strip_prefix(name)?.strip_prefix(b"=").map(<[u8]>::to_vec);
    pairs.into_iter().find_map(value).map_or(Value::Undefined, Value::Text)
}

unsafe fn server_url(session: &Session, request: &Request) -> Vec<u8> {
    let scheme: &[u8] = if session.ssl != 0 { b"https://" } else { b"http://" };
    let host = pblock::find(request.headers, b"host").unwrap_or_else(|| bytes(request.hostname));
    [scheme, host].concat()
}

fn bounded(text: Vec<u8>) -> Result<Vec<u8>, String> {
    if text.len() > LONGEST_TEXT_BYTES {
        return Err(format!("the result of an expression is longer than {LONGEST_TEXT_BYTES} bytes"));
    }
    if text.contains(&0) {
        return Err("the result of an expression contains a NUL byte".to_string());
    }
    Ok(text)
}

fn wildcard(text: &Value, pattern: &Value) -> Result<bool, String> {
    let pattern = pattern.text();
    let read = Pattern::new(&pattern);
    let read = read.map_err(|error| {
        format!("the pattern {:?} is not valid: {error}", String::from_utf8_lossy(&pattern))
    })?;
    Ok(match text {
        Value::Flag(_) => text.texts().iter().any(|text| read.matches_any_case(text)),
        _ => read.matches(&text.text()),
    })
}

/// `-s` returns the length of the file, the other tests return true or false.
fn file_test(test: u8, path: &[u8]) -> Value {
    let path = text_path(path);
    let metadata = if test == b'l' { path.symlink_metadata() } else { path.metadata() };
    let Ok(metadata) = metadata else { return Value::Flag(false) };
    Value::Flag(match test {
        b'd' => metadata.is_dir(),
        b'f' => metadata.is_file(),
        b'l' => metadata.is_symlink(),
        b's' => return Value::Number(i64::try_from(metadata.len()).unwrap_or(i64::MAX)),
        b'r' => rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_ok(),
        _ => true,
    })
}

fn call(function: Function, arguments: &[Value]) -> Result<Value, String> {
    let text = |at: usize| arguments.get(at).map(Value::text).unwrap_or_default();
    let metadata = || text_path(&text(0)).metadata().ok();
    let time = |of: fn(&std::fs::Metadata) -> i64| {
        metadata().map_or(Value::Undefined, |metadata| Value::Number(of(&metadata)))
    };
    Ok(match function {
        Function::AccessTime => time(|metadata| metadata.atime()),
        Function::ChangeTime => time(|metadata| metadata.ctime()),
        Function::ModificationTime => time(|metadata| metadata.mtime()),
        Function::Owner => metadata().map_or(Value::Undefined, |metadata| owner(metadata.uid())),
        Function::LowerCase => Value::Text(text(0).to_ascii_lowercase()),
        Function::UpperCase => Value::Text(text(0).to_ascii_uppercase()),
        Function::Length => Value::Number(text(0).len() as i64),
        Function::Escape => Value::Text(escaped_path(&text(0))),
        Function::Unescape => Value::Text(bounded(unescape(&text(0)))?),
        Function::HttpDate => {
            let seconds = arguments.first().map_or(0, Value::number);
            Value::Text(touchstone_http::date::format_imf_fixdate(seconds).to_vec())
        }
        Function::Choose => {
            let choices = text(0);
            let choices: Vec<&[u8]> = choices.split(|byte| *byte == b'|').collect();
            let mut random = [0; 8];
            crate::api::md5::fill_random(&mut random);
            Value::Text(choices[(u64::from_le_bytes(random) % choices.len() as u64) as usize].to_vec())
        }
        Function::Lookup => match lookup(&in_directory(&text(0)), &text(1))? {
            Some(found) => Value::Text(found),
            None => arguments.get(2).cloned().unwrap_or(Value::Undefined),
        },
        Function::Uuid => {
            let mut random = [0; 16];
            crate::api::md5::fill_random(&mut random);
            Value::Text(hexadecimal::random_uuid(random).into_bytes())
        }
    })
}

fn owner(uid: u32) -> Value {
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::zeroed();
    let mut space = [0; 4_096];
    let mut found = std::ptr::null_mut();
    // SAFETY: all are valid for the call, and the name is copied while `space` lives.
    unsafe {
        libc::getpwuid_r(uid, entry.as_mut_ptr(), space.as_mut_ptr(), space.len(), &raw mut found);
        match found.is_null() {
            true => Value::Text(uid.to_string().into_bytes()),
            false => Value::Text(bytes((*found).pw_name).to_vec()),
        }
    }
}

/// Relative paths begin at the directory of obj.conf.
fn in_directory(path: &[u8]) -> PathBuf {
    let path = text_path(path);
    crate::engine::current().map_or(path.clone(), |engine| engine.directory().join(&path))
}

/// A file of `lookup`, as last read.
struct Table {
    state: (u64, Option<SystemTime>),
    values: HashMap<Vec<u8>, Vec<u8>>,
}

/// The value of a name in a file whose lines hold a name, white space and a value. The file is read again
/// after a change.
fn lookup(path: &Path, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
    static TABLES: Mutex<Option<HashMap<PathBuf, Table>>> = Mutex::new(None);
    let failed = |error: &dyn std::fmt::Display| format!("lookup of {}: {error}", path.display());
    let metadata = path.metadata().map_err(|error| failed(&error))?;
    let state = (metadata.len(), metadata.modified().ok());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let tables = tables.get_or_insert_default();
    if tables.get(path).is_none_or(|table| table.state != state) {
        if metadata.len() > LONGEST_TABLE_BYTES || !metadata.is_file() {
            return Err(failed(&format!("it is not a file of at most {LONGEST_TABLE_BYTES} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| failed(&error))?;
        let values = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = crate::conf::objects::first_word(line.trim_ascii());
            (!name.is_empty() && name[0] != b'#').then(|| (name.to_vec(), value.to_vec()))
        });
        // The path may depend on data of a client, so the number of stored files is limited.
        if tables.len() >= 64 {
            tables.clear();
        }
        tables.insert(path.to_path_buf(), Table { state, values: values.collect() });
    }
    Ok(tables.get(path).and_then(|table| table.values.get(name).cloned()))
}

/// `$time` and its parts, in local time.
fn time_value(name: &str) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both are valid for the call; an all-zero structure is a valid value, too.
    let local = unsafe {
        libc::localtime_r(&(now as libc::time_t), local.as_mut_ptr());
        local.assume_init()
    };
    let two = |number: c_int| Value::Text(format!("{number:02}").into_bytes());
    match name {
        "time_day" => two(local.tm_mday),
        "time_hour" => two(local.tm_hour),
        "time_min" => two(local.tm_min),
        "time_mon" => two(local.tm_mon + 1),
        "time_sec" => two(local.tm_sec),
        "time_wday" => Value::Number(i64::from(local.tm_wday)),
        "time_year" => Value::Number(i64::from(local.tm_year) + 1900),
        _ => Value::Number(now as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Evaluates an expression for a request of `/docs/Report.html?a=1`.
    fn evaluate(text: &str) -> Result<Value, String> {
        let expression = Expression::parse(text.as_bytes())?;
        // SAFETY: the structures are all zero except for blocks, which are valid and live as long as they do.
        unsafe {
            let mut session: Session = std::mem::zeroed();
            let mut request: Request = std::mem::zeroed();
            for block in [&mut request.vars, &mut request.reqpb, &mut request.headers, &mut request.srvhdrs] {
                *block = pblock::pblock_create(4);
            }
            session.client = pblock::pblock_create(4);
            pblock::set(request.reqpb, b"uri", b"/docs/Report.html");
            pblock::set(request.reqpb, b"query", b"a=1");
            pblock::set(request.headers, b"cookie", b"x=1; session=abc");
            pblock::set(request.headers, b"user-agent", b"Mozilla/5");
            pblock::set(request.vars, b"ppath", b"/docs/Report.html");
            pblock::set(request.vars, b"$mine", b"own");
            pblock::set(session.client, b"ip", b"192.0.2.1");
            let mut evaluation = Evaluation::new(&raw mut session, &raw mut request, Groups::default());
            evaluation.value(&expression)
        }
    }

    #[test]
    fn expressions_are_evaluated_as_perl_would() {
        for (text, expected) in [
            ("$uri = '*.HTML'", false),
            ("$uri = '*.html'", true),
            ("uri = '/docs/*'", true),
            ("$uri eq '/docs/report.html'", false),
            ("$uri =~ '^/docs/(.*)\\.html$' and $1 eq 'Report'", true),
            ("$uri =~ \"^/docs/(.*)\\\\.html$\" and \"<$1>\" eq '<Report>' and $& eq $uri", true),
            ("$uri !~ '(?i)REPORT'", false),
            ("$uri =~ ('Rep' . 'ort') and not $uri =~ ('REP' . 'ORT')", true),
            ("not $internal and $query", true),
            ("not ($query or $internal)", false),
            ("! $query || 0", false),
            ("$internal = 'off' and $internal = 'FALSE' and $internal eq '0'", true),
            ("1 + 2 == 3 && 010 == 8 and 0x10 == 16", true),
            ("'a' . 1 + 0 eq 'a1'", false),
            ("7 - 2 - 1 == 4 and -1 < 0 and 7 / 2 == 3 and 7 % 4 * 2 == 6", true),
            ("1 != 2 and not 2 != 2 and '12ab' == 12 and ' -3' + 1 == -2", true),
            ("1 ^ 1 || 1 ^ 0", true),
            ("1 ? 0 : 1", false),
            ("0 ? 0 : '' ? 0 : $uri eq 'x' ? 0 : 'last'", true),
            ("-d '/' . 'not/there' or -d '/not/there' . '/..' . 'x'", false),
            ("-s '/proc/self/exe' > 1000 and not -s '/not/there'", true),
            ("\"$internal\" eq '0'", true),
            ("'b' gt 'a' and 'a' le 'a' and not 'a' lt 'a'", true),
            ("1 xor 1", false),
            ("$cookie{'session'} eq 'abc' and not defined $cookie{'y'}", true),
            ("$headers{'User-Agent'} = 'Mozilla*' and $browser =~ 'Mozilla'", true),
            ("$env{'HTTP_USER_AGENT'} eq $browser and $env{REMOTE_ADDR} eq $ip", true),
            ("defined $mine and \"${mine}ed\" eq 'owned'", true),
            ("$path eq $ppath", true),
            ("lc('ABC') eq 'abc' and uc('a') eq 'A' and length('four') == 4", true),
            ("escape('/a b') eq '/a%20b' and unescape('%41') eq 'A'", true),
            ("httpdate(0) eq 'Thu, 01 Jan 1970 00:00:00 GMT'", true),
            ("choose('x|x') eq 'x' and length(uuid()) == 36", true),
            ("-d '/' and -e '/' and not -f '/' and not -e '/not/there'", true),
            ("$time > 1000000 and $time_year >= 2024", true),
            ("''", false),
            ("'0'", false),
            ("'00'", true),
            ("\"$$uri\" eq '$uri' and \"$(1 + 1)\" == 2", true),
            ("mtime('/not/there') == 0 and owner('/') ne ''", true),
        ] {
            assert_eq!(evaluate(text).map(|value| value.is_true()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_evaluated_is_an_error() {
        assert!(evaluate("$uri =~ \"($query\"").unwrap_err().contains("regular expression"));
        assert!(evaluate("$uri = \"($query\"").unwrap_err().contains("pattern"));
        assert!(evaluate("lookup('/not/there', 'a') eq 'b'").unwrap_err().contains("/not/there"));
        assert!(evaluate("unescape('%00')").is_ok(), "a NUL stays escaped");
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_integers(a in -1000_i64..1000, b in -1000_i64..1000, c in -1000_i64..1000) {
            // Binds less than additive and more than matching operators, from left to right.
            let text = format!("({a}) + ({b}) * ({c}) - ({b})");
            prop_assert_eq!(evaluate(&text), Ok(Value::Number(a + b * c - b)));
            prop_assert_eq!(evaluate(&format!("({a}) / ({b})")).ok(), a.checked_div(b).map(Value::Number));
            prop_assert_eq!(evaluate(&format!("'{a}' - 0 == {a} and ({a}) % 7 + 0 == ({a} - ({a}) / 7 * 7)")),
                Ok(Value::Flag(true)));
            prop_assert_eq!(evaluate(&format!("({a}) < ({b})")), Ok(Value::Flag(a < b)));
            prop_assert_eq!(evaluate(&format!("({a}) != ({b})")), Ok(Value::Flag(a != b)));
            prop_assert_eq!(evaluate(&format!("({a}) > ({b}) ? ({a}) : ({b})")), Ok(Value::Number(a.max(b))));
        }

        #[test]
        fn not_and_or_are_those_of_logic(a: bool, b: bool, c: bool) {
            let [x, y, z] = [a, b, c].map(u8::from);
            for (text, expected) in [
                (format!("{x} or {y} and {z}"), a || b && c),
                (format!("not {x} and {y} or {z}"), !a && b || c),
                (format!("not ({x} and {y}) xor {z}"), !(a && b) ^ c),
                (format!("! {x} || {y} && {z}"), !a || b && c),
                (format!("{x} && {y} ^ {z}"), a && (b ^ c)),
                (format!("not {x} || {y}"), !(a || b)),
            ] {
                prop_assert_eq!(evaluate(&text).map(|value| value.is_true()), Ok(expected), "{}", text);
            }
        }

        #[test]
        fn texts_are_compared_as_they_are(a in "[ -&(-\\[\\]-~]{0,8}", b in "[ -&(-\\[\\]-~]{0,8}") {
            prop_assert_eq!(evaluate(&format!("'{a}' eq '{b}'")), Ok(Value::Flag(a == b)));
            prop_assert_eq!(evaluate(&format!("'{a}' lt '{b}'")), Ok(Value::Flag(a < b)));
            prop_assert_eq!(evaluate(&format!("'{a}' . '{b}'")), Ok(Value::Text([a, b].concat().into())));
        }

        #[test]
        fn what_can_be_read_can_be_evaluated(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "$uri ", "'a' ", "\"$1$& \" ", "(", ")", "not ", "and ", "or ", "=~ ", "= ", "-s ",
                    "$headers{'cookie'} ", "lc(", "9223372036854775807 ", "- ", "+ ", "* ", "/ ", "% ",
                    "! ", "defined ", "? ", ": ", "'(.)' ", "0 ", ". ", "httpdate(", "unescape(",
                    "choose(", "$time ", "== ", "^ ",
                ]),
                0..24,
            ),
        ) {
            let _ = evaluate(&words.concat());
        }
    }

    #[test]
    fn tables_are_read_again_when_they_change() {
        let path = std::env::temp_dir().join(format!("touchstone-lookup-{}", std::process::id()));
        let ask = || evaluate(&format!("lookup('{}', $uri, 'none')", path.display())).unwrap().text();
        std::fs::write(&path, "# names\n/docs/Report.html \t /new place\n").unwrap();
        assert_eq!(ask(), b"/new place");
        std::fs::write(&path, "/other /new\n").unwrap();
        assert_eq!(ask(), b"none");
        std::fs::remove_file(&path).unwrap();
    }
}
