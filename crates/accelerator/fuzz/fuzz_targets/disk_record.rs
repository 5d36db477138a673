//! Fuzzes records from a disk, both unchanged and with valid checksums: no panic, and a valid record can be
//! written again and is then equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use touchstone_accelerator::disk::{Record, decode, encode_object, encode_purge};
use touchstone_accelerator::store::PurgeScope;

/// Adds the mark of the format, the length, and the checksums of the head and the whole record (see
/// `disk/record.rs`): a fuzzer cannot guess these.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut record = bytes.to_vec();
    let any = encode_purge(&PurgeScope::All, 1).expect("it is short");
    if record.len() >= any.len() {
        record[16..20].copy_from_slice(&any[16..20]);
        let length = u32::try_from(record.len()).expect("it is short");
        record[24..28].copy_from_slice(&length.to_le_bytes());
        let head = Sha256::digest(&record[16..120]);
        record[120..128].copy_from_slice(&head[..8]);
        let whole = Sha256::digest(&record[16..]);
        record[..16].copy_from_slice(&whole[..16]);
    }
    record
}

fn read(bytes: &[u8]) {
    match decode(bytes) {
        Ok(Record::Object { object, .. }) => {
            let again = encode_object(&object, 1).expect("it was short enough");
            let Ok(Record::Object { object: same, .. }) = decode(&again) else {
                panic!("it was just written")
            };
            assert_eq!((same.key(), same.selector()), (object.key(), object.selector()));
            assert_eq!((same.fields(), same.trailers()), (object.fields(), object.trailers()));
            assert_eq!((same.status(), same.body()), (object.status(), object.body()));
            assert_eq!((same.terms, same.part()), (object.terms, object.part()));
        }
        Ok(Record::Purge { purge, sequence }) => {
            let again = encode_purge(&purge, sequence).expect("it was short enough");
            assert!(matches!(decode(&again), Ok(Record::Purge { purge: same, .. }) if same == purge));
        }
        Err(_) => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&with_sums(bytes));
});
