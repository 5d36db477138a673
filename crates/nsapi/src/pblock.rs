//! Parameter blocks: hash tables of names with values, as C sees them.
//!
//! Plug-ins walk through the tables themselves, remove entries and free them, so these are only the C
//! structures, with memory from [`memory`](crate::memory). Only this file chooses the chain of a name. A name
//! that is inserted twice has two entries, and the last one is found first.

use std::ffi::{c_char, c_int};
use std::io::Write as _;
use std::ptr;

use smallvec::SmallVec;

use crate::abi::{PbEntry, PbParam, Pblock};
use crate::conf::parameters::parse_parameters;
use crate::memory::{self, Pool, allocate, bytes, free};

/// The number of chains of the blocks that the server makes for a request.
pub const REQUEST_CHAINS: usize = 16;

#[inline]
fn chain(name: &[u8], chains: c_int) -> usize {
    let mut hash = name.len();
    for byte in name {
        hash = hash.wrapping_mul(31).wrapping_add(*byte as usize);
    }
    hash % (chains.max(1) as usize)
}

/// A new block from `pool`; null if there is no memory.
pub fn create_in(pool: &mut Pool, chains: usize) -> *mut Pblock {
    let block = pool.allocate(size_of::<Pblock>()).cast::<Pblock>();
    let table = pool.allocate_zeroed(chains * size_of::<*mut PbEntry>()).cast::<*mut PbEntry>();
    if block.is_null() || table.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the piece has room for the structure.
    unsafe { block.write(Pblock { hsize: chains as c_int, ht: table }) };
    block
}

/// Inserts a name, written in lower case, with its value, from `pool`.
///
/// # Safety
/// `block` is a block.
pub unsafe fn insert_in(pool: &mut Pool, block: *mut Pblock, name: &[u8], value: &[u8]) -> *mut PbParam {
    let value_text = pool.text(value);
    insert_text_in(pool, block, name, value_text)
}

/// The same with a value that is already a text of the pool.
///
/// # Safety
/// `block` is a block, and `value_text` is null or a text of `pool`.
pub unsafe fn insert_text_in(
    pool: &mut Pool,
    block: *mut Pblock,
    name: &[u8],
    value_text: *mut c_char,
) -> *mut PbParam {
    let name_text = pool.text(name);
    let param = pool.allocate(size_of::<PbParam>()).cast::<PbParam>();
    let entry = pool.allocate(size_of::<PbEntry>()).cast::<PbEntry>();
    if name_text.is_null() || value_text.is_null() || param.is_null() || entry.is_null() {
        return ptr::null_mut();
    }
    std::slice::from_raw_parts_mut(name_text.cast::<u8>(), name.len()).make_ascii_lowercase();
    param.write(PbParam { name: name_text, value: value_text });
    let lowered = std::slice::from_raw_parts(name_text.cast::<u8>(), name.len());
    link(entry, param, block, lowered);
    param
}

/// Inserts a field of a request. Fields of one name become one entry, whose values are joined in the order of
/// arrival, as in the original servers.
///
/// # Safety
/// `block` is a block whose names and values are texts of `pool`.
pub unsafe fn insert_field_in(pool: &mut Pool, block: *mut Pblock, name: &[u8], value: &[u8]) {
    let param = insert_in(pool, block, name, value);
    if param.is_null() {
        return;
    }
    let name = bytes((*param).name);
    let place = (*block).ht.add(chain(name, (*block).hsize));
    // The new entry is the first of its chain, and usually the only one.
    let newest = *place;
    let mut entry = (*newest).next;
    while !entry.is_null() {
        if is_text((*(*entry).param).name, name) {
            // The parts of a cookie are joined as in RFC 9113 section 8.2.3, other fields as in RFC 9110
            // section 5.3.
            let between: &[u8] = if name == b"cookie" { b"; " } else { b", " };
            let joined = pool.joined(&[bytes((*(*entry).param).value), between, value]);
            if !joined.is_null() {
                (*(*entry).param).value = joined;
            }
            *place = (*newest).next;
            return;
        }
        entry = (*entry).next;
    }
}

unsafe fn link(entry: *mut PbEntry, param: *mut PbParam, block: *mut Pblock, name: &[u8]) {
    let head = (*block).ht.add(chain(name, (*block).hsize));
    entry.write(PbEntry { param, next: *head });
    *head = entry;
}

