//! `include`: pages with directives are evaluated in their place, everything else is fetched, several at a
//! time.
//!
//! A page sees the variables of the page that includes it, and its own changes apply to the rest of that
//! page; so pages are evaluated in order. Other content is fetched in parallel, and its output is inserted at
//! the reserved position.

use std::rc::Rc;

use bytes::Bytes;

use super::render_context::{Block, RenderContext};
use super::sink::Sink;
use super::walk::Walk;
use crate::host::{FetchedContent, Host, PageSource, ResolvedTarget, Target, TargetKind};
use crate::page::{Include, IncludeItem};
use crate::settings::Grammar;
use crate::template::Variable;

impl<H: Host> Walk<H> {
    pub(super) async fn include(&mut self, include: &Include, line: usize, sink: &Sink) {
        if let [item @ (IncludeItem::Virtual(_) | IncludeItem::File(_))] = include.items.as_slice()
            && include.set.is_none()
        {
            return self.include_one(include, item, line, sink).await;
        }
        let mut output = Vec::new();
        // Whether the last source failed; only then is an onerror used.
        let mut failed = false;
        for item in &include.items {
            let skipped = match item {
                IncludeItem::Virtual(_) => failed,
                IncludeItem::OnError(_) => !failed,
                IncludeItem::File(_) | IncludeItem::Broken(_) => false,
            };
            if skipped {
                continue;
            }
            if let IncludeItem::Broken(message) = item {
                failed = true;
                self.report(line, message);
                break;
            }
            match self.whole(item, line).await {
                Ok(pieces) => {
                    output.extend(pieces);
                    failed = false;
                }
                Err(message) => {
                    self.report(line, &message);
                    if failed {
                        break;
                    }
                    failed = true;
                }
            }
        }
        if include.items.is_empty() {
            self.report(line, "include needs virtual or file");
            failed = true;
        }
        self.finish(include, output, failed, line, sink).await;
    }

    /// Writes or stores the output of several sources.
    async fn finish(
        &mut self,
        include: &Include,
        output: Vec<Bytes>,
        failed: bool,
        line: usize,
        sink: &Sink,
    ) {
        if let Some(name) = &include.set {
            let value = if failed { Vec::new() } else { output.concat() };
            if let Err(message) = self.context.set(name, value) {
                self.report(line, &message);
            }
            if failed {
                self.write_error_text(sink);
            }
            return;
        }
        let is_empty = output.iter().all(Bytes::is_empty);
        output.into_iter().for_each(|piece| self.context.write(sink, piece));
        match &include.stub {
            Some(stub) if failed || is_empty => self.write_stub(stub, line, sink).await,
            _ if failed => self.write_error_text(sink),
            _ => {}
        }
    }

    /// Writes one source: the usual case.
    async fn include_one(&mut self, include: &Include, item: &IncludeItem, line: usize, sink: &Sink) {
        let (target, resolved) = match self.resolve(item, line).await {
            Ok(found) => found,
            Err(message) => {
                self.report(line, &message);
                return self.write_stub_or_error(include, line, sink).await;
            }
        };
        if let ResolvedTarget::Page(source, _) = resolved {
            if include.stub.is_none() {
                if let Err(message) = self.evaluate_page(source, sink).await {
                    self.fail(line, &message, sink);
                }
                return;
            }
            let result = self.whole_page(source).await;
            return self.put_out(include, result, line, sink).await;
        }
        if include.wait || !self.concurrent {
            let variables = self.context.program_variables();
            let result = self.fetch_shown(target, variables, include.stub.is_some(), line).await;
            return self.put_out(include, result, line, sink).await;
        }
        self.fetch_beside(include, target, line, sink);
    }

    /// Starts a fetch in parallel, and reserves the position of its output.
    fn fetch_beside(&mut self, include: &Include, target: Target, line: usize, sink: &Sink) {
        let place = sink.nested();
        let stub = include.stub.as_deref().and_then(|name| self.context.blocks.borrow().get(name).cloned());
        if let (Some(name), None) = (&include.stub, &stub) {
            self.report(line, &no_block(name));
        }
        let mut walk = self.of_block(&Block { source: self.source.clone(), nodes: 0..0 });
        walk.concurrent = false;
        let has_stub = include.stub.is_some();
        // The present values: variables that the page sets later do not apply.
        let variables = self.context.program_variables();
        self.context.tasks.borrow_mut().push_back(Box::pin(async move {
            let result = walk.fetch_shown(target, variables, has_stub, line).await;
            let is_empty = result.as_ref().is_ok_and(|pieces| pieces.iter().all(Bytes::is_empty));
            match (result, stub) {
                (Ok(pieces), _) if !is_empty => {
                    pieces.into_iter().for_each(|piece| walk.context.write(&place, piece));
                }
                (Ok(_), Some(block)) => walk.write_block(&block, &place).await,
                (Ok(_), None) if has_stub => walk.write_error_text(&place),
                (Ok(_), None) => {}
                (Err(message), stub) => {
                    walk.report(line, &message);
                    match stub {
                        Some(block) => walk.write_block(&block, &place).await,
                        None => walk.write_error_text(&place),
                    }
                }
            }
            place.close();
        }));
    }

