//! Any bytes as what a disk gives back: no panic, and nothing is believed that was not written. What follows a header that is
//! right, which chance would not find, is tried with the checksums mended.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_accelerator::disk::record;

fuzz_target!(|bytes: &[u8]| {
    let _ = record::read(bytes);
    let _ = record::key_and_fields(bytes);
    let mut mended = bytes.to_vec();
    if mended.len() >= record::HEADER_BYTES {
        let payload = record::checksum([&mended[record::HEADER_BYTES..]]);
        mended[..8].copy_from_slice(b"TSdisk01");
        mended[record::PAYLOAD_SUM_AT..][..8].copy_from_slice(&payload.to_le_bytes());
        let sum = record::checksum([&mended[..record::HEADER_BYTES - 8]]);
        mended[record::HEADER_BYTES - 8..record::HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        if let Ok((object, sequence)) = record::read(&mended) {
            // What is read can be written, and is the same then.
            let head = record::head_of(&object, sequence).expect("it was short enough");
            let again = [&head[..], object.body()].concat();
            let (same, _) = record::read(&again).expect("it was just written");
            assert_eq!((same.key(), same.fields(), same.body()), (object.key(), object.fields(), object.body()));
            assert_eq!(same.terms, object.terms);
        }
        if let Ok(length) = record::head_bytes(&mended) {
            assert!(length >= record::HEADER_BYTES);
        }
    }
});
