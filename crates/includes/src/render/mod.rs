//! Evaluates a page. The output is made piece by piece, and static text is not copied.
//!
//! The task that sends the output drives a [`Rendering`]: it works only while the next piece is requested.
//! One future walks over the pages. Inclusions that only need to be fetched run in parallel to it, up to a
//! limit.

mod condition;
mod flow;
mod include;
mod nginx;
mod render_context;
mod sink;
mod size;
mod walk;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use self::render_context::{RenderContext, Task};
use self::sink::{NextOutput, Sink};
use self::walk::Walk;
use super::host::{DependsOn, Host, PageSource};
use super::settings::Settings;

/// A page that is being evaluated for one request.
pub struct Rendering<H: Host> {
    context: Rc<RenderContext<H>>,
    output: Sink,
    /// The walk over the pages, until it has finished.
    walk: Option<Task>,
    running: Vec<Task>,
}

/// The whole output of a page.
#[derive(Debug)]
pub struct RenderedPage {
    /// The output.
    pub pieces: Vec<Bytes>,
    /// Its dependencies, besides files.
    pub depends_on: DependsOn,
}

impl<H: Host> Rendering<H> {
    /// Begins to evaluate `document` at the time `now`, in seconds since 1970.
    pub fn new(host: Rc<H>, settings: Arc<Settings>, document: PageSource, now: i64) -> Rendering<H> {
        let context = Rc::new(RenderContext::new(host, settings, document.clone(), now));
        let output = Sink::default();
        let mut walk = Walk::new(context.clone(), document, None);
        let sink = output.clone();
        let walk: Task = Box::pin(async move {
            walk.page(&sink).await;
            sink.close();
        });
        Rendering { context, output, walk: Some(walk), running: Vec::new() }
    }

    /// The next piece of the output; `None` at its end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.output.take_next() {
            NextOutput::Bytes(bytes) => return Poll::Ready(Some(bytes)),
            NextOutput::End => return Poll::Ready(None),
            NextOutput::NotYet => self.advance(context),
        }
        match self.output.take_next() {
            NextOutput::Bytes(bytes) => Poll::Ready(Some(bytes)),
            NextOutput::End => Poll::Ready(None),
            NextOutput::NotYet => Poll::Pending,
        }
    }

    /// The next piece of the output; `None` at its end.
    pub async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Renders the whole page.
    pub async fn whole(mut self) -> RenderedPage {
        let mut pieces = Vec::new();
        while let Some(piece) = self.next().await {
            pieces.push(piece);
        }
        RenderedPage { pieces, depends_on: self.context.depends_on() }
    }

    /// The dependencies of the output so far. The value is final once the output has ended.
    pub fn depends_on(&self) -> DependsOn {
        self.context.depends_on()
    }

    /// Polls the walk and the running inclusions.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Some(walk) = &mut self.walk
            && walk.as_mut().poll(context).is_ready()
        {
            self.walk = None;
        }
        // Inclusions that already run are polled once. New ones then fill the free places.
        self.running.retain_mut(|task| task.as_mut().poll(context).is_pending());
        while self.running.len() < self.context.settings.concurrent_includes.max(1) {
            let Some(mut task) = self.context.tasks.borrow_mut().pop_front() else { break };
            if task.as_mut().poll(context).is_pending() {
                self.running.push(task);
            }
        }
    }
}

#[cfg(test)]
mod tests;
