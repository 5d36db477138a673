//! The state that a page and its inclusions share while they are evaluated: the variables, the blocks, the
//! limits, and what the output depends on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::sink::Sink;
use crate::encoding::{Coding, escape_shell};
use crate::host::{DependsOn, Host, PageSource, Problem};
use crate::settings::{Grammar, Settings};
use crate::template::Variable;
use crate::time_format::{Zone, format_time};

/// One inclusion that runs in parallel to the page.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The most variables that one request may set, and their bytes, so that a page cannot fill the memory.
const MOST_VARIABLES: usize = 1000;
const MOST_VARIABLE_BYTES: usize = 1024 * 1024;

pub(super) struct RenderContext<H> {
    pub(super) host: Rc<H>,
    pub(super) settings: Arc<Settings>,
    /// The requested page.
    pub(super) document: PageSource,
    now: i64,
    /// By name in upper case, because names are not case-sensitive.
    variables: RefCell<FxHashMap<Vec<u8>, Variable>>,
    variable_bytes: Cell<usize>,
    /// The format of `DATE_LOCAL` and similar variables: the last one that a page has set.
    date_format: RefCell<Bytes>,
    /// Blocks by their name.
    pub(super) blocks: RefCell<FxHashMap<Box<[u8]>, Block>>,
    depends_on: Cell<DependsOn>,
    includes: Cell<usize>,
    output_bytes_left: Cell<u64>,
    stopped: Cell<bool>,
    /// Inclusions that the evaluation has added and the [`Rendering`](super::Rendering) does not run yet.
    pub(super) tasks: RefCell<VecDeque<Task>>,
}

/// Where a block's nodes are.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) source: PageSource,
    pub(super) nodes: std::ops::Range<usize>,
}

impl<H: Host> RenderContext<H> {
    pub(super) fn new(
        host: Rc<H>,
        settings: Arc<Settings>,
        document: PageSource,
        now: i64,
    ) -> RenderContext<H> {
        RenderContext {
            date_format: RefCell::new(settings.time_format.clone()),
            output_bytes_left: Cell::new(settings.most_output_bytes),
            host,
            settings,
            document,
            now,
            variables: RefCell::default(),
            variable_bytes: Cell::new(0),
            blocks: RefCell::default(),
            depends_on: Cell::new(DependsOn::Nothing),
            includes: Cell::new(0),
            stopped: Cell::new(false),
            tasks: RefCell::default(),
        }
    }

    pub(super) fn depends_on(&self) -> DependsOn {
        self.depends_on.get()
    }

    pub(super) fn note(&self, depends_on: DependsOn) {
        self.depends_on.set(self.depends_on.get().max(depends_on));
    }

    /// The current time. From now on the output depends on the time.
    pub(super) fn now(&self) -> i64 {
        self.note(DependsOn::Second);
        self.now
    }

    pub(super) fn report(&self, source: &PageSource, line: usize, message: &str) {
        self.host.report(Problem { file_path: &source.file_path, line, message });
    }

