//! The walk over a page's nodes: writes text and runs directives.
//!
//! Nodes in branches that are not taken are skipped; see `flow`.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use touchstone_http::decimal::with_thousands_separators;

use super::flow::Flow;
use super::render_context::{Block, RenderContext};
use super::sink::Sink;
use super::size::abbreviated;
use crate::encoding::{Coding, escape_html, recode};
use crate::expression::{Captures, Scope};
use crate::host::{DependsOn, Host, PageSource, Target, TargetFacts, TargetKind};
use crate::page::{Command, ConfigItem, Directive, Echo, EchoItem, ExecItem, FileItem, Node, SetItem};
use crate::template::Template;
use crate::time_format::{Zone, format_time};

/// The state of a walk over a page.
pub(super) struct Walk<H: Host> {
    pub(super) context: Rc<RenderContext<H>>,
    pub(super) source: PageSource,
    /// The pages that include this one, beginning with itself.
    pub(super) chain: Rc<Chain>,
    /// The settings of `config`.
    pub(super) style: Style,
    /// Whether inclusions may run in parallel to the page.
    pub(super) concurrent: bool,
    captures: Captures,
    pub(super) flow: Flow,
}

/// A page and the pages that include it.
pub(super) struct Chain {
    path: Vec<u8>,
    query: Option<Vec<u8>>,
    pub(super) depth: usize,
    parent: Option<Rc<Chain>>,
}

impl Chain {
    pub(super) fn new(source: &PageSource, parent: Option<Rc<Chain>>) -> Chain {
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        Chain { path: source.path.clone(), query: source.query.clone(), depth, parent }
    }

    /// Whether the page is in the chain with the same path and query.
    pub(super) fn contains(&self, source: &PageSource) -> bool {
        let mut link = Some(self);
        while let Some(chain) = link {
            if chain.path == source.path && chain.query == source.query {
                return true;
            }
            link = chain.parent.as_deref();
        }
        false
    }
}

#[derive(Clone)]
pub(super) struct Style {
    error_text: Bytes,
    undefined_text: Bytes,
    time_format: Bytes,
    sizes_in_bytes: bool,
}

impl<H: Host> Walk<H> {
    pub(super) fn new(
        context: Rc<RenderContext<H>>,
        source: PageSource,
        parent: Option<Rc<Chain>>,
    ) -> Walk<H> {
        let settings = &context.settings;
        let style = Style {
            error_text: settings.error_text.clone(),
            undefined_text: settings.undefined_text.clone(),
            time_format: settings.time_format.clone(),
            sizes_in_bytes: false,
        };
        let chain = Rc::new(Chain::new(&source, parent));
        Walk {
            context,
            source,
            chain,
            style,
            concurrent: true,
            captures: Captures::default(),
            flow: Flow::new(),
        }
    }

    /// A walk over a block, with the same style.
    pub(super) fn of_block(&self, block: &Block) -> Walk<H> {
        Walk {
            context: self.context.clone(),
            source: block.source.clone(),
            chain: self.chain.clone(),
            style: self.style.clone(),
            concurrent: self.concurrent,
            captures: Captures::default(),
            flow: Flow::new(),
        }
    }

    /// Walks over the whole page.
    pub(super) async fn page(&mut self, sink: &Sink) {
        let end = self.source.page.nodes.len();
        self.nodes(0..end, sink).await;
    }

    pub(super) async fn nodes(&mut self, range: Range<usize>, sink: &Sink) {
        let page = self.source.page.clone();
        let mut at = range.start;
        while at < range.end && !self.context.is_stopped() {
            let node = &page.nodes[at];
            at += 1;
            match node {
                Node::Text(text) if self.flow.prints => self.context.write(sink, text.clone()),
                Node::Text(_) => {}
                Node::Directive(directive) => match &directive.command {
                    Command::Block { name, end } if self.flow.prints => {
                        let block = Block { source: self.source.clone(), nodes: at..*end };
                        self.context.blocks.borrow_mut().insert(name.clone(), block);
                        // The end of the block is skipped too.
                        at = end + 1;
                    }
                    Command::Include(include) if self.flow.prints => {
                        Box::pin(self.include(include, directive.line, sink)).await;
                    }
                    Command::Exec(items) if self.flow.prints => {
                        Box::pin(self.exec(items, directive.line, sink)).await;
                    }
                    _ => self.directive(directive, sink),
                },
            }
        }
    }

