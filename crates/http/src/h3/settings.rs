//! `SETTINGS` parameters (RFC 9114 section 7.2.4, RFC 9204 section 5, RFC 9220).

use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FrameType};
use super::varint;

/// The identifier of a parameter. Those that are not known are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingId(pub u64);

impl SettingId {
    /// The largest dynamic table that the sender of the setting decodes with.
    pub const QPACK_MAX_TABLE_CAPACITY: SettingId = SettingId(0x1);
    /// The largest field section that the sender of the setting accepts.
    pub const MAX_FIELD_SECTION_SIZE: SettingId = SettingId(0x6);
    /// How many streams may wait for the dynamic table.
    pub const QPACK_BLOCKED_STREAMS: SettingId = SettingId(0x7);
    /// Whether CONNECT may have a `:protocol`.
    pub const ENABLE_CONNECT_PROTOCOL: SettingId = SettingId(0x8);
    /// Whether QUIC datagrams carry HTTP datagrams (RFC 9297).
    pub const H3_DATAGRAM: SettingId = SettingId(0x33);
}

/// The most parameters in one frame. Each one is compared with those before it, so their number must be
/// limited.
const MOST_SETTINGS: usize = 64;

/// What the peer has chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// `SETTINGS_QPACK_MAX_TABLE_CAPACITY`
    pub table_bytes: u64,
    /// `SETTINGS_MAX_FIELD_SECTION_SIZE`, if it is limited.
    pub field_section_bytes: Option<u64>,
    /// `SETTINGS_QPACK_BLOCKED_STREAMS`
    pub blocked_streams: u64,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`
    pub extended_connect: bool,
    /// `SETTINGS_H3_DATAGRAM`
    pub datagrams: bool,
}

impl PeerSettings {
    /// Reads the payload of a SETTINGS frame.
    pub fn read(payload: &[u8]) -> Result<PeerSettings, ConnectionError> {
        let wrong = |reason| ConnectionError::new(ErrorCode::SETTINGS_ERROR, reason);
        let cut_short =
            ConnectionError::new(ErrorCode::FRAME_ERROR, "a SETTINGS frame that ends within a parameter");
        let mut settings = PeerSettings::default();
        let mut seen: Vec<u64> = Vec::new();
        let mut input = payload;
        while !input.is_empty() {
            let id = varint::take(&mut input).ok_or(cut_short)?;
            let value = varint::take(&mut input).ok_or(cut_short)?;
            if seen.contains(&id) {
                return Err(wrong("a SETTINGS frame with a parameter twice"));
            }
            if seen.len() == MOST_SETTINGS {
                return Err(ConnectionError::new(
                    ErrorCode::EXCESSIVE_LOAD,
                    "a SETTINGS frame with very many parameters",
                ));
            }
            seen.push(id);
            let flag = |value| match value {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(wrong("a SETTINGS parameter that is neither 0 nor 1")),
            };
            match SettingId(id) {
                SettingId::QPACK_MAX_TABLE_CAPACITY => settings.table_bytes = value,
                SettingId::MAX_FIELD_SECTION_SIZE => settings.field_section_bytes = Some(value),
                SettingId::QPACK_BLOCKED_STREAMS => settings.blocked_streams = value,
                SettingId::ENABLE_CONNECT_PROTOCOL => settings.extended_connect = flag(value)?,
                SettingId::H3_DATAGRAM => settings.datagrams = flag(value)?,
                // Section 7.2.4.1: settings of HTTP/2 that have no counterpart.
                SettingId(0x0 | 0x2..=0x5) => return Err(wrong("a SETTINGS parameter of HTTP/2")),
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// Appends a SETTINGS frame.
pub fn append(settings: &[(SettingId, u64)], out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(16);
    for (id, value) in settings {
        varint::append(id.0, &mut payload);
        varint::append(*value, &mut payload);
    }
    frame::append(FrameType::SETTINGS, &payload, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(settings: &[(u64, u64)]) -> Result<PeerSettings, ErrorCode> {
        let mut frame = Vec::new();
        let settings: Vec<(SettingId, u64)> =
            settings.iter().map(|&(id, value)| (SettingId(id), value)).collect();
        append(&settings, &mut frame);
        let mut payload = &frame[..];
        varint::take(&mut payload);
        varint::take(&mut payload);
        PeerSettings::read(payload).map_err(|error| error.code)
    }

    #[test]
    fn what_is_known_is_read_and_the_rest_ignored() {
        let settings = read(&[(0x1, 4096), (0x6, 9999), (0x7, 16), (0x8, 1), (0x33, 0), (0x21, 77)]);
        assert_eq!(
            settings,
            Ok(PeerSettings {
                table_bytes: 4096,
                field_section_bytes: Some(9999),
                blocked_streams: 16,
                extended_connect: true,
                datagrams: false,
            })
        );
        assert_eq!(read(&[]), Ok(PeerSettings::default()));
    }

    #[test]
    fn what_may_not_be_is_refused() {
        for id in [0x0, 0x2, 0x3, 0x4, 0x5] {
            assert_eq!(read(&[(id, 1)]), Err(ErrorCode::SETTINGS_ERROR), "{id}");
        }
        assert_eq!(read(&[(0x21, 1), (0x21, 2)]), Err(ErrorCode::SETTINGS_ERROR));
        assert_eq!(read(&[(0x8, 2)]), Err(ErrorCode::SETTINGS_ERROR));
        assert_eq!(PeerSettings::read(&[0x6]).map_err(|error| error.code), Err(ErrorCode::FRAME_ERROR));
        let many: Vec<(u64, u64)> = (100..165).map(|id| (id, 0)).collect();
        assert_eq!(read(&many), Err(ErrorCode::EXCESSIVE_LOAD));
        assert!(read(&many[..64]).is_ok());
    }

    proptest! {
        #[test]
        fn never_panics(payload in any::<Vec<u8>>()) {
            let _ = PeerSettings::read(&payload);
        }
    }
}