/// The value of a name; `None` if the block does not hold it.
///
/// # Safety
/// `block` is null or a block. The value lives until it is changed in the block.
pub unsafe fn find<'a>(block: *const Pblock, name: &[u8]) -> Option<&'a [u8]> {
    let param = find_param(block, name);
    if param.is_null() { None } else { Some(bytes((*param).value)) }
}

/// The entry of a name, or null.
///
/// # Safety
/// `block` is null or a block.
pub unsafe fn find_param(block: *const Pblock, name: &[u8]) -> *mut PbParam {
    if block.is_null() || (*block).ht.is_null() {
        return ptr::null_mut();
    }
    let mut entry = *(*block).ht.add(chain(name, (*block).hsize));
    while !entry.is_null() {
        let param = (*entry).param;
        if !param.is_null() && is_text((*param).name, name) {
            return param;
        }
        entry = (*entry).next;
    }
    ptr::null_mut()
}

/// Sets a name to a value, and removes its earlier entries.
///
/// # Safety
/// `block` is a block.
pub unsafe fn set(block: *mut Pblock, name: &[u8], value: &[u8]) -> *mut PbParam {
    // The new entry is made before the old one is freed, because `value` may be the value of the old one.
    let param = create_param(name, value);
    remove_all(block, name);
    insert_param(block, name, param);
    param
}

/// Removes every entry of a name.
///
/// # Safety
/// `block` is a block.
pub unsafe fn remove_all(block: *mut Pblock, name: &[u8]) {
    loop {
        let param = take(block, name);
        if param.is_null() {
            return;
        }
        param_free(param);
    }
}

/// Inserts a name with its value.
///
/// # Safety
/// `block` is a block.
pub unsafe fn insert(block: *mut Pblock, name: &[u8], value: &[u8]) -> *mut PbParam {
    let param = create_param(name, value);
    insert_param(block, name, param);
    param
}

/// Inserts an entry that was already made.
unsafe fn insert_param(block: *mut Pblock, name: &[u8], param: *mut PbParam) {
    if param.is_null() || block.is_null() || (*block).ht.is_null() {
        return;
    }
    let entry = allocate(size_of::<PbEntry>()).cast::<PbEntry>();
    if !entry.is_null() {
        link(entry, param, block, name);
    }
}

/// Whether a C text is this name. Does not search for the end of the text first.
unsafe fn is_text(text: *const c_char, name: &[u8]) -> bool {
    if text.is_null() {
        return name.is_empty();
    }
    let text = text.cast::<u8>();
    // A shorter text differs at its NUL at the latest, so no byte after it is read.
    let is_same = |(index, byte): (usize, &u8)| *byte != 0 && *text.add(index) == *byte;
    name.iter().enumerate().all(is_same) && *text.add(name.len()) == 0
}

/// Calls `each` with every name and value. The values of one name are passed in the order of insertion.
///
/// # Safety
/// `block` is null or a block, which `each` does not change.
pub unsafe fn for_each<'a>(block: *const Pblock, mut each: impl FnMut(&'a [u8], &'a [u8])) {
    if block.is_null() || (*block).ht.is_null() {
        return;
    }
    for index in 0..(*block).hsize.max(0) as usize {
        // A chain begins with the entry that was inserted last.
        let mut chain = SmallVec::<[*mut PbParam; 8]>::new();
        let mut entry = *(*block).ht.add(index);
        while !entry.is_null() {
            chain.push((*entry).param);
            entry = (*entry).next;
        }
        for param in chain.into_iter().rev() {
            if !param.is_null() && !(*param).name.is_null() {
                each(bytes((*param).name), bytes((*param).value));
            }
        }
    }
}

unsafe fn create_param(name: &[u8], value: &[u8]) -> *mut PbParam {
    let param = allocate(size_of::<PbParam>()).cast::<PbParam>();
    if !param.is_null() {
        param.write(PbParam { name: memory::text(name), value: memory::text(value) });
    }
    param
}

unsafe fn take(block: *mut Pblock, name: &[u8]) -> *mut PbParam {
    if block.is_null() || (*block).ht.is_null() {
        return ptr::null_mut();
    }
    let mut place = (*block).ht.add(chain(name, (*block).hsize));
    while !(*place).is_null() {
        let entry = *place;
        let param = (*entry).param;
        if !param.is_null() && is_text((*param).name, name) {
            *place = (*entry).next;
            free(entry.cast());
            return param;
        }
        place = &raw mut (*entry).next;
    }
    ptr::null_mut()
}

