//! A request as bytes: numbers, then texts, then header fields.
//!
//! ```text
//! 0 flags (1)  1 version (1)  2 client port (2)  4 server port (2)  6 fields (2)  8 length of the body (8)
//! 16 lengths of: method, path, path as sent, query, server name, client, user, id (4 each)
//! 48 these texts; then for each field: length of the name (2), length of the value (4), both
//! ```
//!
//! All numbers are little-endian.

/// The client uses HTTPS.
pub const IS_HTTPS: u8 = 1;
/// There is a body.
pub const HAS_BODY: u8 = 2;
/// The client requests a switch of protocols (`Upgrade`, or an extended CONNECT).
pub const MAY_SWITCH: u8 = 4;
/// The client waits for 100 (Continue) before it sends its body.
pub const EXPECTS_CONTINUE: u8 = 8;

/// Texts of a request that are not header fields.
const TEXTS: usize = 8;
const TEXTS_AT: usize = 48;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerRequestHead<'a> {
    /// [`IS_HTTPS`] and the like.
    pub flags: u8,
    /// The version of HTTP: 10, 11, 20, 30.
    pub version: u8,
    /// The port of the client; 0: unknown.
    pub client_port: u16,
    /// The port that the client connected to.
    pub server_port: u16,
    /// The length of the body; -1: unknown.
    pub body_length: i64,
    /// The method.
    pub method: &'a [u8],
    /// The path, decoded.
    pub path: &'a [u8],
    /// The path in its escaped form.
    pub raw_path: &'a [u8],
    /// The query without its question mark.
    pub query: &'a [u8],
    /// The host name that the client has requested.
    pub server_name: &'a [u8],
    /// The address of the client.
    pub client: &'a [u8],
    /// The user that the server has authenticated; empty: none.
    pub user: &'a [u8],
    /// The id of the request; empty: none.
    pub id: &'a [u8],
}

/// Writes a request.
pub fn write<'a>(
    out: &mut Vec<u8>,
    request_head: &WorkerRequestHead<'_>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    out.clear();
    out.extend_from_slice(&[request_head.flags, request_head.version]);
    out.extend_from_slice(&request_head.client_port.to_le_bytes());
    out.extend_from_slice(&request_head.server_port.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&request_head.body_length.to_le_bytes());
    let texts: [&[u8]; TEXTS] = [
        request_head.method,
        request_head.path,
        request_head.raw_path,
        request_head.query,
        request_head.server_name,
        request_head.client,
        request_head.user,
        request_head.id,
    ];
    texts.iter().for_each(|text| out.extend_from_slice(&length_of(text).to_le_bytes()));
    texts.iter().for_each(|text| out.extend_from_slice(text));
    let mut count = 0u16;
    for (name, value) in fields {
        // The limits for heads are far below these numbers.
        let Ok(name_length) = u16::try_from(name.len()) else { continue };
        out.extend_from_slice(&name_length.to_le_bytes());
        out.extend_from_slice(&length_of(value).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        count += 1;
    }
    out[6..8].copy_from_slice(&count.to_le_bytes());
}

fn length_of(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// Reads a request: its head, and the fields. `None`: it was not written by [`write`].
pub fn read(bytes: &[u8]) -> Option<(WorkerRequestHead<'_>, Fields<'_>)> {
    let numbers = bytes.get(..TEXTS_AT)?;
    let short = |at: usize| u16::from_le_bytes([numbers[at], numbers[at + 1]]);
    let body_length = i64::from_le_bytes(numbers[8..16].try_into().ok()?);
    let mut rest = &bytes[TEXTS_AT..];
    let mut texts: [&[u8]; TEXTS] = [&[]; TEXTS];
    for (index, text) in texts.iter_mut().enumerate() {
        let at = 16 + 4 * index;
        let length = u32::from_le_bytes(numbers[at..at + 4].try_into().ok()?);
        (*text, rest) = rest.split_at_checked(length as usize)?;
    }
    let [method, path, raw_path, query, server_name, client, user, id] = texts;
    let request_head = WorkerRequestHead {
        flags: numbers[0],
        version: numbers[1],
        client_port: short(2),
        server_port: short(4),
        body_length,
        method,
        path,
        raw_path,
        query,
        server_name,
        client,
        user,
        id,
    };
    Some((request_head, Fields { rest, left: short(6) }))
}

/// The header fields of a request: names and values.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Fields<'a> {
    /// How many there are, if all of them were written.
    pub fn expected(&self) -> usize {
        self.left.into()
    }

    /// The next field, as it was written: two fields with the same bytes have the same name and value.
    pub fn next_field(&mut self) -> Option<Field<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (numbers, rest) = self.rest.split_at_checked(6)?;
        let name = u16::from_le_bytes([numbers[0], numbers[1]]);
        let value = u32::from_le_bytes([numbers[2], numbers[3], numbers[4], numbers[5]]);
        let (name, rest) = rest.split_at_checked(name.into())?;
        let (value, rest) = rest.split_at_checked(value as usize)?;
        let written = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Some(Field { written, name, value })
    }
}

/// A header field of a request.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// Lengths, name and value.
    pub written: &'a [u8],
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.next_field().map(|field| (field.name, field.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            texts in proptest::array::uniform8(proptest::collection::vec(any::<u8>(), 0..40)),
            numbers: (u8, u8, u16, u16, i64),
            fields in proptest::collection::vec((".{0,9}", ".{0,30}"), 0..20)
        ) {
            let [method, path, raw_path, query, server_name, client, user, id] =
                texts.each_ref().map(Vec::as_slice);
            let request_head = WorkerRequestHead {
                flags: numbers.0, version: numbers.1, client_port: numbers.2, server_port: numbers.3,
                body_length: numbers.4, method, path, raw_path, query, server_name, client, user, id,
            };
            let pairs = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let mut out = b"old".to_vec();
            write(&mut out, &request_head, pairs());
            let (read_head, read_fields) = read(&out).unwrap();
            prop_assert_eq!(read_head, request_head);
            prop_assert_eq!(read_fields.collect::<Vec<_>>(), pairs().collect::<Vec<_>>());
        }

        #[test]
        fn other_bytes_cause_no_panic(mut bytes: Vec<u8>, is_short: bool) {
            if is_short && bytes.len() > TEXTS_AT {
                for at in 0..TEXTS {
                    bytes[17 + 4 * at..20 + 4 * at].fill(0);
                }
            }
            if let Some((_, fields)) = read(&bytes) {
                prop_assert!(fields.expected() >= fields.clone().collect::<Vec<_>>().len());
            }
        }
    }
}
