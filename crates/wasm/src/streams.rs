//! `wasi:io/streams` for components of 0.2: the functions of wasmtime, except for bodies that an instance
//! writes.
//!
//! The stream of such a body is recognised by its type. So bytes are written under one lock, without a future
//! unless the instance must wait, and copied once, from the instance's memory to the buffer that is sent.

use std::future::ready;

use bytes::Bytes;
use wasmtime::component::{
    HasData, Linker, Resource, ResourceTable, ResourceTableError, ResourceType, WasmList,
};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::p2::bindings::io::{error, poll, streams};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, OutputStream, StreamError, StreamResult, subscribe,
};

use crate::outgoing_body::{BodyWriter, WriteOutcome};
use crate::state::State;

/// The interface, of the version whose types the bindings of wasmtime define.
const INTERFACE: &str = "wasi:io/streams@0.2.12";

/// The most bytes of one blocking write.
const MOST_BLOCKING_BYTES: u64 = 4096;

/// The streams of an instance.
pub struct Streams<'a> {
    table: &'a mut ResourceTable,
}

struct HasStreams;

impl HasData for HasStreams {
    type Data<'a> = Streams<'a>;
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// Adds `wasi:io` to the linker, in place of the functions of wasmtime.
pub fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    error::add_to_linker::<_, HasTable>(linker, State::table)?;
    poll::add_to_linker::<_, HasTable>(linker, State::table)?;
    streams::add_to_linker::<_, HasStreams>(linker, of_state)?;
    let mut interface = linker.instance(INTERFACE)?;
    // The drop of wasmtime is asynchronous, because its streams may have work to cancel. No stream of a
    // component here has any: files are read only, and there are no sockets.
    interface.resource("output-stream", ResourceType::host::<DynOutputStream>(), |mut store, stream| {
        of_state(store.data_mut()).delete(&Resource::new_own(stream))
    })?;
    interface.func_wrap("[method]output-stream.write", write)?;
    interface.func_wrap_async("[method]output-stream.blocking-write-and-flush", blocking_write_and_flush)
}

fn of_state(state: &mut State) -> Streams<'_> {
    Streams { table: state.table() }
}

/// The arguments of a write.
type Write = (Resource<DynOutputStream>, WasmList<u8>);

/// The result of a write.
type WriteResult = (Result<(), streams::StreamError>,);

/// Copies bytes of the instance's memory to a body, without waiting. `None`: it is not the stream of a body.
fn write_to_body(
    store: &StoreContextMut<'_, State>,
    (stream, bytes): &Write,
) -> Option<StreamResult<WriteOutcome>> {
    let body = store.data().resources().get(&body_key(stream)).ok()?;
    Some(body.try_write(bytes.as_le_slice(store)))
}

fn write(mut store: StoreContextMut<'_, State>, arguments: Write) -> Result<WriteResult> {
    let written = match write_to_body(&store, &arguments) {
        Some(Ok(WriteOutcome::WithRoom | WriteOutcome::Full)) => Ok(()),
        Some(Ok(WriteOutcome::No)) => Err(StreamError::trap("write exceeded budget")),
        Some(Err(error)) => Err(error),
        None => {
            let (stream, bytes) = arguments;
            let bytes = bytes.as_le_slice(&store).to_vec();
            streams::HostOutputStream::write(&mut of_state(store.data_mut()), stream, bytes)
        }
    };
    write_result(of_state(store.data_mut()), written)
}

fn blocking_write_and_flush(
    mut store: StoreContextMut<'_, State>,
    arguments: Write,
) -> Box<dyn Future<Output = Result<WriteResult>> + Send + '_> {
    let written = match check_blocking_bytes(arguments.1.len() as u64) {
        Ok(()) => write_to_body(&store, &arguments),
        Err(error) => Some(Err(error)),
    };
    let (stream, bytes) = arguments;
    let unwritten = match written {
        Some(Ok(WriteOutcome::WithRoom)) => return Box::new(ready(Ok((Ok(()),)))),
        Some(Ok(WriteOutcome::Full)) => Ok(None),
        Some(Ok(WriteOutcome::No)) | None => Ok(Some(bytes.as_le_slice(&store).to_vec())),
        Some(Err(error)) => Err(error),
    };
    Box::new(async move {
        let mut streams = of_state(store.data_mut());
        let written = match unwritten {
            Ok(None) => streams.wait_for_room(&stream).await,
            Ok(Some(bytes)) => streams.write_and_flush(&stream, bytes.into()).await,
            Err(error) => Err(error),
        };
        write_result(streams, written)
    })
}

fn write_result(mut streams: Streams<'_>, written: StreamResult<()>) -> Result<WriteResult> {
    let Err(error) = written else { return Ok((Ok(()),)) };
    Ok((Err(streams::Host::convert_stream_error(&mut streams, error)?),))
}

/// The handle of a body's stream.
pub fn handle(writer: &Resource<BodyWriter>) -> Resource<DynOutputStream> {
    Resource::new_own(writer.rep())
}

fn body_key(stream: &Resource<DynOutputStream>) -> Resource<BodyWriter> {
    Resource::new_borrow(stream.rep())
}

