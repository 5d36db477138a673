//! Any bytes as what a disk gives back: no panic, and what is believed can be written, and is the same then.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_accelerator::disk::{Record, decode, encode_object, encode_purge};

fuzz_target!(|bytes: &[u8]| match decode(bytes) {
    Ok(Record::Object { object, .. }) => {
        let again = encode_object(&object, 1).expect("it was short enough");
        let Ok(Record::Object { object: same, .. }) = decode(&again) else { panic!("it was just written") };
        assert_eq!((same.key(), same.fields(), same.body()), (object.key(), object.fields(), object.body()));
        assert_eq!((same.status(), same.terms, same.part()), (object.status(), object.terms, object.part()));
    }
    Ok(Record::Purge { purge, ticket }) => {
        let again = encode_purge(&purge, ticket).expect("it was short enough");
        assert!(matches!(decode(&again), Ok(Record::Purge { purge: same, .. }) if same == purge));
    }
    Err(_) => {}
});
