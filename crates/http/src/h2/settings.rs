//! `SETTINGS` parameters: their identifiers, their limits, and what the peer has chosen (RFC 9113 section
//! 6.5.2, RFC 8441 section 3, RFC 9218 section 2.1).

use super::error::ConnectionError;
use super::hpack::DEFAULT_TABLE_BYTES;

/// The identifier of a parameter. Those that are not known are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingId(pub u16);

impl SettingId {
    /// The largest dynamic table that the sender of the setting decodes with.
    pub const HEADER_TABLE_SIZE: SettingId = SettingId(0x1);
    /// Whether a server may push.
    pub const ENABLE_PUSH: SettingId = SettingId(0x2);
    /// How many streams the peer may have open at once.
    pub const MAX_CONCURRENT_STREAMS: SettingId = SettingId(0x3);
    /// The window that each new stream begins with.
    pub const INITIAL_WINDOW_SIZE: SettingId = SettingId(0x4);
    /// The largest frame that the sender of the setting accepts.
    pub const MAX_FRAME_SIZE: SettingId = SettingId(0x5);
    /// The largest field section that the sender of the setting accepts.
    pub const MAX_HEADER_LIST_SIZE: SettingId = SettingId(0x6);
    /// Whether CONNECT may have a `:protocol` (RFC 8441).
    pub const ENABLE_CONNECT_PROTOCOL: SettingId = SettingId(0x8);
    /// The sender of the setting does not use the priorities of RFC 7540 (RFC 9218).
    pub const NO_RFC7540_PRIORITIES: SettingId = SettingId(0x9);
}

/// The window of a connection, and that of a stream if nothing else was negotiated (RFC 9113 section 6.9.2).
pub const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// The largest window (RFC 9113 section 6.9.1).
pub const MAX_WINDOW_BYTES: u32 = 0x7fff_ffff;

/// The largest frame if nothing else was negotiated, which is also the least value that can be negotiated
/// (RFC 9113 section 4.2).
pub const DEFAULT_FRAME_BYTES: u32 = 16_384;

/// The largest frame that can be agreed on.
pub const MAX_FRAME_BYTES: u32 = 0xff_ffff;

