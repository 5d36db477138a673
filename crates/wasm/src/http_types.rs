//! `wasi:http/types` for components of 0.2. Most functions are those of wasmtime.
//!
//! The incoming request and the bodies that an instance writes are resources of this crate, because those of
//! wasmtime cost more than the rest of a small request: here fields are converted only when the instance
//! requests them, and a body is one queue instead of two channels.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response as AnswerResponse};
use tokio::sync::oneshot;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable, ResourceTableError};
use wasmtime::{Result, format_err};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, IoError};
use wasmtime_wasi_http::p2::bindings::{LinkOptions, http::types};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody, HostOutgoingBody};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingRequest, HostIncomingResponse, HostOutgoingRequest,
    HostOutgoingResponse, HostResponseOutparam,
};
use wasmtime_wasi_http::p2::{HeaderError, HeaderResult, HttpError, HttpResult};
use wasmtime_wasi_http::{FieldMap, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpView as _};

use crate::message::{self, Reply};
use crate::outgoing_body::{BodyOf, OutgoingBody, outgoing_body};
use crate::request_head::Head;
use crate::state::State;
use crate::streams;

/// The functions of an instance.
pub struct HttpTypes<'a>(WasiHttpCtxView<'a>);

struct HasHttpTypes;

impl HasData for HasHttpTypes {
    type Data<'a> = HttpTypes<'a>;
}

/// The resource `incoming-request`.
struct IncomingRequest {
    head: Head,
    /// The fields, once the instance has requested them.
    fields: Option<FieldMap>,
    body: Option<WasiBody>,
}

/// The resource `response-outparam`.
struct ResponseOutparam(oneshot::Sender<Reply>);

/// Adds `wasi:http/types` to the linker, in place of the functions of wasmtime.
pub fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    let options = LinkOptions::default();
    types::add_to_linker::<_, HasHttpTypes>(linker, &options.into(), |state| HttpTypes(state.http()))
}

/// Creates the resource for a request.
pub fn push_request(
    table: &mut ResourceTable,
    head: Head,
    body: WasiBody,
) -> Result<Resource<HostIncomingRequest>> {
    let request = table.push(IncomingRequest { head, fields: None, body: Some(body) })?;
    Ok(Resource::new_own(request.rep()))
}

/// Creates the resource that takes the answer.
pub fn push_outparam(
    table: &mut ResourceTable,
    reply: oneshot::Sender<Reply>,
) -> Result<Resource<HostResponseOutparam>> {
    Ok(Resource::new_own(table.push(ResponseOutparam(reply))?.rep()))
}

// The bindings of wasmtime define the types of handles. The resources behind them may have other types.

fn request_key(request: &Resource<HostIncomingRequest>) -> Resource<IncomingRequest> {
    Resource::new_own(request.rep())
}

fn outparam_key(out: &Resource<HostResponseOutparam>) -> Resource<ResponseOutparam> {
    Resource::new_own(out.rep())
}

fn body_key(body: &Resource<HostOutgoingBody>) -> Resource<OutgoingBody> {
    Resource::new_own(body.rep())
}

/// Defines functions that call those of wasmtime.
macro_rules! delegate_to_wasmtime {
    ($interface:ident: $(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&mut self, $($argument: $kind),*) -> $result {
            types::$interface::$name(&mut self.0, $($argument),*)
        })*
    };
}

impl types::Host for HttpTypes<'_> {
    delegate_to_wasmtime! { Host:
        fn convert_error_code(error: HttpError) -> Result<types::ErrorCode>;
        fn convert_header_error(error: HeaderError) -> Result<types::HeaderError>;
        fn http_error_code(error: Resource<IoError>) -> Result<Option<types::ErrorCode>>;
    }
}

