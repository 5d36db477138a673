//! Fuzzes pages with parts: no panic, no more includes than allowed, and no text that the page does not
//! contain.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use touchstone_accelerator::rules::esi::{Node, parse};

/// The includes of a page, and the bytes of its text.
fn count(nodes: &[Node]) -> (usize, usize) {
    let of_node = |node: &Node| match node {
        Node::Text(text) => (0, text.len()),
        Node::Include(_) => (1, 0),
        Node::Try { attempt, except } => {
            let (one, other) = (count(attempt), count(except));
            (one.0 + other.0, one.1 + other.1)
        }
    };
    nodes.iter().map(of_node).fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

fuzz_target!(|bytes: &[u8]| {
    for most_includes in [0, 4] {
        match parse(&Bytes::copy_from_slice(bytes), most_includes) {
            Ok(nodes) => {
                let (includes, text) = count(&nodes);
                assert!(includes <= most_includes && text <= bytes.len());
            }
            Err(fault) => assert!(fault.position <= bytes.len() && !fault.message.is_empty()),
        }
    }
});
