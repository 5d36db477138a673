//! Any bytes from a servlet container: no panic, no more bytes returned than received, only valid field
//! lines, and the same packets however the bytes are split.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use touchstone_interfaces::ajp::packet::{Packet, PacketLimits, WrongPacket, next_packet};

const LIMITS: PacketLimits = PacketLimits { bytes: 8192, fields: 16 };

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, bytes.len().max(1));
    for piece_bytes in [1, 7, 64] {
        assert_eq!(read(bytes, piece_bytes), whole);
    }
});

fn read(bytes: &[u8], piece_bytes: usize) -> (Vec<Packet>, Option<WrongPacket>) {
    let (mut received, mut packets) = (BytesMut::new(), Vec::new());
    let mut given = 0;
    for piece in bytes.chunks(piece_bytes) {
        received.extend_from_slice(piece);
        loop {
            match next_packet(&mut received, LIMITS) {
                Ok(None) => break,
                Ok(Some(packet)) => {
                    match &packet {
                        Packet::Body(bytes) => given += bytes.len(),
                        Packet::Head(head) => {
                            let ends = head.fields.iter().filter(|&&byte| byte == b'\n').count();
                            assert_eq!(head.iter().count(), ends);
                            assert!((200..600).contains(&head.status));
                        }
                        _ => {}
                    }
                    packets.push(packet);
                }
                Err(wrong) => return (packets, Some(wrong)),
            }
        }
    }
    assert!(given <= bytes.len());
    (packets, None)
}