// ---- Functions that plug-ins call
// --------------------------------------------------------------------------------------------

pub unsafe extern "C" fn param_create(name: *const c_char, value: *const c_char) -> *mut PbParam {
    create_param(bytes(name), bytes(value))
}

pub unsafe extern "C" fn param_free(param: *mut PbParam) -> c_int {
    if param.is_null() {
        return 0;
    }
    free((*param).name.cast());
    free((*param).value.cast());
    free(param.cast());
    1
}

pub unsafe extern "C" fn pblock_create(chains: c_int) -> *mut Pblock {
    let chains = chains.clamp(1, 1 << 16) as usize;
    let block = allocate(size_of::<Pblock>()).cast::<Pblock>();
    let table_bytes = chains * size_of::<*mut PbEntry>();
    let table = allocate(table_bytes);
    if block.is_null() || table.is_null() {
        return ptr::null_mut();
    }
    ptr::write_bytes(table, 0, table_bytes);
    block.write(Pblock { hsize: chains as c_int, ht: table.cast() });
    block
}

pub unsafe extern "C" fn pblock_free(block: *mut Pblock) {
    if block.is_null() {
        return;
    }
    if !(*block).ht.is_null() {
        for index in 0..(*block).hsize.max(0) as usize {
            let mut entry = *(*block).ht.add(index);
            while !entry.is_null() {
                let next = (*entry).next;
                param_free((*entry).param);
                free(entry.cast());
                entry = next;
            }
        }
        free((*block).ht.cast());
    }
    free(block.cast());
}

pub unsafe extern "C" fn pblock_findval(name: *const c_char, block: *const Pblock) -> *mut c_char {
    let param = find_param(block, bytes(name));
    if param.is_null() { ptr::null_mut() } else { (*param).value }
}

pub unsafe extern "C" fn pblock_nvinsert(
    name: *const c_char,
    value: *const c_char,
    block: *mut Pblock,
) -> *mut PbParam {
    if block.is_null() || name.is_null() {
        return ptr::null_mut();
    }
    insert(block, bytes(name), bytes(value))
}

pub unsafe extern "C" fn pblock_nninsert(
    name: *const c_char,
    value: c_int,
    block: *mut Pblock,
) -> *mut PbParam {
    if block.is_null() || name.is_null() {
        return ptr::null_mut();
    }
    let mut digits = [0u8; 12];
    let mut rest = &mut digits[..];
    // Twelve bytes can hold every number of 32 bits.
    let _ = write!(rest, "{value}");
    let left = rest.len();
    insert(block, bytes(name), &digits[..12 - left])
}

pub unsafe extern "C" fn pblock_pinsert(param: *mut PbParam, block: *mut Pblock) {
    if !param.is_null() {
        insert_param(block, bytes((*param).name), param);
    }
}

pub unsafe extern "C" fn pblock_str2pblock(str: *const c_char, block: *mut Pblock) -> c_int {
    match parse_parameters(bytes(str)) {
        Ok(pairs) if !block.is_null() => {
            for (name, value) in &pairs {
                insert(block, name, value);
            }
            pairs.len() as c_int
        }
        _ => -1,
    }
}

pub unsafe extern "C" fn pblock_pblock2str(block: *const Pblock, str: *mut c_char) -> *mut c_char {
    let mut out = bytes(str).to_vec();
    for_each(block, |name, value| {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b"=\"");
        for byte in value {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    });
    free(str.cast());
    memory::text(&out)
}

pub unsafe extern "C" fn pblock_copy(from: *const Pblock, to: *mut Pblock) -> c_int {
    if to.is_null() {
        return -1;
    }
    for_each(from, |name, value| {
        insert(to, name, value);
    });
    0
}

pub unsafe extern "C" fn pblock_dup(block: *const Pblock) -> *mut Pblock {
    if block.is_null() {
        return ptr::null_mut();
    }
    let copy = pblock_create((*block).hsize);
    if !copy.is_null() {
        pblock_copy(block, copy);
    }
    copy
}

pub unsafe extern "C" fn pblock_fr(name: *const c_char, block: *mut Pblock, remove: c_int) -> *mut PbParam {
    if remove == 0 { find_param(block, bytes(name)) } else { take(block, bytes(name)) }
}