    /// Runs a directive that need not wait.
    fn directive(&mut self, directive: &Directive, sink: &Sink) {
        let line = directive.line;
        match &directive.command {
            Command::If(condition) => self.begin_condition(condition, line, sink),
            Command::ElseIf(condition) => self.else_if(condition, line, sink),
            Command::Else(broken) => self.otherwise(broken.as_deref(), line, sink),
            Command::EndIf(broken) => self.end_condition(broken.as_deref(), line, sink),
            _ if !self.flow.prints => {}
            Command::Config(items) => self.config(items, line, sink),
            Command::Echo(echo) => self.echo(echo, line, sink),
            Command::FileSize(items) => self.file_size(items, line, sink),
            Command::LastModified(items) => self.last_modified(items, line, sink),
            Command::PrintEnvironment => self.print_environment(sink),
            Command::Set(items) => self.set(items, line, sink),
            Command::Broken(message) => self.fail(line, message, sink),
            Command::Comment
            | Command::Block { .. }
            | Command::EndBlock
            | Command::Include(_)
            | Command::Exec(_) => {}
        }
    }

    /// Logs an error, and writes the error text in its place.
    pub(super) fn fail(&self, line: usize, message: &str, sink: &Sink) {
        self.context.report(&self.source, line, message);
        self.write_error_text(sink);
    }

    pub(super) fn write_error_text(&self, sink: &Sink) {
        self.context.write(sink, self.style.error_text.clone());
    }

    pub(super) fn report(&self, line: usize, message: &str) {
        self.context.report(&self.source, line, message);
    }

    pub(super) fn variable(&self, name: &[u8]) -> Option<Vec<u8>> {
        if let [digit @ b'0'..=b'9'] = name {
            return self.captures.group(usize::from(digit - b'0')).map(<[u8]>::to_vec);
        }
        let name = name.to_ascii_uppercase();
        if let Some(value) = self.context.set_variable(&name) {
            return Some(value);
        }
        match self.nginx_variable(&name) {
            Some(found) => found,
            None => self.context.given_variable(&name),
        }
    }

    /// Fills in a value; an error in it is logged, and the valid part is used.
    pub(super) fn fill(&self, template: &Template, line: usize) -> Vec<u8> {
        if let Some(problem) = &template.problem {
            self.report(line, problem);
        }
        template.fill(|name| self.variable(name))
    }

    // ---- output and variables

    fn config(&mut self, items: &[ConfigItem], line: usize, sink: &Sink) {
        for item in items {
            match item {
                ConfigItem::ErrorText(text) => self.style.error_text = self.fill(text, line).into(),
                ConfigItem::UndefinedText(text) => self.style.undefined_text = self.fill(text, line).into(),
                ConfigItem::TimeFormat(format) => {
                    self.style.time_format = self.fill(format, line).into();
                    self.context.set_date_format(self.style.time_format.clone());
                }
                ConfigItem::SizeFormat(format) => match self.fill(format, line).as_slice() {
                    b"bytes" => self.style.sizes_in_bytes = true,
                    b"abbrev" => self.style.sizes_in_bytes = false,
                    other => {
                        let other = String::from_utf8_lossy(other);
                        let message = format!("config sizefmt is bytes or abbrev, not {other:?}");
                        return self.fail(line, &message, sink);
                    }
                },
                ConfigItem::Broken(message) => return self.fail(line, message, sink),
            }
        }
    }

    fn echo(&mut self, echo: &Echo, line: usize, sink: &Sink) {
        let (mut decodings, mut encodings): (&[Coding], &[Coding]) = (&[], &[Coding::Entity]);
        let mut broken = None;
        for item in &echo.items {
            match item {
                EchoItem::Decoding(Ok(codings)) => decodings = codings,
                EchoItem::Encoding(Ok(codings)) => encodings = codings,
                EchoItem::Decoding(Err(message)) | EchoItem::Encoding(Err(message)) => broken = Some(message),
                EchoItem::Broken(message) => return self.fail(line, message, sink),
                EchoItem::Variable(name) => {
                    let name = self.fill(name, line);
                    let output = match (self.variable(&name), broken) {
                        (Some(_), Some(message)) => return self.fail(line, message, sink),
                        (Some(value), None) => recode(value, decodings, encodings).into(),
                        (None, _) => {
                            echo.default.clone().unwrap_or_else(|| self.style.undefined_text.clone())
                        }
                    };
                    self.context.write(sink, output);
                }
            }
        }
    }

    fn set(&mut self, items: &[SetItem], line: usize, sink: &Sink) {
        let (mut decodings, mut encodings): (&[Coding], &[Coding]) = (&[], &[]);
        let mut broken = None;
        let mut variable = None;
        for item in items {
            match item {
                SetItem::Variable(name) => variable = Some(self.fill(name, line)),
                SetItem::Decoding(Ok(codings)) => decodings = codings,
                SetItem::Encoding(Ok(codings)) => encodings = codings,
                SetItem::Decoding(Err(message)) | SetItem::Encoding(Err(message)) => broken = Some(message),
                SetItem::Broken(message) => return self.fail(line, message, sink),
                SetItem::Value(value) => {
                    let Some(name) = &variable else {
                        return self.fail(line, "set needs var before value", sink);
                    };
                    if let Some(message) = broken {
                        return self.fail(line, message, sink);
                    }
                    let value = recode(self.fill(value, line), decodings, encodings);
                    if let Err(message) = self.context.set(name, value) {
                        return self.fail(line, &message, sink);
                    }
                }
            }
        }
    }

