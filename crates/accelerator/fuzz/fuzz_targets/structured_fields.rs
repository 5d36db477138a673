//! Fuzzes the values of structured fields (the bytes up to the first byte 0), and queries (the rest): no
//! panic, the limits are kept, and the parts that are removed from a query make no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_accelerator::rules::groups::{MOST_GROUPS, MOST_NAME_BYTES, invalidated_by, of_response};
use touchstone_accelerator::rules::no_vary_search::Variance;
use touchstone_accelerator::rules::structured::{dictionary, list};

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let value = &bytes[..end];
    let query = bytes.get(end + 1..).unwrap_or_default();
    let field = |name: &str| [name.as_bytes(), b": ", value, b"\r\n"].concat();
    let is_valid = list(value).is_some();
    for groups in [of_response(&field("Cache-Groups")), invalidated_by(&field("Cache-Group-Invalidation"))] {
        assert!(groups.len() <= MOST_GROUPS);
        assert!(groups.iter().all(|name| name.len() <= MOST_NAME_BYTES));
        assert!(is_valid || groups.is_empty() || value.contains(&b'\n'));
    }
    let members = dictionary(value).unwrap_or_default();
    for (index, (key, _)) in members.iter().enumerate() {
        assert!(members[..index].iter().all(|(other, _)| other != key), "a key is duplicated");
    }
    if let Some(variance) = Variance::of_response(&field("No-Vary-Search")) {
        let canonical = variance.canonical(query);
        assert_eq!(canonical, variance.canonical(&[b"&&", query, b"&"].concat()));
    }
});