impl types::HostFields for HttpTypes<'_> {
    delegate_to_wasmtime! { HostFields:
        fn new() -> Result<Resource<FieldMap>>;
        fn from_list(entries: Vec<(String, Vec<u8>)>) -> HeaderResult<Resource<FieldMap>>;
        fn drop(fields: Resource<FieldMap>) -> Result<()>;
        fn get(fields: Resource<FieldMap>, name: String) -> Result<Vec<Vec<u8>>>;
        fn has(fields: Resource<FieldMap>, name: String) -> Result<bool>;
        fn set(fields: Resource<FieldMap>, name: String, values: Vec<Vec<u8>>) -> HeaderResult<()>;
        fn delete(fields: Resource<FieldMap>, name: String) -> HeaderResult<()>;
        fn append(fields: Resource<FieldMap>, name: String, value: Vec<u8>) -> HeaderResult<()>;
        fn entries(fields: Resource<FieldMap>) -> Result<Vec<(String, Vec<u8>)>>;
        fn clone(fields: Resource<FieldMap>) -> Result<Resource<FieldMap>>;
    }
}

impl HttpTypes<'_> {
    fn request(&mut self, request: &Resource<HostIncomingRequest>) -> Result<&mut IncomingRequest> {
        Ok(self.0.table.get_mut(&request_key(request))?)
    }

    fn push_body(&mut self, body: OutgoingBody) -> Result<Resource<HostOutgoingBody>> {
        Ok(Resource::new_own(self.0.table.push(body)?.rep()))
    }

    /// Removes a body from the table. Its stream must be closed.
    fn take_body(&mut self, body: &Resource<HostOutgoingBody>) -> Result<OutgoingBody> {
        if self.0.table.get(&body_key(body))?.has_writer() {
            return Err(ResourceTableError::HasChildren.into());
        }
        Ok(self.0.table.delete(body_key(body))?)
    }
}

impl types::HostIncomingRequest for HttpTypes<'_> {
    fn method(&mut self, request: Resource<HostIncomingRequest>) -> Result<types::Method> {
        Ok(self.request(&request)?.head.method.clone().into())
    }

    fn path_with_query(&mut self, request: Resource<HostIncomingRequest>) -> Result<Option<String>> {
        Ok(Some(self.request(&request)?.head.path.as_str().to_string()))
    }

    fn scheme(&mut self, request: Resource<HostIncomingRequest>) -> Result<Option<types::Scheme>> {
        let is_https = self.request(&request)?.head.is_https;
        Ok(Some(if is_https { types::Scheme::Https } else { types::Scheme::Http }))
    }

    fn authority(&mut self, request: Resource<HostIncomingRequest>) -> Result<Option<String>> {
        Ok(Some(self.request(&request)?.head.authority.to_string()))
    }

    fn headers(&mut self, request: Resource<HostIncomingRequest>) -> Result<Resource<FieldMap>> {
        let key = request_key(&request);
        let request = self.0.table.get_mut(&key)?;
        let fields = match &request.fields {
            Some(fields) => fields.clone(),
            None => {
                let fields = request.head.fields();
                let fields = fields.ok_or_else(|| format_err!("wasi:http cannot represent the request"))?;
                request.fields.insert(FieldMap::new_immutable(self.0.hooks, fields)).clone()
            }
        };
        Ok(self.0.table.push(fields)?)
    }

    fn consume(
        &mut self,
        request: Resource<HostIncomingRequest>,
    ) -> Result<Result<Resource<HostIncomingBody>, ()>> {
        let Some(body) = self.request(&request)?.body.take() else { return Ok(Err(())) };
        Ok(Ok(self.0.table.push(HostIncomingBody::new(body))?))
    }

    fn drop(&mut self, request: Resource<HostIncomingRequest>) -> Result<()> {
        self.0.table.delete(request_key(&request))?;
        Ok(())
    }
}

/// The value of Content-Length; an error if it is invalid.
fn declared_length(fields: &HeaderMap) -> Result<Option<u64>, ()> {
    let mut values = fields.get_all(CONTENT_LENGTH).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => message::length(value).map(Some).ok_or(()),
        (Some(_), Some(_)) => Err(()),
    }
}

