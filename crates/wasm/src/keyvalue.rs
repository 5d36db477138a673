//! `wasi:keyvalue`: the operations of an instance on the buckets that its route names.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable, ResourceTableError};

use self::generated::wasi::keyvalue;
use crate::bucket::{Bucket, Buckets};
use crate::state::State;

mod generated {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "imports",
        imports: { default: trappable },
        with: { "wasi:keyvalue/store.bucket": crate::keyvalue::OpenBucket },
        trappable_error_type: { "wasi:keyvalue/store.error" => crate::keyvalue::CallError },
    });
}

/// The most bytes that one call returns to an instance.
const MOST_ANSWER_BYTES: usize = 8 << 20;

/// The handle that `open` returns.
pub struct OpenBucket {
    bucket: Arc<Bucket>,
    most_bytes: usize,
}

/// The error of a call.
pub enum CallError {
    /// The route does not name the bucket.
    NoSuchStore,
    /// Another reason.
    Other(String),
}

impl From<String> for CallError {
    fn from(reason: String) -> Self {
        CallError::Other(reason)
    }
}

impl From<ResourceTableError> for CallError {
    fn from(error: ResourceTableError) -> Self {
        CallError::Other(error.to_string())
    }
}

/// The buckets, and the handles of an instance.
pub struct KeyValueView<'a> {
    buckets: &'a Buckets,
    table: &'a mut ResourceTable,
}

struct HasBuckets;

impl HasData for HasBuckets {
    type Data<'a> = KeyValueView<'a>;
}

/// Adds `wasi:keyvalue` to the linker.
pub fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    keyvalue::store::add_to_linker::<_, HasBuckets>(linker, view)?;
    keyvalue::atomics::add_to_linker::<_, HasBuckets>(linker, view)?;
    keyvalue::batch::add_to_linker::<_, HasBuckets>(linker, view)
}

fn view(state: &mut State) -> KeyValueView<'_> {
    let (buckets, table) = state.buckets();
    KeyValueView { buckets, table }
}

impl keyvalue::store::Host for KeyValueView<'_> {
    fn open(&mut self, name: String) -> Result<Resource<OpenBucket>, CallError> {
        let bucket = self.buckets.by_name.get(&name).ok_or(CallError::NoSuchStore)?.clone();
        Ok(self.table.push(OpenBucket { bucket, most_bytes: self.buckets.most_bytes })?)
    }

    fn convert_error(&mut self, error: CallError) -> Result<keyvalue::store::Error> {
        Ok(match error {
            CallError::NoSuchStore => keyvalue::store::Error::NoSuchStore,
            CallError::Other(reason) => keyvalue::store::Error::Other(reason),
        })
    }
}

impl keyvalue::store::HostBucket for KeyValueView<'_> {
    fn get(&mut self, bucket: Resource<OpenBucket>, key: String) -> Result<Option<Vec<u8>>, CallError> {
        Ok(self.table.get(&bucket)?.bucket.get(&key).map(Vec::from))
    }

    fn set(&mut self, bucket: Resource<OpenBucket>, key: String, value: Vec<u8>) -> Result<(), CallError> {
        let open = self.table.get(&bucket)?;
        Ok(open.bucket.set(vec![(key, exact(value))], open.most_bytes)?)
    }

    fn delete(&mut self, bucket: Resource<OpenBucket>, key: String) -> Result<(), CallError> {
        self.table.get(&bucket)?.bucket.delete(&[key]);
        Ok(())
    }

    fn exists(&mut self, bucket: Resource<OpenBucket>, key: String) -> Result<bool, CallError> {
        Ok(self.table.get(&bucket)?.bucket.has(&key))
    }

    fn list_keys(
        &mut self,
        bucket: Resource<OpenBucket>,
        cursor: Option<u64>,
    ) -> Result<keyvalue::store::KeyResponse, CallError> {
        let (keys, cursor) = self.table.get(&bucket)?.bucket.keys(cursor.unwrap_or(0));
        Ok(keyvalue::store::KeyResponse { keys, cursor })
    }

    fn drop(&mut self, bucket: Resource<OpenBucket>) -> Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl keyvalue::atomics::Host for KeyValueView<'_> {
    fn increment(&mut self, bucket: Resource<OpenBucket>, key: String, delta: u64) -> Result<u64, CallError> {
        let open = self.table.get(&bucket)?;
        Ok(open.bucket.increment(&key, delta, open.most_bytes)?)
    }
}

impl keyvalue::batch::Host for KeyValueView<'_> {
    fn get_many(
        &mut self,
        bucket: Resource<OpenBucket>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<(String, Vec<u8>)>>, CallError> {
        let open = self.table.get(&bucket)?;
        let mut bytes = 0;
        let value_of = |key: String| {
            let value = open.bucket.get(&key);
            // Counted per key: a call may name the same key many times.
            bytes += value.as_ref().map_or(0, Bytes::len);
            if bytes > MOST_ANSWER_BYTES {
                return Err(CallError::Other(format!("the values have more than {MOST_ANSWER_BYTES} bytes")));
            }
            Ok(value.map(|value| (key, Vec::from(value))))
        };
        keys.into_iter().map(value_of).collect()
    }

    fn set_many(
        &mut self,
        bucket: Resource<OpenBucket>,
        pairs: Vec<(String, Vec<u8>)>,
    ) -> Result<(), CallError> {
        let open = self.table.get(&bucket)?;
        let pairs = pairs.into_iter().map(|(key, value)| (key, exact(value))).collect();
        Ok(open.bucket.set(pairs, open.most_bytes)?)
    }

    fn delete_many(&mut self, bucket: Resource<OpenBucket>, keys: Vec<String>) -> Result<(), CallError> {
        self.table.get(&bucket)?.bucket.delete(&keys);
        Ok(())
    }
}

/// A value without spare capacity.
fn exact(value: Vec<u8>) -> Bytes {
    Bytes::from(value.into_boxed_slice())
}
