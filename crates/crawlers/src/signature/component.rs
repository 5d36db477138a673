//! Components of a message that signatures cover (RFC 9421 section 2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::{BareItem, FieldType as _, Item, KeyRef};

use super::Problem;
use super::message::{Message, Start, Target};
use super::structured::{self, dictionary, joined, strict, strict_member};

/// The name of a component with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// The name in lower case.
    pub name: String,
    /// Its form in the base.
    pub identifier: String,
    form: Form,
    /// It is of the request that an answer belongs to.
    is_of_request: bool,
}

/// What of a field is covered, and how it is written.
#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// Its lines as they are.
    Lines,
    /// In the strict form of a structured field (`sf`).
    Strict,
    /// One member of a dictionary (`key`).
    Member(String),
    /// Each line as bytes (`bs`).
    Binary,
    /// A parameter of the query (`name`).
    Parameter(String),
}

impl Component {
    /// Reads a member of the list of covered components.
    pub fn read(item: &Item) -> Result<Component, Problem> {
        let name = item.bare_item.as_string().ok_or(Problem::Malformed("a component is not a string"))?;
        let name = name.as_str().to_string();
        let is_good = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"@!#$%&'*+-.^_`|~".contains(&byte)
        };
        if name.is_empty() || !name.bytes().all(is_good) {
            return Err(Problem::Malformed("a component is not the name of a field in lower case"));
        }
        if name == "@signature-params" {
            return Err(Problem::Malformed("the list of components names itself"));
        }
        let text = |value: &BareItem| value.as_string().map(|text| text.as_str().to_string());
        let mut component =
            Component { identifier: item.serialize(), name, form: Form::Lines, is_of_request: false };
        let mut forms = 0;
        for (parameter, value) in &item.params {
            let form = match (parameter.as_str(), value.as_boolean(), text(value)) {
                ("req", Some(true), _) => {
                    component.is_of_request = true;
                    continue;
                }
                ("sf", Some(true), _) => Form::Strict,
                ("bs", Some(true), _) => Form::Binary,
                ("key", _, Some(key)) => Form::Member(key),
                ("name", _, Some(name)) if component.name == "@query-param" => Form::Parameter(name),
                ("tr", ..) => return Err(Problem::Component("fields of trailers are not supported")),
                _ => return Err(Problem::Component("a component has an unknown parameter")),
            };
            // `sf` has no effect beside `key`, whose members are always in the strict form.
            let is_repeated = matches!(
                (&component.form, &form),
                (Form::Strict, Form::Member(_)) | (Form::Member(_), Form::Strict)
            );
            forms += usize::from(!is_repeated);
            if !matches!(component.form, Form::Member(_)) {
                component.form = form;
            }
        }
        let is_derived = component.name.starts_with('@');
        let needs_name = component.name == "@query-param";
        let fits = match &component.form {
            Form::Parameter(_) => needs_name,
            Form::Lines => !needs_name,
            _ => !is_derived,
        };
        if forms > 1 || !fits {
            return Err(Problem::Component("the parameters of a component do not fit together"));
        }
        Ok(component)
    }

    /// The member of a dictionary field that it covers, or `None` for the whole field; the outer `None`:
    /// it is not of this field.
    pub fn of_field(&self, name: &str) -> Option<Option<&str>> {
        let is_it = self.name == name && !self.is_of_request;
        is_it.then_some(match &self.form {
            Form::Member(key) => Some(key.as_str()),
            _ => None,
        })
    }

    /// Its value in a message.
    pub fn value(&self, message: &Message<'_>) -> Result<Vec<u8>, Problem> {
        let message = match (self.is_of_request, message.request) {
            (false, _) => message,
            (true, Some(request)) => request,
            (true, None) => return Err(Problem::Component("the message has no request")),
        };
        let value = match self.name.strip_prefix('@') {
            Some(derived) => self.derived(derived, message)?,
            None => self.field(message)?,
        };
        // With a line break, one component could be read as two.
        match value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            true => Err(Problem::Component("the value of a component has a line break")),
            false => Ok(value),
        }
    }

    fn derived(&self, name: &str, message: &Message<'_>) -> Result<Vec<u8>, Problem> {
        let target = match message.start {
            Start::Answer(status) if name == "status" => return Ok(status.to_string().into_bytes()),
            Start::Request(target) if name != "status" => target,
            _ => return Err(Problem::Component("a derived component is not of such a message")),
        };
        let query = || {
            let query = target.query.unwrap_or_default();
            [b"?", query].concat()
        };
        Ok(match name {
            "method" => target.method.to_vec(),
            "scheme" => target.scheme.as_bytes().to_vec(),
            "authority" => target.normal_authority(),
            "path" => target.normal_path().to_vec(),
            "query" => query(),
            "request-target" => target.request_target.to_vec(),
            "target-uri" => {
                let query = target.query.map_or(Vec::new(), |_| query());
                let begin = [target.scheme.as_bytes(), b"://", &target.normal_authority()].concat();
                [&begin[..], target.normal_path(), &query].concat()
            }
            "query-param" => self.parameter(&target)?,
            _ => return Err(Problem::Component("a derived component is unknown")),
        })
    }

    /// A parameter of the query (section 2.2.8).
    fn parameter(&self, target: &Target<'_>) -> Result<Vec<u8>, Problem> {
        let Form::Parameter(name) = &self.form else {
            return Err(Problem::Component("a parameter of the query has no name"));
        };
        let query = target.query.unwrap_or_default();
        let mut found =
            query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
                let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
                let value = pair.get(at + 1..).unwrap_or_default();
                (encode_again(&pair[..at]) == name.as_bytes()).then(|| encode_again(value))
            });
        match (found.next(), found.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(Problem::Component("a parameter of the query is missing")),
            _ => Err(Problem::Component("a parameter of the query is given twice")),
        }
    }

    fn field(&self, message: &Message<'_>) -> Result<Vec<u8>, Problem> {
        let missing = Problem::Component("a covered field is missing");
        if self.form == Form::Binary {
            let mut lines = message.values(self.name.as_bytes()).peekable();
            lines.peek().ok_or(missing)?;
            let coded = lines.map(|value| format!(":{}:", STANDARD.encode(value.trim_ascii())));
            return Ok(coded.collect::<Vec<_>>().join(", ").into_bytes());
        }
        let value = joined(message.values(self.name.as_bytes())).ok_or(missing)?;
        let unreadable = Problem::Component("a covered field is not a structured field of its type");
        match &self.form {
            Form::Strict => {
                let kind = structured::type_of(&self.name)
                    .ok_or(Problem::Component("the type of a structured field is unknown"))?;
                strict(&value, kind).map(String::into_bytes).ok_or(unreadable)
            }
            Form::Member(key) => {
                let dictionary = dictionary(&value).ok_or(unreadable)?;
                let key = KeyRef::from_str(key).map_err(|_| unreadable)?;
                let member = dictionary.get(key);
                let member = member.ok_or(Problem::Component("a covered member of a field is missing"))?;
                Ok(strict_member(member).into_bytes())
            }
            _ => Ok(value),
        }
    }
}

/// Decodes a part of a query, and encodes it again in the one form of section 2.2.8.
fn encode_again(part: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = part.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    let decoded = percent_encoding::percent_decode(&spaced).collect::<Vec<u8>>();
    // The URL standard decodes to text, and replaces what is not UTF-8.
    let text = String::from_utf8_lossy(&decoded).into_owned();
    let mut coded = Vec::with_capacity(text.len());
    for byte in text.into_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'-' | b'.' | b'_') {
            coded.push(byte);
        } else {
            coded.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded_as_the_url_standard_does() {
        // The examples of section 2.2.8.
        for (part, coded) in [
            ("this%20is%20a%20big%0Amultiline%20value", "this%20is%20a%20big%0Amultiline%20value"),
            ("with+plus+whitespace", "with%20plus%20whitespace"),
            ("fa%C3%A7ade%22%3A%20", "fa%C3%A7ade%22%3A%20"),
            ("a~b", "a%7Eb"),
        ] {
            assert_eq!(encode_again(part.as_bytes()), coded.as_bytes(), "{part}");
        }
    }
}