impl types::HostOutgoingResponse for HttpTypes<'_> {
    delegate_to_wasmtime! { HostOutgoingResponse:
        fn new(fields: Resource<FieldMap>) -> Result<Resource<HostOutgoingResponse>>;
        fn status_code(response: Resource<HostOutgoingResponse>) -> Result<types::StatusCode>;
        fn set_status_code(
            response: Resource<HostOutgoingResponse>, status: types::StatusCode
        ) -> Result<Result<(), ()>>;
        fn headers(response: Resource<HostOutgoingResponse>) -> Result<Resource<FieldMap>>;
        fn drop(response: Resource<HostOutgoingResponse>) -> Result<()>;
    }

    fn body(
        &mut self,
        response: Resource<HostOutgoingResponse>,
    ) -> Result<Result<Resource<HostOutgoingBody>, ()>> {
        let response = self.0.table.get_mut(&response)?;
        let (None, Ok(length)) = (&response.body, declared_length(&response.headers)) else {
            return Ok(Err(()));
        };
        let (body, reader) = outgoing_body(BodyOf::Answer, length);
        response.body = Some(WasiBody::new(reader));
        self.push_body(body).map(Ok)
    }
}

impl types::HostOutgoingRequest for HttpTypes<'_> {
    delegate_to_wasmtime! { HostOutgoingRequest:
        fn new(fields: Resource<FieldMap>) -> Result<Resource<HostOutgoingRequest>>;
        fn method(request: Resource<HostOutgoingRequest>) -> Result<types::Method>;
        fn set_method(
            request: Resource<HostOutgoingRequest>, method: types::Method
        ) -> Result<Result<(), ()>>;
        fn path_with_query(request: Resource<HostOutgoingRequest>) -> Result<Option<String>>;
        fn set_path_with_query(
            request: Resource<HostOutgoingRequest>, path: Option<String>
        ) -> Result<Result<(), ()>>;
        fn scheme(request: Resource<HostOutgoingRequest>) -> Result<Option<types::Scheme>>;
        fn set_scheme(
            request: Resource<HostOutgoingRequest>, scheme: Option<types::Scheme>
        ) -> Result<Result<(), ()>>;
        fn authority(request: Resource<HostOutgoingRequest>) -> Result<Option<String>>;
        fn set_authority(
            request: Resource<HostOutgoingRequest>, authority: Option<String>
        ) -> Result<Result<(), ()>>;
        fn headers(request: Resource<HostOutgoingRequest>) -> Result<Resource<FieldMap>>;
        fn drop(request: Resource<HostOutgoingRequest>) -> Result<()>;
    }

    fn body(
        &mut self,
        request: Resource<HostOutgoingRequest>,
    ) -> Result<Result<Resource<HostOutgoingBody>, ()>> {
        let request = self.0.table.get_mut(&request)?;
        let (None, Ok(length)) = (&request.body, declared_length(&request.headers)) else {
            return Ok(Err(()));
        };
        let (body, reader) = outgoing_body(BodyOf::Request, length);
        request.body = Some(WasiBody::new(reader));
        self.push_body(body).map(Ok)
    }
}

impl types::HostOutgoingBody for HttpTypes<'_> {
    fn write(&mut self, body: Resource<HostOutgoingBody>) -> Result<Result<Resource<DynOutputStream>, ()>> {
        match self.0.table.get(&body_key(&body))?.writer() {
            Some(writer) => Ok(Ok(streams::handle(&self.0.table.push(writer)?))),
            None => Ok(Err(())),
        }
    }

    fn finish(
        &mut self,
        body: Resource<HostOutgoingBody>,
        trailers: Option<Resource<FieldMap>>,
    ) -> HttpResult<()> {
        let body = self.take_body(&body).map_err(HttpError::trap)?;
        let trailers = match trailers {
            Some(trailers) => Some(self.0.table.delete(trailers)?.into()),
            None => None,
        };
        Ok(body.finish(trailers)?)
    }

    fn drop(&mut self, body: Resource<HostOutgoingBody>) -> Result<()> {
        self.take_body(&body)?.abort();
        Ok(())
    }
}