impl Streams<'_> {
    fn body(&mut self, stream: &Resource<DynOutputStream>) -> Option<&mut BodyWriter> {
        self.table.get_mut(&body_key(stream)).ok()
    }

    fn output(&mut self, stream: &Resource<DynOutputStream>) -> StreamResult<&mut dyn OutputStream> {
        let entry = self.table.get_any_mut(stream.rep())?;
        if entry.is::<BodyWriter>() {
            return match entry.downcast_mut::<BodyWriter>() {
                Some(writer) => Ok(writer),
                None => Err(ResourceTableError::WrongType.into()),
            };
        }
        match entry.downcast_mut::<DynOutputStream>() {
            Some(stream) => Ok(stream.as_mut()),
            None => Err(ResourceTableError::WrongType.into()),
        }
    }

    fn delete(&mut self, stream: &Resource<DynOutputStream>) -> Result<()> {
        match self.body(stream).is_some() {
            true => drop(self.table.delete(Resource::<BodyWriter>::new_own(stream.rep()))?),
            false => drop(self.table.delete(Resource::<DynOutputStream>::new_own(stream.rep()))?),
        }
        Ok(())
    }

    async fn write_and_flush(
        &mut self,
        stream: &Resource<DynOutputStream>,
        bytes: Bytes,
    ) -> StreamResult<()> {
        let Some(body) = self.body(stream) else {
            return self.output(stream)?.blocking_write_and_flush(bytes).await;
        };
        match body.try_write(&bytes)? {
            WriteOutcome::WithRoom => Ok(()),
            WriteOutcome::Full => self.wait_for_room(stream).await,
            WriteOutcome::No => body.blocking_write_and_flush(bytes).await,
        }
    }

    /// Waits until a body has room again after a write.
    async fn wait_for_room(&mut self, stream: &Resource<DynOutputStream>) -> StreamResult<()> {
        match self.output(stream)?.write_ready().await {
            // The piece is written. If the reader is dropped, the next write fails.
            Ok(_) | Err(StreamError::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl streams::Host for Streams<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> Result<streams::StreamError> {
        streams::Host::convert_stream_error(self.table, error)
    }
}

fn check_blocking_bytes(bytes: u64) -> StreamResult<()> {
    match bytes <= MOST_BLOCKING_BYTES {
        true => Ok(()),
        false => Err(StreamError::trap("a blocking write must not exceed 4096 bytes")),
    }
}

fn as_length(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

impl streams::HostOutputStream for Streams<'_> {
    async fn drop(&mut self, stream: Resource<DynOutputStream>) -> Result<()> {
        self.delete(&stream)
    }

    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(self.output(&stream)?.check_write()? as u64)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.output(&stream)?.write(bytes.into())
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> Result<Resource<DynPollable>> {
        match self.body(&stream) {
            Some(_) => subscribe(self.table, body_key(&stream)),
            None => subscribe(self.table, stream),
        }
    }

    async fn blocking_write_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        check_blocking_bytes(bytes.len() as u64)?;
        self.write_and_flush(&stream, bytes.into()).await
    }

    async fn blocking_write_zeroes_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        length: u64,
    ) -> StreamResult<()> {
        check_blocking_bytes(length)?;
        self.write_and_flush(&stream, vec![0; as_length(length)].into()).await
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        self.output(&stream)?.write_zeroes(as_length(length))
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.output(&stream)?.flush()
    }

    async fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        let stream = self.output(&stream)?;
        stream.flush()?;
        stream.write_ready().await?;
        Ok(())
    }

    fn splice(
        &mut self,
        to: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        let length = as_length(length).min(self.output(&to)?.check_write()?);
        if length == 0 {
            return Ok(0);
        }
        let piece = self.table.get_mut(&from)?.read(length)?;
        let bytes = piece.len() as u64;
        if bytes > 0 {
            self.output(&to)?.write(piece)?;
        }
        Ok(bytes)
    }

    async fn blocking_splice(
        &mut self,
        to: Resource<DynOutputStream>,
        from: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<u64> {
        let length = as_length(length).min(self.output(&to)?.write_ready().await?);
        if length == 0 {
            return Ok(0);
        }
        let piece = self.table.get_mut(&from)?.blocking_read(length).await?;
        let bytes = piece.len() as u64;
        if bytes > 0 {
            self.output(&to)?.blocking_write_and_flush(piece).await?;
        }
        Ok(bytes)
    }
}

impl streams::HostInputStream for Streams<'_> {
    async fn drop(&mut self, stream: Resource<DynInputStream>) -> Result<()> {
        streams::HostInputStream::drop(self.table, stream).await
    }

    fn read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        streams::HostInputStream::read(self.table, stream, length)
    }

    async fn blocking_read(
        &mut self,
        stream: Resource<DynInputStream>,
        length: u64,
    ) -> StreamResult<Vec<u8>> {
        streams::HostInputStream::blocking_read(self.table, stream, length).await
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        streams::HostInputStream::skip(self.table, stream, length)
    }

    async fn blocking_skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        streams::HostInputStream::blocking_skip(self.table, stream, length).await
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> Result<Resource<DynPollable>> {
        streams::HostInputStream::subscribe(self.table, stream)
    }
}
