//! Objects that requests share, by the bytes that they are made of: a table with one place for each hash, so
//! that it never grows, and other bytes of the same place replace what is there.

use std::hash::Hasher as _;

use rustc_hash::FxHasher;

use crate::api::PythonException;

/// The longest bytes that are kept.
const LONGEST_BYTES: usize = 192;

/// The table.
pub struct ObjectCache<T> {
    places: Vec<Option<Place<T>>>,
}

struct Place<T> {
    bytes: Box<[u8]>,
    object: T,
}

impl<T: Clone> ObjectCache<T> {
    /// An empty table with two to the power of this many places.
    pub fn new(bits: u32) -> ObjectCache<T> {
        ObjectCache { places: (0..1usize << bits).map(|_| None).collect() }
    }

    /// What is kept for these bytes, which are otherwise made, and kept unless they are long.
    pub fn get(
        &mut self,
        bytes: &[u8],
        make: impl FnOnce() -> Result<T, PythonException>,
    ) -> Result<T, PythonException> {
        if bytes.len() > LONGEST_BYTES {
            return make();
        }
        let mut hasher = FxHasher::default();
        hasher.write(bytes);
        let index = hasher.finish() as usize & (self.places.len() - 1);
        let place = &mut self.places[index];
        match place {
            Some(known) if *known.bytes == *bytes => Ok(known.object.clone()),
            _ => {
                let object = make()?;
                *place = Some(Place { bytes: bytes.into(), object: object.clone() });
                Ok(object)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_it_has_and_never_grows() {
        let mut kept = ObjectCache::new(3);
        let mut made_count = 0;
        let mut get = |kept: &mut ObjectCache<usize>, bytes: &[u8]| {
            let got = kept.get(bytes, || {
                made_count += 1;
                Ok(bytes.len())
            });
            assert_eq!(got, Ok(bytes.len()));
            made_count
        };
        assert_eq!(get(&mut kept, b"abc"), 1);
        assert_eq!(get(&mut kept, b"abc"), 1);
        assert_eq!(get(&mut kept, &[b'x'; LONGEST_BYTES + 1]), 2);
        assert_eq!(get(&mut kept, &[b'x'; LONGEST_BYTES + 1]), 3, "it is too long to be kept");
        for length in 0..100 {
            get(&mut kept, &vec![b'y'; length]);
        }
        assert_eq!(kept.places.len(), 8);
        assert_eq!(kept.get(b"fails", || Err(PythonException)), Err(PythonException));
        assert_eq!(kept.get(b"fails", || Ok(5)), Ok(5), "a failure is not kept");
    }
}