impl types::HostResponseOutparam for HttpTypes<'_> {
    delegate_to_wasmtime! { HostResponseOutparam:
        fn send_informational(
            out: Resource<HostResponseOutparam>, status: u16, fields: Resource<FieldMap>
        ) -> HttpResult<()>;
    }

    fn set(
        &mut self,
        out: Resource<HostResponseOutparam>,
        response: Result<Resource<HostOutgoingResponse>, types::ErrorCode>,
    ) -> Result<()> {
        let reply = match response {
            Ok(response) => Ok(answer_of(self.0.table.delete(response)?)),
            Err(code) => Err(format!("it returned the error {code:?}")),
        };
        let ResponseOutparam(sender) = self.0.table.delete(outparam_key(&out))?;
        // Without a receiver, the request has ended.
        let _ = sender.send(reply);
        Ok(())
    }

    fn drop(&mut self, out: Resource<HostResponseOutparam>) -> Result<()> {
        self.0.table.delete(outparam_key(&out))?;
        Ok(())
    }
}

fn answer_of(response: HostOutgoingResponse) -> AnswerResponse<WasiBody> {
    let mut answer = AnswerResponse::new(response.body.unwrap_or_else(message::empty_body));
    *answer.status_mut() = response.status;
    *answer.headers_mut() = response.headers.into();
    answer
}

impl types::HostIncomingResponse for HttpTypes<'_> {
    delegate_to_wasmtime! { HostIncomingResponse:
        fn status(response: Resource<HostIncomingResponse>) -> Result<types::StatusCode>;
        fn headers(response: Resource<HostIncomingResponse>) -> Result<Resource<FieldMap>>;
        fn consume(
            response: Resource<HostIncomingResponse>
        ) -> Result<Result<Resource<HostIncomingBody>, ()>>;
        fn drop(response: Resource<HostIncomingResponse>) -> Result<()>;
    }
}

/// The trailers of a message, once they have arrived.
type Trailers = Option<Result<Result<Option<Resource<FieldMap>>, types::ErrorCode>, ()>>;

impl types::HostFutureTrailers for HttpTypes<'_> {
    delegate_to_wasmtime! { HostFutureTrailers:
        fn subscribe(trailers: Resource<HostFutureTrailers>) -> Result<Resource<DynPollable>>;
        fn get(trailers: Resource<HostFutureTrailers>) -> Result<Trailers>;
        fn drop(trailers: Resource<HostFutureTrailers>) -> Result<()>;
    }
}

impl types::HostIncomingBody for HttpTypes<'_> {
    delegate_to_wasmtime! { HostIncomingBody:
        fn stream(body: Resource<HostIncomingBody>) -> Result<Result<Resource<DynInputStream>, ()>>;
        fn finish(body: Resource<HostIncomingBody>) -> Result<Resource<HostFutureTrailers>>;
        fn drop(body: Resource<HostIncomingBody>) -> Result<()>;
    }
}

/// The answer to a request of an instance, once it has arrived.
type Response = Option<Result<Result<Resource<HostIncomingResponse>, types::ErrorCode>, ()>>;

impl types::HostFutureIncomingResponse for HttpTypes<'_> {
    delegate_to_wasmtime! { HostFutureIncomingResponse:
        fn get(response: Resource<HostFutureIncomingResponse>) -> Result<Response>;
        fn subscribe(response: Resource<HostFutureIncomingResponse>) -> Result<Resource<DynPollable>>;
        fn drop(response: Resource<HostFutureIncomingResponse>) -> Result<()>;
    }
}

/// A timeout of `request-options`.
type Time = Option<types::Duration>;

impl types::HostRequestOptions for HttpTypes<'_> {
    delegate_to_wasmtime! { HostRequestOptions:
        fn new() -> Result<Resource<RequestOptions>>;
        fn connect_timeout(options: Resource<RequestOptions>) -> Result<Time>;
        fn set_connect_timeout(options: Resource<RequestOptions>, time: Time) -> Result<Result<(), ()>>;
        fn first_byte_timeout(options: Resource<RequestOptions>) -> Result<Time>;
        fn set_first_byte_timeout(options: Resource<RequestOptions>, time: Time) -> Result<Result<(), ()>>;
        fn between_bytes_timeout(options: Resource<RequestOptions>) -> Result<Time>;
        fn set_between_bytes_timeout(
            options: Resource<RequestOptions>, time: Time
        ) -> Result<Result<(), ()>>;
        fn drop(options: Resource<RequestOptions>) -> Result<()>;
    }
}
