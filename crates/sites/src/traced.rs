//! A program whose calls are spans of the trace of their request.
//!
//! It is used only for routes that are traced. Requests of traces that are not recorded are passed on
//! unchanged. A traced program is not called before the whole request has arrived, because the program must
//! receive its trace context.

use std::rc::Rc;
use std::sync::Arc;

use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{
    CallUnderWay, Handled, Handler, Interface, InterfaceLayer, LocalBoxFuture, Server,
};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::request::Request;
use touchstone_handler::trace::{ActiveSpan, SpanKind, Value};

/// A program and its name in spans.
struct Traced {
    interface: Arc<dyn Interface>,
    name: &'static str,
}

/// Adds tracing to the calls of an interface.
pub fn open(interface: Arc<dyn Interface>, name: &'static str) -> Arc<dyn Interface> {
    Arc::new(Traced { interface, name })
}

impl InterfaceLayer for Traced {
    fn inner(&self) -> &dyn Interface {
        &*self.interface
    }

    fn around(&self, inner: Rc<dyn Handler>, _server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(TracedHandler { handler: inner, name: self.name })
    }
}

struct TracedHandler {
    handler: Rc<dyn Handler>,
    name: &'static str,
}

impl Handler for TracedHandler {
    fn handle(self: Rc<Self>, mut request: Request) -> LocalBoxFuture<Handled> {
        let span = request.trace.as_ref().and_then(|trace| trace.begin(SpanKind::Internal, self.name));
        let Some(mut span) = span else { return self.handler.clone().handle(request) };
        span.set("touchstone.interface", Value::Text(self.name.into()));
        enter(&span, &mut request);
        let handled = self.handler.clone().handle(request);
        Box::pin(async move {
            let handled = handled.await;
            finish(span, &handled);
            handled
        })
    }

    fn await_call(
        self: Rc<Self>,
        call: CallUnderWay,
        interim: Rc<dyn TakesInterim>,
    ) -> LocalBoxFuture<Answer> {
        self.handler.clone().await_call(call, interim)
    }
}

/// Makes the span the current one of the request, and passes it on to the program.
fn enter(span: &ActiveSpan, request: &mut Request) {
    let inside = span.inside();
    let value = inside.trace_parent();
    request.trace = Some(inside);
    let name = b"traceparent";
    let is_other = |other: &[u8]| !other.eq_ignore_ascii_case(name);
    if let Some(written) = request.received.with_fields(is_other, [(&name[..], &value[..])]) {
        request.received = Rc::new(written);
    }
}

fn finish(mut span: ActiveSpan, handled: &Handled) {
    if let Handled::Answer(answer) = handled {
        span.set("http.response.status_code", Value::Number(answer.status.into()));
        if answer.status >= 500 {
            span.fail(&answer.status.to_string());
        }
    }
    span.finish();
}
