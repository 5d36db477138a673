//! `md5hash_*` and `random_*`. MD5 (RFC 1321) is here only for plug-ins that use it; it is not secure.

use std::ffi::{c_int, c_uchar, c_void};

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};

/// A hash that is being computed.
#[derive(Clone)]
struct Md5 {
    state: [u32; 4],
    waiting: Vec<u8>,
    length: u64,
}

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

impl Md5 {
    fn new() -> Md5 {
        Md5 { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], waiting: Vec::new(), length: 0 }
    }

    fn update(&mut self, data: &[u8]) {
        self.length = self.length.wrapping_add(data.len() as u64);
        self.waiting.extend_from_slice(data);
        let whole = self.waiting.len() / 64 * 64;
        let blocks: Vec<u8> = self.waiting.drain(..whole).collect();
        blocks.as_chunks::<64>().0.iter().for_each(|block| self.block(block));
    }

    fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8).to_le_bytes();
        let zeros = (119 - self.waiting.len() % 64) % 64;
        self.update(&[&[0x80][..], &vec![0; zeros], &bits].concat());
        let mut digest = [0; 16];
        for (to, word) in digest.chunks_mut(4).zip(self.state) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    fn block(&mut self, block: &[u8; 64]) {
        let words =
            block.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<_>>();
        let [mut a, mut b, mut c, mut d] = self.state;
        for step in 0..64usize {
            let (mixed, index) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            // RFC 1321 section 3.4: the whole part of 2^32 times the sine of the step.
            let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(words[index]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (state, value) in self.state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(value);
        }
    }
}

unsafe fn slice<'a>(data: *const c_uchar, length: c_int) -> &'a [u8] {
    if data.is_null() { &[] } else { std::slice::from_raw_parts(data, length.max(0) as usize) }
}

pub unsafe extern "C" fn md5hash_create() -> *mut c_void {
    Box::into_raw(Box::new(Md5::new())).cast()
}

pub unsafe extern "C" fn md5hash_copy(context: *mut c_void) -> *mut c_void {
    context
        .cast::<Md5>()
        .as_ref()
        .map_or(std::ptr::null_mut(), |md5| Box::into_raw(Box::new(md5.clone())).cast())
}

pub unsafe extern "C" fn md5hash_begin(context: *mut c_void) {
    if let Some(md5) = context.cast::<Md5>().as_mut() {
        *md5 = Md5::new();
    }
}

pub unsafe extern "C" fn md5hash_update(context: *mut c_void, data: *mut c_uchar, length: c_int) {
    if let Some(md5) = context.cast::<Md5>().as_mut() {
        md5.update(slice(data, length));
    }
}

pub unsafe extern "C" fn md5hash_end(context: *mut c_void, to: *mut c_uchar) {
    if let Some(md5) = context.cast::<Md5>().as_mut() {
        let digest = std::mem::replace(md5, Md5::new()).finish();
        std::ptr::copy_nonoverlapping(digest.as_ptr(), to, 16);
    }
}

pub unsafe extern "C" fn md5hash_destroy(context: *mut c_void) {
    if !context.is_null() {
        drop(Box::from_raw(context.cast::<Md5>()));
    }
}

pub unsafe extern "C" fn md5hash_data(to: *mut c_uchar, data: *mut c_uchar, length: c_int) {
    let mut md5 = Md5::new();
    md5.update(slice(data, length));
    std::ptr::copy_nonoverlapping(md5.finish().as_ptr(), to, 16);
}

/// Fills `to` with unpredictable bytes, or with zeros if the system has none.
pub fn fill_random(to: &mut [u8]) {
    if SystemRandom::new().fill(to).is_err() {
        to.fill(0);
    }
}

pub unsafe extern "C" fn random_create() -> *mut c_void {
    // The system's generator needs no state here. For the plug-in, any pointer but null means that it exists.
    std::ptr::without_provenance_mut(1)
}

pub unsafe extern "C" fn random_update(_context: *mut c_void, _data: *mut c_uchar, _length: c_int) {}

pub unsafe extern "C" fn random_generate(_context: *mut c_void, to: *mut c_uchar, length: c_int) {
    if !to.is_null() {
        fill_random(std::slice::from_raw_parts_mut(to, length.max(0) as usize));
    }
}

pub unsafe extern "C" fn random_destroy(_context: *mut c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test suite of RFC 1321, appendix A.5.
    #[test]
    fn digests_are_those_of_the_rfc() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            let mut md5 = Md5::new();
            text.bytes().for_each(|byte| md5.update(&[byte]));
            let digest = touchstone_http::hexadecimal::encode(&md5.finish());
            assert_eq!(digest, expected, "{text}");
        }
    }
}
