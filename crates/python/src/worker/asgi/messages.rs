//! Reads the messages (dictionaries) that an application sends.

use super::names::Names;
use crate::api::{Gil, Kind as Class, Object, PythonException};
use crate::worker::response::Response;

/// A required item.
pub fn required(gil: Gil, message: &Object, key: &Object, name: &str) -> Result<Object, PythonException> {
    match gil.get(message, key)? {
        Some(found) => Ok(found),
        None => Err(gil.raise(Class::Value, &format!("the message has no '{name}'"))),
    }
}

/// The truth value of an item; a missing one is false.
pub fn truth(gil: Gil, message: &Object, key: &Object) -> Result<bool, PythonException> {
    match gil.get(message, key)? {
        Some(found) => gil.is_true(&found),
        None => Ok(false),
    }
}

/// `bytes` of an item; `None` if it is missing.
pub fn bytes(gil: Gil, message: &Object, key: &Object) -> Result<Option<Object>, PythonException> {
    match gil.get(message, key)? {
        Some(found) if !gil.is_none(&found) => gil.to_bytes(&found).map(Some),
        _ => Ok(None),
    }
}

/// The head of `http.response.start`.
pub fn response(gil: Gil, names: &Names, message: &Object) -> Result<Response, PythonException> {
    let status = gil.as_number(&required(gil, message, &names.status, "status")?)?;
    let mut response = Response::of_status(status).map_err(|problem| gil.raise(Class::Value, &problem))?;
    if let Some(headers) = gil.get(message, &names.headers)? {
        add_fields(gil, &mut response, &headers)?;
    }
    Ok(response)
}

/// Adds header fields: pairs of names and values, both `bytes`.
pub fn add_fields(gil: Gil, response: &mut Response, headers: &Object) -> Result<(), PythonException> {
    let mut add = |pair: Object| {
        let (name, value) = pair_of(gil, pair)?;
        let (name, value) = (gil.to_bytes(&name)?, gil.to_bytes(&value)?);
        response.add(name.bytes(), value.bytes()).map_err(|problem| gil.raise(Class::Value, &problem))
    };
    if let Some(count) = gil.length(headers) {
        return (0..count).try_for_each(|index| add(gil.member(headers, index)?));
    }
    let iterator = gil.iterate(headers)?;
    while let Some(pair) = gil.next(&iterator)? {
        add(pair)?;
    }
    Ok(())
}

fn pair_of(gil: Gil, pair: Object) -> Result<(Object, Object), PythonException> {
    match gil.length(&pair) {
        Some(2) => Ok((gil.member(&pair, 0)?, gil.member(&pair, 1)?)),
        _ => {
            Err(gil.raise(Class::Value, "a header field is a pair of name and value, both of the type bytes"))
        }
    }
}
