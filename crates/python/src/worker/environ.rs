//! A request as the dictionary of WSGI (PEP 3333): a copy of the items that all requests have, and the items
//! of this one.

use rustc_hash::FxHashMap;

use super::names::Names;
use crate::api::{Gil, Object, PythonException};
use crate::shared::request::{Fields, HAS_BODY, IS_HTTPS, WorkerRequestHead};

/// The most names of header fields that are cached, and the longest of them.
const MOST_KEPT: usize = 512;
const LONGEST_KEPT: usize = 64;

/// Makes dictionaries in one thread.
pub struct Environs {
    base: Object,
    /// The variable of a header field, by the field's name as sent; `None`: it has none.
    variables: FxHashMap<Box<[u8]>, Option<Object>>,
    /// Values that most requests share: methods, versions, schemes.
    shared: FxHashMap<Box<[u8]>, Object>,
    no_input: Object,
    script_name: Vec<u8>,
}

/// The items that all requests of a worker have.
pub struct Base {
    /// `sys.stderr`
    pub errors: Object,
    /// The class of `wsgi.file_wrapper`.
    pub file_wrapper: Object,
    /// `wsgi.input` of requests without a body.
    pub no_input: Object,
    /// More than one thread calls the application.
    pub is_threaded: bool,
    /// More than one worker runs it.
    pub has_others: bool,
    /// `SCRIPT_NAME`
    pub script_name: String,
}

impl Environs {
    /// Makes the items that all have.
    pub fn new(gil: Gil, names: &Names, base: &Base) -> Result<Environs, PythonException> {
        let dict = gil.dict()?;
        let version = gil.tuple([gil.number(1)?, gil.number(0)?])?;
        let empty = gil.latin1(b"")?;
        gil.set(&dict, &names.wsgi_version, &version)?;
        gil.set(&dict, &names.url_scheme, &gil.interned(c"http")?)?;
        gil.set(&dict, &names.input, &base.no_input)?;
        gil.set(&dict, &names.errors, &base.errors)?;
        gil.set(&dict, &names.multithread, &gil.truth(base.is_threaded)?)?;
        gil.set(&dict, &names.multiprocess, &gil.truth(base.has_others)?)?;
        gil.set(&dict, &names.run_once, &gil.truth(false)?)?;
        gil.set(&dict, &names.file_wrapper, &base.file_wrapper)?;
        gil.set(&dict, &names.input_terminated, &gil.truth(true)?)?;
        gil.set(&dict, &names.server_software, &gil.latin1(b"touchstone")?)?;
        gil.set(&dict, &names.script_name, &gil.latin1(base.script_name.as_bytes())?)?;
        gil.set(&dict, &names.query_string, &empty)?;
        Ok(Environs {
            base: dict,
            variables: FxHashMap::default(),
            shared: FxHashMap::default(),
            no_input: base.no_input.clone(),
            script_name: base.script_name.clone().into_bytes(),
        })
    }

    /// The dictionary of a request. `input` makes `wsgi.input` if there is a body.
    pub fn of(
        &mut self,
        gil: Gil,
        names: &Names,
        request_head: &WorkerRequestHead<'_>,
        fields: Fields<'_>,
        input: impl FnOnce() -> Result<Object, PythonException>,
    ) -> Result<Object, PythonException> {
        let dict = gil.copy_dict(&self.base)?;
        gil.set(&dict, &names.request_method, &self.shared(gil, request_head.method)?)?;
        let path = request_head.path.strip_prefix(&self.script_name[..]).filter(|rest| is_path(rest));
        gil.set(&dict, &names.path_info, &gil.latin1(path.unwrap_or(request_head.path))?)?;
        if !request_head.query.is_empty() {
            gil.set(&dict, &names.query_string, &gil.latin1(request_head.query)?)?;
        }
        gil.set(&dict, &names.request_uri, &request_uri(gil, request_head)?)?;
        gil.set(&dict, &names.server_name, &self.shared(gil, request_head.server_name)?)?;
        let mut digits = [0; 5];
        gil.set(
            &dict,
            &names.server_port,
            &self.shared(gil, decimal(request_head.server_port, &mut digits))?,
        )?;
        let protocol: &[u8] = match request_head.version {
            10 => b"HTTP/1.0",
            20 => b"HTTP/2",
            30 => b"HTTP/3",
            _ => b"HTTP/1.1",
        };
        gil.set(&dict, &names.server_protocol, &self.shared(gil, protocol)?)?;
        gil.set(&dict, &names.remote_addr, &self.shared(gil, request_head.client)?)?;
        if request_head.client_port != 0 {
            let mut digits = [0; 5];
            gil.set(&dict, &names.remote_port, &gil.latin1(decimal(request_head.client_port, &mut digits))?)?;
        }
        if request_head.flags & IS_HTTPS != 0 {
            gil.set(&dict, &names.url_scheme, &self.shared(gil, b"https")?)?;
            gil.set(&dict, &names.https, &self.shared(gil, b"on")?)?;
        }
        if !request_head.user.is_empty() {
            gil.set(&dict, &names.remote_user, &gil.latin1(request_head.user)?)?;
        }
        if !request_head.id.is_empty() {
            gil.set(&dict, &names.request_id, &gil.latin1(request_head.id)?)?;
        }
        for (name, value) in fields {
            let Some(variable) = self.variable(gil, name)? else { continue };
            let value = gil.latin1(value)?;
            // RFC 9110 section 5.2: lines of the same name are one value.
            match gil.get(&dict, &variable)? {
                None => gil.set(&dict, &variable, &value)?,
                Some(before) => {
                    let between: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
                    let joined = join(gil, &before, between, &value)?;
                    gil.set(&dict, &variable, &joined)?;
                }
            }
        }
        if request_head.flags & HAS_BODY != 0 {
            gil.set(&dict, &names.input, &input()?)?;
        } else {
            debug_assert!(gil.get(&dict, &names.input)?.is_some_and(|found| found.is(&self.no_input)));
        }
        Ok(dict)
    }