    fn print_environment(&mut self, sink: &Sink) {
        let mut text = Vec::new();
        for (name, value) in self.context.all_variables() {
            for piece in [&escape_html(&name)[..], b"=", &escape_html(&value)[..], b"\n"] {
                text.extend_from_slice(piece);
            }
        }
        self.context.write(sink, text.into());
    }

    // ---- facts of files

    fn file_size(&mut self, items: &[FileItem], line: usize, sink: &Sink) {
        self.each_file(items, line, sink, |walk, facts| {
            let text = match walk.style.sizes_in_bytes {
                true => with_thousands_separators(&facts.size.to_string()),
                false => abbreviated(facts.size),
            };
            text.into_bytes()
        });
    }

    fn last_modified(&mut self, items: &[FileItem], line: usize, sink: &Sink) {
        self.each_file(items, line, sink, |walk, facts| {
            format_time(facts.modified_seconds, &walk.style.time_format, Zone::Local)
        });
    }

    fn each_file(
        &mut self,
        items: &[FileItem],
        line: usize,
        sink: &Sink,
        show: impl Fn(&Walk<H>, TargetFacts) -> Vec<u8>,
    ) {
        for item in items {
            let target = match item {
                FileItem::File(name) => self.file_target(name, line),
                FileItem::Virtual(path) => self.virtual_target(path, line, TargetKind::Virtual),
                FileItem::Broken(message) => return self.fail(line, message, sink),
            };
            match target.and_then(|target| self.context.host.facts(&target)) {
                Ok(facts) => {
                    self.context.note(facts.depends_on);
                    self.context.write(sink, show(self, facts).into());
                }
                Err(message) => return self.fail(line, &message, sink),
            }
        }
    }

    pub(super) fn file_target(&self, name: &Template, line: usize) -> Result<Target, String> {
        Target::of_file(&self.source.file_path, &self.fill(name, line))
    }

    pub(super) fn virtual_target(
        &self,
        path: &Template,
        line: usize,
        kind: TargetKind,
    ) -> Result<Target, String> {
        Target::of_virtual(&self.source.path, &self.fill(path, line), kind)
    }

    // ---- programs

    async fn exec(&mut self, items: &[ExecItem], line: usize, sink: &Sink) {
        if !self.context.settings.exec {
            return self.fail(line, "exec is not allowed here; includes.exec would allow it", sink);
        }
        for item in items {
            let output = match item {
                ExecItem::Broken(message) => return self.fail(line, message, sink),
                ExecItem::Command(command) => {
                    let command = command.command(|name| self.variable(name));
                    match self.context.count_include() {
                        Ok(()) => self.context.host.run(command, self.context.program_variables()).await,
                        Err(message) => Err(message),
                    }
                }
                ExecItem::Cgi(path) => match self.virtual_target(path, line, TargetKind::Cgi) {
                    Ok(mut target) => {
                        // As in Apache, a program without its own query gets the page's query.
                        target.query = target.query.or_else(|| self.context.document.query.clone());
                        self.fetch(target).await
                    }
                    Err(message) => Err(message),
                },
            };
            self.context.note(DependsOn::Request);
            match output {
                Ok(pieces) => pieces.into_iter().for_each(|piece| self.context.write(sink, piece)),
                Err(message) => return self.fail(line, &message, sink),
            }
        }
    }
}

impl<H: Host> Scope for Walk<H> {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        Walk::variable(self, name)
    }

    fn system_variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.context.host.system_variable(name)
    }

    fn request_field(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.context.note(DependsOn::Request);
        self.context.host.request_field(name)
    }

    fn now(&mut self) -> i64 {
        self.context.now()
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        self.context.note(DependsOn::Request);
        Target::of_virtual(&self.source.path, path, TargetKind::Virtual)
            .is_ok_and(|target| self.context.host.is_accessible(&target))
    }

    fn is_file(&mut self, path: &[u8]) -> bool {
        self.context.note(DependsOn::Request);
        self.context.host.is_file(path)
    }

    fn captures(&mut self) -> &mut Captures {
        &mut self.captures
    }

    fn set_variable(&mut self, name: &[u8], value: Vec<u8>) {
        // If there is no room for it, the old value stays; other directives report the problem.
        _ = self.context.set(name, value);
    }
}