    async fn put_out(
        &mut self,
        include: &Include,
        result: Result<Vec<Bytes>, String>,
        line: usize,
        sink: &Sink,
    ) {
        match result {
            Ok(pieces) if include.stub.is_none() || pieces.iter().any(|piece| !piece.is_empty()) => {
                pieces.into_iter().for_each(|piece| self.context.write(sink, piece));
            }
            Ok(_) => self.write_stub_or_error(include, line, sink).await,
            Err(message) => {
                self.report(line, &message);
                self.write_stub_or_error(include, line, sink).await;
            }
        }
    }

    async fn write_stub_or_error(&mut self, include: &Include, line: usize, sink: &Sink) {
        match &include.stub {
            Some(stub) => self.write_stub(stub, line, sink).await,
            None => self.write_error_text(sink),
        }
    }

    async fn write_stub(&mut self, name: &[u8], line: usize, sink: &Sink) {
        let block = self.context.blocks.borrow().get(name).cloned();
        match block {
            Some(block) => self.write_block(&block, sink).await,
            None => self.fail(line, &no_block(name), sink),
        }
    }

    async fn write_block(&mut self, block: &Block, sink: &Sink) {
        // A block whose own inclusions fail and use it again would never end.
        if let Err(message) = self.context.count_include() {
            return self.fail(0, &message, sink);
        }
        Box::pin(self.of_block(block).nodes(block.nodes.clone(), sink)).await;
    }

    /// The whole content of one source, after waiting for it.
    async fn whole(&mut self, item: &IncludeItem, line: usize) -> Result<Vec<Bytes>, String> {
        match self.resolve(item, line).await? {
            (_, ResolvedTarget::Page(source, _)) => self.whole_page(source).await,
            (target, ResolvedTarget::Content) => self.fetch(target).await,
        }
    }

    async fn resolve(&mut self, item: &IncludeItem, line: usize) -> Result<(Target, ResolvedTarget), String> {
        let target = match item {
            IncludeItem::File(name) => self.file_target(name, line)?,
            IncludeItem::Virtual(path) | IncludeItem::OnError(path) => {
                self.virtual_target(path, line, TargetKind::Virtual)?
            }
            IncludeItem::Broken(message) => return Err(message.clone()),
        };
        let resolved = self.context.host.resolve(&target).await?;
        if let ResolvedTarget::Page(_, depends_on) = resolved {
            self.context.note(depends_on);
        }
        Ok((target, resolved))
    }

    /// Fetches content that is not a page.
    pub(super) async fn fetch(&self, target: Target) -> Result<Vec<Bytes>, String> {
        self.fetch_with(target, self.context.program_variables()).await
    }

    async fn fetch_with(&self, target: Target, variables: Vec<Variable>) -> Result<Vec<Bytes>, String> {
        let fetched = self.fetch_any(target, variables).await?;
        fetched.failure.map_or(Ok(fetched.body), Err)
    }

    /// Fetches content that is written to the page: nginx includes error pages, unless a block replaces them.
    async fn fetch_shown(
        &self,
        target: Target,
        variables: Vec<Variable>,
        has_stub: bool,
        line: usize,
    ) -> Result<Vec<Bytes>, String> {
        let fetched = self.fetch_any(target, variables).await?;
        match fetched.failure {
            Some(failure) if has_stub || self.context.settings.grammar != Grammar::Nginx => Err(failure),
            Some(failure) => {
                self.report(line, &failure);
                Ok(fetched.body)
            }
            None => Ok(fetched.body),
        }
    }

    async fn fetch_any(&self, target: Target, variables: Vec<Variable>) -> Result<FetchedContent, String> {
        self.context.count_include()?;
        let fetched = self.context.host.fetch(target, variables).await?;
        self.context.note(fetched.depends_on);
        Ok(fetched)
    }

    async fn evaluate_page(&mut self, source: PageSource, sink: &Sink) -> Result<(), String> {
        let mut walk = self.enter(source)?;
        Box::pin(walk.page(sink)).await;
        Ok(())
    }

    async fn whole_page(&mut self, source: PageSource) -> Result<Vec<Bytes>, String> {
        let mut walk = self.enter(source)?;
        walk.concurrent = false;
        let sink = Sink::default();
        Box::pin(walk.page(&sink)).await;
        Ok(sink.into_pieces())
    }

    /// A walk over a page that this page includes.
    fn enter(&self, source: PageSource) -> Result<Walk<H>, String> {
        self.context.count_include()?;
        let path = String::from_utf8_lossy(&source.path);
        if self.chain.contains(&source) {
            return Err(format!("{path} includes itself"));
        }
        if self.chain.depth >= self.context.settings.most_depth {
            return Err(format!("{path} is included more than {} deep", self.context.settings.most_depth));
        }
        self.context.enter(&source);
        let context: Rc<RenderContext<H>> = self.context.clone();
        let mut walk = Walk::new(context, source, Some(self.chain.clone()));
        walk.concurrent = self.concurrent;
        Ok(walk)
    }
}

fn no_block(name: &[u8]) -> String {
    format!("unknown block {:?}", String::from_utf8_lossy(name))
}