/// What the peer has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// `SETTINGS_HEADER_TABLE_SIZE`
    pub header_table_bytes: u32,
    /// `SETTINGS_ENABLE_PUSH`
    pub enable_push: bool,
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`, if it is limited.
    pub concurrent_streams: Option<u32>,
    /// `SETTINGS_INITIAL_WINDOW_SIZE`
    pub initial_window_bytes: u32,
    /// `SETTINGS_MAX_FRAME_SIZE`
    pub frame_bytes: u32,
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`, if it is limited.
    pub header_list_bytes: Option<u32>,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`
    pub extended_connect: bool,
    /// `SETTINGS_NO_RFC7540_PRIORITIES`, once it was sent.
    pub no_rfc7540_priorities: Option<bool>,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            header_table_bytes: DEFAULT_TABLE_BYTES,
            enable_push: true,
            concurrent_streams: None,
            initial_window_bytes: DEFAULT_WINDOW_BYTES,
            frame_bytes: DEFAULT_FRAME_BYTES,
            header_list_bytes: None,
            extended_connect: false,
            no_rfc7540_priorities: None,
        }
    }
}

impl PeerSettings {
    /// Applies one parameter; `is_first`: it is in the peer's first `SETTINGS`.
    pub(crate) fn apply(&mut self, id: SettingId, value: u32, is_first: bool) -> Result<(), ConnectionError> {
        match id {
            SettingId::HEADER_TABLE_SIZE => self.header_table_bytes = value,
            SettingId::ENABLE_PUSH => {
                self.enable_push = flag(value, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")?;
            }
            SettingId::MAX_CONCURRENT_STREAMS => self.concurrent_streams = Some(value),
            SettingId::INITIAL_WINDOW_SIZE if value > MAX_WINDOW_BYTES => {
                return Err(ConnectionError::flow_control(
                    "SETTINGS_INITIAL_WINDOW_SIZE is larger than 2^31-1",
                ));
            }
            SettingId::INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            SettingId::MAX_FRAME_SIZE if !(DEFAULT_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&value) => {
                return Err(ConnectionError::protocol(
                    "SETTINGS_MAX_FRAME_SIZE is not from 16,384 to 2^24-1",
                ));
            }
            SettingId::MAX_FRAME_SIZE => self.frame_bytes = value,
            SettingId::MAX_HEADER_LIST_SIZE => self.header_list_bytes = Some(value),
            SettingId::ENABLE_CONNECT_PROTOCOL => {
                let enabled = flag(value, "SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1")?;
                if self.extended_connect && !enabled {
                    return Err(ConnectionError::protocol("SETTINGS_ENABLE_CONNECT_PROTOCOL was taken back"));
                }
                self.extended_connect = enabled;
            }
            SettingId::NO_RFC7540_PRIORITIES => {
                let value = flag(value, "SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1")?;
                // RFC 9218 section 2.1: it may not change after the first SETTINGS; absent means 0.
                if !is_first && self.no_rfc7540_priorities.unwrap_or(false) != value {
                    return Err(ConnectionError::protocol("SETTINGS_NO_RFC7540_PRIORITIES was changed"));
                }
                self.no_rfc7540_priorities = Some(value);
            }
            _ => {}
        }
        Ok(())
    }
}

fn flag(value: u32, wrong: &'static str) -> Result<bool, ConnectionError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ConnectionError::protocol(wrong)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::ErrorCode;
    use super::*;

    #[test]
    fn values_are_checked() {
        let error = |id: SettingId, value: u32| {
            PeerSettings::default().apply(id, value, true).err().map(|error| error.code)
        };
        for (id, good, bad, code) in [
            (SettingId::ENABLE_PUSH, &[0, 1][..], &[2, u32::MAX][..], ErrorCode::PROTOCOL_ERROR),
            (
                SettingId::INITIAL_WINDOW_SIZE,
                &[0, MAX_WINDOW_BYTES],
                &[MAX_WINDOW_BYTES + 1],
                ErrorCode::FLOW_CONTROL_ERROR,
            ),
            (
                SettingId::MAX_FRAME_SIZE,
                &[16_384, 16_777_215],
                &[0, 16_383, 16_777_216],
                ErrorCode::PROTOCOL_ERROR,
            ),
            (SettingId::ENABLE_CONNECT_PROTOCOL, &[0, 1], &[2], ErrorCode::PROTOCOL_ERROR),
            (SettingId::NO_RFC7540_PRIORITIES, &[0, 1], &[2], ErrorCode::PROTOCOL_ERROR),
            (SettingId::HEADER_TABLE_SIZE, &[0, u32::MAX], &[], ErrorCode::NO_ERROR),
            (SettingId::MAX_CONCURRENT_STREAMS, &[0, u32::MAX], &[], ErrorCode::NO_ERROR),
            (SettingId::MAX_HEADER_LIST_SIZE, &[0, u32::MAX], &[], ErrorCode::NO_ERROR),
            (SettingId(0x7), &[0, u32::MAX], &[], ErrorCode::NO_ERROR),
            (SettingId(0xffff), &[0, u32::MAX], &[], ErrorCode::NO_ERROR),
        ] {
            for value in good {
                assert_eq!(error(id, *value), None, "{id:?} {value}");
            }
            for value in bad {
                assert_eq!(error(id, *value), Some(code), "{id:?} {value}");
            }
        }
    }

    #[test]
    fn what_may_not_change_does_not() {
        let mut settings = PeerSettings::default();
        settings.apply(SettingId::NO_RFC7540_PRIORITIES, 1, true).unwrap();
        assert!(settings.apply(SettingId::NO_RFC7540_PRIORITIES, 1, false).is_ok());
        assert!(settings.apply(SettingId::NO_RFC7540_PRIORITIES, 0, false).is_err());
        let mut settings = PeerSettings::default();
        assert!(settings.apply(SettingId::NO_RFC7540_PRIORITIES, 0, false).is_ok());
        assert!(settings.apply(SettingId::NO_RFC7540_PRIORITIES, 1, false).is_err());
        settings.apply(SettingId::ENABLE_CONNECT_PROTOCOL, 1, true).unwrap();
        assert!(settings.apply(SettingId::ENABLE_CONNECT_PROTOCOL, 0, false).is_err());
    }
}