pub unsafe extern "C" fn pblock_replace(
    name: *const c_char,
    value: *mut c_char,
    block: *mut Pblock,
) -> *mut c_char {
    let param = find_param(block, bytes(name));
    if param.is_null() {
        return ptr::null_mut();
    }
    free((*param).value.cast());
    (*param).value = value;
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_of_a_name_is_found_and_the_one_before_it_afterwards() {
        // SAFETY: the block is valid and freed once.
        unsafe {
            let block = pblock_create(3);
            for value in [c"one", c"two"] {
                pblock_nvinsert(c"name".as_ptr(), value.as_ptr(), block);
            }
            pblock_nninsert(c"number".as_ptr(), i32::MIN, block);
            assert_eq!(find(block, b"name"), Some(&b"two"[..]));
            assert_eq!(find(block, b"Name"), None);
            assert_eq!(find(block, b"number"), Some(&b"-2147483648"[..]));
            assert_eq!(param_free(pblock_fr(c"name".as_ptr(), block, 1)), 1);
            assert_eq!(find(block, b"name"), Some(&b"one"[..]));
            remove_all(block, b"name");
            assert_eq!(param_free(pblock_fr(c"name".as_ptr(), block, 1)), 0);
            assert_eq!(param_free(ptr::null_mut()), 0);
            pblock_free(block);
        }
    }

    /// The values of a name, in the order of `for_each`.
    unsafe fn values(block: *const Pblock, name: &[u8]) -> Vec<String> {
        let mut values = Vec::new();
        for_each(block, |found, value| {
            if found == name {
                values.push(String::from_utf8_lossy(value).into_owned());
            }
        });
        values
    }

    #[test]
    fn values_of_one_name_are_in_the_order_of_their_insertion() {
        // SAFETY: the blocks are valid and freed once.
        unsafe {
            let block = pblock_create(1);
            for (name, value) in [(&b"a"[..], &b"1"[..]), (b"b", b"x"), (b"a", b"2"), (b"a", b"3")] {
                insert(block, name, value);
            }
            let copy = pblock_dup(block);
            for block in [block, copy] {
                assert_eq!(values(block, b"a"), ["1", "2", "3"]);
                assert_eq!(find(block, b"a"), Some(&b"3"[..]));
                pblock_free(block);
            }
        }
    }

    #[test]
    fn fields_of_one_name_are_joined_in_their_order() {
        let mut pool = Pool::new();
        for chains in [1, 16] {
            let block = create_in(&mut pool, chains);
            // SAFETY: the block is valid and lives as long as the pool.
            unsafe {
                for (name, value) in [
                    (&b"X-Forwarded-For"[..], &b"1.1.1.1"[..]),
                    (b"Cookie", b"a=1"),
                    (b"x-forwarded-for", b"2.2.2.2"),
                    (b"Host", b"h"),
                    (b"Cookie", b"b=2"),
                    (b"X-FORWARDED-FOR", b"3.3.3.3"),
                ] {
                    insert_field_in(&mut pool, block, name, value);
                }
                assert_eq!(values(block, b"x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 3.3.3.3"]);
                assert_eq!(values(block, b"cookie"), ["a=1; b=2"]);
                assert_eq!(values(block, b"host"), ["h"]);
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_written_and_read_is_the_same(
            pairs in proptest::collection::vec(("[a-z]{1,8}", "[ -~]{0,12}"), 0..8),
        ) {
            // SAFETY: the blocks are valid and freed once.
            unsafe {
                let block = pblock_create(4);
                for (name, value) in &pairs {
                    insert(block, name.as_bytes(), value.as_bytes());
                }
                let text = pblock_pblock2str(block, ptr::null_mut());
                let copy = pblock_create(5);
                prop_assert_eq!(pblock_str2pblock(text, copy), pairs.len() as c_int);
                for (name, _) in &pairs {
                    let mut values = [Vec::new(), Vec::new()];
                    for (block, values) in [block, copy].into_iter().zip(&mut values) {
                        for_each(block, |n, value| if n == name.as_bytes() { values.push(value.to_vec()) });
                        values.sort();
                    }
                    prop_assert_eq!(&values[0], &values[1]);
                }
                memory::free(text.cast());
                pblock_free(block);
                pblock_free(copy);
            }
        }
    }
}
