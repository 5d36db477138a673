//! One request in an instance, as a future that any thread can poll.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use wasmtime::{Result, Store, format_err};
use wasmtime_wasi_http::{Error, WasiBody, WasiHttpView as _, p2, p3};

use crate::compiled::LoadedComponent;
use crate::http_types;
use crate::message::Reply;
use crate::request_head::Head;
use crate::state::State;

/// An instance that can answer another request.
pub struct ReusableInstance {
    /// Its store.
    pub store: Store<State>,
    proxy: Proxy,
    /// The number of requests that it has answered.
    pub uses: u32,
}

enum Proxy {
    P2(p2::bindings::Proxy),
    P3(p3::bindings::Service),
}

/// The instance for a request.
pub enum Instance {
    /// A new instance, which is created in this store.
    New(Arc<LoadedComponent>, Box<Store<State>>),
    /// An instance that has answered requests before.
    Reused(Box<ReusableInstance>),
}

/// Answers a request by an instance. `reply` gets the answer.
pub async fn serve(
    instance: Instance,
    head: Head,
    body: WasiBody,
    reply: oneshot::Sender<Reply>,
) -> Result<Box<ReusableInstance>> {
    let mut reusable = match instance {
        Instance::Reused(reusable) => reusable,
        Instance::New(component, mut store) => {
            let proxy = match &*component {
                LoadedComponent::P2(pre) => Proxy::P2(pre.instantiate_async(&mut *store).await?),
                LoadedComponent::P3(pre) => Proxy::P3(pre.instantiate_async(&mut *store).await?),
            };
            Box::new(ReusableInstance { store: *store, proxy, uses: 0 })
        }
    };
    reusable.uses += 1;
    let ReusableInstance { store, proxy, .. } = &mut *reusable;
    let served = match proxy {
        Proxy::P2(proxy) => serve_p2(proxy, store, head, body, reply).await,
        Proxy::P3(service) => {
            let request = head.into_request(body);
            let request = request.ok_or_else(|| format_err!("wasi:http cannot represent the request"))?;
            serve_p3(service, store, request, reply).await
        }
    };
    if let Err(error) = served {
        // Must precede the drop of the store, which ends the body of the answer.
        reusable.store.data().compute_limit.note_failure();
        return Err(error);
    }
    Ok(reusable)
}

async fn serve_p2(
    proxy: &p2::bindings::Proxy,
    store: &mut Store<State>,
    head: Head,
    body: WasiBody,
    reply: oneshot::Sender<Reply>,
) -> Result<()> {
    let state = store.data_mut();
    let request = http_types::push_request(state.table(), head, body)?;
    let out = http_types::push_outparam(state.table(), reply)?;
    proxy.wasi_http_incoming_handler().call_handle(store, request, out).await
}

async fn serve_p3(
    service: &p3::bindings::Service,
    store: &mut Store<State>,
    request: Request<WasiBody>,
    reply: oneshot::Sender<Reply>,
) -> Result<()> {
    let (request, sent) = p3::Request::from_http(store.data_mut().http().hooks, request);
    let work = store.run_concurrent(async |accessor| {
        let answer = match service.handle(accessor, request).await? {
            Ok(answer) => answer,
            Err(code) => {
                let _ = reply.send(Err(format!("it returned the error {code:?}")));
                return Ok(());
            }
        };
        let answer =
            accessor.with(|mut store| answer.into_http_with_getter(&mut store, sent, State::http))?;
        let (dropped, body_dropped) = oneshot::channel();
        let answer = answer.map(|body| NotifyingBody { body, _dropped: dropped }.boxed_unsync());
        let _ = reply.send(Ok(answer));
        // The instance writes the body until it is dropped.
        let _ = body_dropped.await;
        Ok(())
    });
    work.await?
}

/// A body that notifies the instance's task when it is dropped.
struct NotifyingBody {
    body: WasiBody,
    _dropped: oneshot::Sender<()>,
}

impl Body for NotifyingBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