    /// True once the output has reached its greatest length.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Writes bytes, unless the output would become too long. The first time that this happens, the output
    /// ends with the error text.
    pub(super) fn write(&self, sink: &Sink, bytes: Bytes) {
        if self.stopped.get() {
            return;
        }
        match self.output_bytes_left.get().checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.output_bytes_left.set(left);
                sink.push(bytes);
            }
            None => {
                self.stopped.set(true);
                let message = format!("the output is longer than {} bytes", self.settings.most_output_bytes);
                self.report(&self.document, 0, &message);
                sink.push(self.settings.error_text.clone());
            }
        }
    }

    /// Counts one inclusion. Returns an error if there are too many.
    pub(super) fn count_include(&self) -> Result<(), String> {
        let count = self.includes.get() + 1;
        self.includes.set(count);
        if count > self.settings.most_includes {
            return Err(format!("there are more than {} inclusions", self.settings.most_includes));
        }
        Ok(())
    }

    pub(super) fn set_date_format(&self, format: Bytes) {
        let mut variables = self.variables.borrow_mut();
        for name in ["DATE_LOCAL", "DATE_GMT", "LAST_MODIFIED"] {
            if let Some(removed) = variables.remove(name.as_bytes()) {
                self.variable_bytes.set(self.variable_bytes.get() - bytes_of(&removed));
            }
        }
        *self.date_format.borrow_mut() = format;
    }

    /// Sets a variable. Returns an error if there is no room for it.
    pub(super) fn set(&self, name: &[u8], value: Vec<u8>) -> Result<(), String> {
        let (key, variable) = (name.to_ascii_uppercase(), (name.to_vec(), value));
        let mut variables = self.variables.borrow_mut();
        let replaced = variables.get(&key).map(bytes_of);
        let bytes = self.variable_bytes.get() - replaced.unwrap_or(0) + bytes_of(&variable);
        if replaced.is_none() && variables.len() >= MOST_VARIABLES || bytes > MOST_VARIABLE_BYTES {
            return Err(format!(
                "variables take more than {MOST_VARIABLE_BYTES} bytes or are more than {MOST_VARIABLES}"
            ));
        }
        self.variable_bytes.set(bytes);
        variables.insert(key, variable);
        Ok(())
    }

    /// The value of a variable that a page has set. Here and below, names are in upper case.
    pub(super) fn set_variable(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.variables.borrow().get(name).map(|(_, value)| value.clone())
    }

    /// The value of a variable of every page, or of the request.
    pub(super) fn given_variable(&self, name: &[u8]) -> Option<Vec<u8>> {
        let document = &self.document;
        match name {
            b"DATE_LOCAL" => Some(self.format_date(self.now(), Zone::Local)),
            b"DATE_GMT" => Some(self.format_date(self.now(), Zone::Gmt)),
            b"LAST_MODIFIED" => Some(self.format_date(document.modified_seconds, Zone::Local)),
            b"DOCUMENT_URI" => Some(document.path.clone()),
            b"DOCUMENT_NAME" => Some(file_name(&document.file_path).to_vec()),
            b"USER_NAME" => {
                Some(self.host.user_name(document.owner).unwrap_or_else(|| b"<unknown>".to_vec()))
            }
            b"DOCUMENT_ARGS" => {
                self.note(DependsOn::Request);
                Some(document.query.clone().unwrap_or_default())
            }
            b"QUERY_STRING_UNESCAPED" => {
                self.note(DependsOn::Request);
                document.query.as_deref().map(unescaped_query)
            }
            _ => {
                let name = std::str::from_utf8(name).ok()?;
                if self.host.may_define(name) {
                    self.note(DependsOn::Request);
                }
                self.host.variable(name)
            }
        }
    }

    fn format_date(&self, unix_seconds: i64, zone: Zone) -> Vec<u8> {
        format_time(unix_seconds, &self.date_format.borrow(), zone)
    }

    /// The variables that programs get: those that pages have set, and those of the requested page.
    pub(super) fn program_variables(&self) -> Vec<Variable> {
        let document = &self.document;
        let own = [
            (&b"DOCUMENT_ARGS"[..], document.query.as_deref().unwrap_or_default()),
            (b"DOCUMENT_NAME", file_name(&document.file_path)),
            (b"DOCUMENT_URI", &document.path),
        ];
        let set = self.set_variables();
        let is_own = |name: &[u8]| !set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        let own = own.iter().filter(|(name, _)| is_own(name));
        let mut variables: Vec<Variable> = own.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        variables.extend(set);
        variables
    }

    /// The variables that pages have set.
    fn set_variables(&self) -> Vec<Variable> {
        let mut variables: Vec<Variable> = self.variables.borrow().values().cloned().collect();
        variables.sort();
        variables
    }

    /// All variables, in the order of their names.
    pub(super) fn all_variables(&self) -> Vec<Variable> {
        self.note(DependsOn::Request);
        let mut all = self.host.variables();
        let own = [
            "DATE_GMT",
            "DATE_LOCAL",
            "DOCUMENT_ARGS",
            "DOCUMENT_NAME",
            "DOCUMENT_URI",
            "LAST_MODIFIED",
            "QUERY_STRING_UNESCAPED",
            "USER_NAME",
        ];
        all.extend(own.iter().filter_map(|name| {
            let name = name.as_bytes();
            Some((name.to_vec(), self.set_variable(name).or_else(|| self.given_variable(name))?))
        }));
        let set = self.set_variables();
        all.retain(|(name, _)| !set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name)));
        all.extend(set);
        all.sort();
        all
    }

    /// Replaces the query variables by those of an included page that has its own query.
    pub(super) fn enter(&self, source: &PageSource) {
        if let Some(query) = source.query.as_ref().filter(|_| self.settings.grammar != Grammar::Nginx) {
            // If there is no room for them, the old values stay.
            _ = self.set(b"QUERY_STRING", query.clone());
            _ = self.set(b"QUERY_STRING_UNESCAPED", unescaped_query(query));
        }
    }
}

fn unescaped_query(query: &[u8]) -> Vec<u8> {
    escape_shell(&Coding::Url.decode(query))
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The number of bytes that count for a variable.
fn bytes_of((name, value): &Variable) -> usize {
    name.len() + value.len()
}