    /// A text that many requests have.
    fn shared(&mut self, gil: Gil, text: &[u8]) -> Result<Object, PythonException> {
        if let Some(known) = self.shared.get(text) {
            return Ok(known.clone());
        }
        let object = gil.latin1(text)?;
        if self.shared.len() < MOST_KEPT && text.len() <= LONGEST_KEPT {
            self.shared.insert(text.into(), object.clone());
        }
        Ok(object)
    }

    /// The variable of a header field; `None`: it has none.
    fn variable(&mut self, gil: Gil, name: &[u8]) -> Result<Option<Object>, PythonException> {
        if let Some(known) = self.variables.get(name) {
            return Ok(known.clone());
        }
        let object = match variable_name(name) {
            Some(variable) => Some(gil.latin1(&variable)?),
            None => None,
        };
        if self.variables.len() < MOST_KEPT && name.len() <= LONGEST_KEPT {
            self.variables.insert(name.into(), object.clone());
        }
        Ok(object)
    }
}

/// Whether this is a path below the application's prefix, or empty.
fn is_path(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/")
}

fn request_uri(gil: Gil, request_head: &WorkerRequestHead<'_>) -> Result<Object, PythonException> {
    if request_head.query.is_empty() {
        return gil.latin1(request_head.raw_path);
    }
    gil.latin1(&[request_head.raw_path, b"?", request_head.query].concat())
}

fn join(gil: Gil, before: &Object, between: &[u8], value: &Object) -> Result<Object, PythonException> {
    let mut text = Vec::new();
    // Both were made of bytes, one character for each.
    text.extend(gil.text(before)?.chars().map(|letter| letter as u32 as u8));
    text.extend_from_slice(between);
    text.extend(gil.text(value)?.chars().map(|letter| letter as u32 as u8));
    gil.latin1(&text)
}

/// The variable of a header field (RFC 3875 section 4.1.18). A name with an underscore would be taken for
/// another one with a hyphen, and `Proxy` for a setting of a program; these have none.
fn variable_name(name: &[u8]) -> Option<Vec<u8>> {
    if name.contains(&b'_') || name.eq_ignore_ascii_case(b"proxy") {
        return None;
    }
    let upper = name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    let is_plain = name.eq_ignore_ascii_case(b"content-type") || name.eq_ignore_ascii_case(b"content-length");
    let before: &[u8] = if is_plain { b"" } else { b"HTTP_" };
    Some(before.iter().copied().chain(upper).collect())
}

/// A number in digits.
pub fn decimal(mut number: u16, digits: &mut [u8; 5]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_variables() {
        for (name, variable) in [
            ("Accept", Some("HTTP_ACCEPT")),
            ("x-Forwarded-For", Some("HTTP_X_FORWARDED_FOR")),
            ("content-TYPE", Some("CONTENT_TYPE")),
            ("Content-Length", Some("CONTENT_LENGTH")),
            ("X_Forwarded_For", None),
            ("Proxy", None),
        ] {
            let converted = variable_name(name.as_bytes());
            assert_eq!(converted.as_deref(), variable.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 7, 10, 443, 8080, u16::MAX] {
            assert_eq!(decimal(number, &mut [0; 5]), number.to_string().as_bytes());
        }
    }
}
