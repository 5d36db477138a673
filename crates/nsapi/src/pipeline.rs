//! Runs a request through the stages.
//!
//! This can be interrupted: if the next function must not run on a core, [`Pipeline`] keeps the position, and
//! a worker continues from there. AuthTrans and NameTrans run object by object, because NameTrans may add
//! objects. The other stages then use all objects: PathCheck begins with the first object, the others begin
//! with the one that was added last.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{
    ATTRIBUTE_RESTARTED, LOG_FAILURE, LOG_MISCONFIG, Pblock, REQ_ABORTED, REQ_EXIT, REQ_NOACTION,
    REQ_PROCEED, REQ_RESTART, REQ_TOOBUSY, Request, Session,
};
use crate::api::evaluate::{Evaluation, Groups};
use crate::api::session::session_dns_lookup;
use crate::conf::{Branch, Condition, Stage};
use crate::connection::RequestEnd;
use crate::directive::Directive;
use crate::engine::Engine;
use crate::pblock;
use crate::plugin_request::PluginRequest;

/// How often a request may be restarted.
const MOST_RESTARTS: usize = 16;

/// The position of a request in the stages.
pub struct Pipeline {
    phase: Phase,
    /// The objects that apply, as positions in the engine's list, in the order in which they were added.
    objects: Vec<usize>,
    /// The next of them for which AuthTrans and NameTrans will run.
    translated: usize,
    at_object: usize,
    at_directive: usize,
    has_path: bool,
    restarts: usize,
    /// The conditions that were evaluated: the condition, its result, and the matches of its regular
    /// expression.
    decisions: Vec<(*const Condition, bool, Groups)>,
    /// The action that the Service function has delegated to the server.
    pub delegated: Option<crate::connection::DelegatedRequest>,
    request_end: RequestEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begin,
    AuthTrans,
    NameTrans,
    PathCheck,
    ObjectType,
    Service,
    Error,
    AddLog,
    Done,
}

/// The thread on which the functions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadKind {
    /// A thread that must not wait.
    Core,
    /// A thread that may wait.
    Worker,
}

/// The next function must run on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsWorker;

/// The order in which a stage goes through the objects.
#[derive(Clone, Copy)]
struct ObjectOrder {
    stage: Stage,
    from_last: bool,
    /// The first function that acts ends the stage.
    first_only: bool,
}

impl Pipeline {
    /// Makes a pipeline at the beginning.
    pub fn new() -> Pipeline {
        Pipeline {
            phase: Phase::Begin,
            objects: Vec::new(),
            translated: 0,
            at_object: 0,
            at_directive: 0,
            has_path: false,
            restarts: 0,
            decisions: Vec::new(),
            delegated: None,
            request_end: RequestEnd::Answered,
        }
    }

    /// Goes back to the beginning, for another request.
    pub fn reset(&mut self) {
        self.phase = Phase::Begin;
        self.objects.clear();
        self.translated = 0;
        self.at_object = 0;
        self.at_directive = 0;
        self.has_path = false;
        self.restarts = 0;
        self.decisions.clear();
        self.delegated = None;
        self.request_end = RequestEnd::Answered;
    }
}

/// Continues a plug-in request, up to its end or to a function that must run on a worker.
///
/// # Safety
/// The thread has entered the plug-in request ([`enter`](crate::plugin_request::current::enter)), and a
/// connection is attached to it.
pub unsafe fn run(plugin_request: *mut PluginRequest, thread: ThreadKind) -> Result<RequestEnd, NeedsWorker> {
    let Some(engine) = (*plugin_request).engine.as_ref().map(Arc::as_ptr) else {
        return Ok(RequestEnd::Close);
    };
    let session = &raw mut (*plugin_request).session;
    let request = &raw mut (*plugin_request).request;
    // The plug-in request keeps its engine until another request begins.
    let mut stage_run = StageRun { engine: &*engine, plugin_request, session, request, thread };
    loop {
        match stage_run.step()? {
            Some(request_end) => return Ok(request_end),
            None => continue,
        }
    }
}

/// Runs one stage of a request for a plug-in, on the calling thread.
///
/// # Safety
/// As [`run`]; session and request must be valid.
pub unsafe fn run_stage(session: *mut Session, request: *mut Request, stage: Stage) -> c_int {
    let plugin_request = crate::plugin_request::of_session(session);
    if plugin_request.is_null() || (*request).os.is_null() {
        return REQ_ABORTED;
    }
    let Some(engine) = (*plugin_request).engine.clone() else { return REQ_ABORTED };
    let mut stage_run =
        StageRun { engine: &engine, plugin_request, session, request, thread: ThreadKind::Worker };
    let pipeline: *mut Pipeline = stage_run.pipeline();
    // The position of the current stage is kept, because the request may be the same.
    let (object, directive) = ((*pipeline).at_object, (*pipeline).at_directive);
    (*pipeline).at_object = 0;
    (*pipeline).at_directive = 0;
    let answer = match stage {
        Stage::NameTrans => {
            (*pipeline).phase = Phase::Begin;
            loop {
                match stage_run.translate() {
                    Ok(Some(answer)) => break answer,
                    Ok(None) => {}
                    Err(NeedsWorker) => break REQ_ABORTED,
                }
            }
        }
        Stage::PathCheck => stage_run.run_in_all(PATH_CHECK).unwrap_or(REQ_ABORTED),
        Stage::ObjectType => stage_run.run_in_all(OBJECT_TYPE).unwrap_or(REQ_ABORTED),
        _ => stage_run.run_in_all(SERVICE).unwrap_or(REQ_ABORTED),
    };
    (*pipeline).at_object = object;
    (*pipeline).at_directive = directive;
    answer
}

const PATH_CHECK: ObjectOrder = ObjectOrder { stage: Stage::PathCheck, from_last: false, first_only: false };
const OBJECT_TYPE: ObjectOrder = ObjectOrder { stage: Stage::ObjectType, from_last: true, first_only: false };
const SERVICE: ObjectOrder = ObjectOrder { stage: Stage::Service, from_last: true, first_only: true };
const ERROR: ObjectOrder = ObjectOrder { stage: Stage::Error, from_last: true, first_only: true };
const ADD_LOG: ObjectOrder = ObjectOrder { stage: Stage::AddLog, from_last: true, first_only: false };

struct StageRun<'a> {
    engine: &'a Engine,
    plugin_request: *mut PluginRequest,
    session: *mut Session,
    request: *mut Request,
    thread: ThreadKind,
}

impl StageRun<'_> {
    fn pipeline(&self) -> &mut Pipeline {
        // SAFETY: `os` of every request points to its pipeline, and no other reference to it is held
        // meanwhile.
        unsafe { &mut *(*self.request).os.cast::<Pipeline>() }
    }

    fn plugin_request(&self) -> &mut PluginRequest {
        // SAFETY: the thread has entered the plug-in request, and no other reference is held while this one
        // is used.
        unsafe { &mut *self.plugin_request }
    }

    fn vars(&self) -> *mut Pblock {
        // SAFETY: the request lives.
        unsafe { (*self.request).vars }
    }

    /// Runs one stage. Returns how the request ended if it was the last one.
    fn step(&mut self) -> Result<Option<RequestEnd>, NeedsWorker> {
        match self.pipeline().phase {
            Phase::Begin | Phase::AuthTrans | Phase::NameTrans => {
                if let Some(answer) = self.translate()? {
                    self.continue_with(answer, Phase::PathCheck);
                }
            }
            Phase::PathCheck => {
                let answer = self.run_in_all(PATH_CHECK)?;
                self.continue_with(answer, Phase::ObjectType);
            }
            Phase::ObjectType => {
                let answer = self.run_in_all(OBJECT_TYPE)?;
                self.continue_with(answer, Phase::Service);
            }
            Phase::Service => {
                let mut answer = self.run_in_all(SERVICE)?;
                if answer == REQ_NOACTION {
                    self.answer_without_service();
                    answer = REQ_ABORTED;
                }
                self.continue_with(answer, Phase::AddLog);
            }
            Phase::Error => {
                if self.run_in_all(ERROR)? != REQ_PROCEED
                    || !(self.plugin_request().has_written() || self.has_delegated())
                {
                    self.engine.send_error_page(self.plugin_request());
                }
                self.pipeline().phase = Phase::AddLog;
            }
            Phase::AddLog => {
                self.plugin_request().finish_raw();
                if !self.plugin_request().has_written()
                    && !self.has_delegated()
                    && self.pipeline().request_end == RequestEnd::Answered
                {
                    // If a Service function returns PROCEED and has sent nothing, the answer is empty.
                    self.plugin_request().start_response();
                }
                if self.has_any(Stage::AddLog) {
                    self.show_status();
                    self.run_in_all(ADD_LOG)?;
                }
                self.pipeline().phase = Phase::Done;
            }
            Phase::Done => return Ok(Some(self.request_end())),
        }
        Ok(None)
    }

    /// Whether an object of the request has a directive of a stage.
    fn has_any(&self, stage: Stage) -> bool {
        self.pipeline().objects.iter().any(|index| !self.engine.directives(*index, stage).is_empty())
    }

    /// Adds the status to the answer's fields if it is missing, because AddLog functions read it there.
    fn show_status(&mut self) {
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            if pblock::find((*self.request).srvhdrs, b"status").is_none() {
                let number = u16::try_from((*self.request).status_num).ok().filter(|number| *number >= 100);
                self.set_status(number.unwrap_or(200));
            }
        }
    }

    fn request_end(&mut self) -> RequestEnd {
        if let Some(delegated) = self.pipeline().delegated.take() {
            return RequestEnd::Delegated(delegated);
        }
        let request_end = self.pipeline().request_end.clone();
        if request_end == RequestEnd::Answered && !self.plugin_request().is_complete() {
            return RequestEnd::Close;
        }
        // Some plug-ins return REQ_EXIT after every answer. A complete answer is not broken off.
        if request_end == RequestEnd::Close && self.plugin_request().is_whole() {
            return RequestEnd::Answered;
        }
        request_end
    }

    fn has_delegated(&self) -> bool {
        self.pipeline().delegated.is_some()
    }

    /// Sets the next phase after a stage with this result.
    fn continue_with(&mut self, answer: c_int, next: Phase) {
        let has_written = self.plugin_request().has_written();
        let phase = match answer {
            REQ_PROCEED | REQ_NOACTION => next,
            REQ_EXIT => {
                self.pipeline().request_end = RequestEnd::Close;
                Phase::AddLog
            }
            REQ_RESTART if !has_written => self.restart(),
            REQ_TOOBUSY if !has_written => {
                self.set_status(503);
                Phase::Error
            }
            _ if has_written => {
                // The head was sent already, so the answer can only be broken off.
                self.pipeline().request_end = RequestEnd::Close;
                Phase::AddLog
            }
            _ => {
                // SAFETY: the request lives.
                if unsafe { (*self.request).status_num } < 300 {
                    self.set_status(500);
                }
                Phase::Error
            }
        };
        self.pipeline().phase = phase;
    }

    fn restart(&mut self) -> Phase {
        let restarts = self.pipeline().restarts + 1;
        if restarts > MOST_RESTARTS {
            self.engine.log(LOG_FAILURE, "a request was restarted too often: it is abandoned");
            self.set_status(500);
            return Phase::Error;
        }
        self.pipeline().reset();
        self.pipeline().restarts = restarts;
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            (*self.request).rq_attr |= ATTRIBUTE_RESTARTED;
            for name in [&b"path"[..], b"ppath", b"name", b"ntrans-base", b"path-info"] {
                pblock::remove_all(self.vars(), name);
            }
        }
        Phase::Begin
    }

    fn set_status(&mut self, status: u16) {
        // SAFETY: the request lives.
        unsafe { crate::api::protocol::set_status(&mut *self.request, status, &[]) };
    }

    /// Runs one step of AuthTrans and NameTrans: for one object, or before or after all objects. Returns a
    /// result when they are finished.
    fn translate(&mut self) -> Result<Option<c_int>, NeedsWorker> {
        match self.pipeline().phase {
            Phase::AuthTrans => {
                let answer = self.run_in_object(Stage::AuthTrans)?;
                if !matches!(answer, REQ_PROCEED | REQ_NOACTION) {
                    return Ok(Some(answer));
                }
                self.pipeline().phase = Phase::NameTrans;
                Ok(None)
            }
            Phase::NameTrans => {
                let answer = self.run_in_object(Stage::NameTrans)?;
                if !matches!(answer, REQ_PROCEED | REQ_NOACTION) {
                    return Ok(Some(answer));
                }
                self.pipeline().has_path |= answer == REQ_PROCEED;
                self.pipeline().translated += 1;
                if !self.add_objects() {
                    return Ok(Some(REQ_ABORTED));
                }
                Ok(self.next_object())
            }
            _ => {
                if let Some(index) = self.engine.only_object() {
                    self.find_path(index);
                    return Ok(Some(REQ_PROCEED));
                }
                // SAFETY: the request lives, and its blocks are valid.
                unsafe {
                    let uri = pblock::find((*self.request).reqpb, b"uri").unwrap_or(b"/");
                    pblock::set(self.vars(), b"ppath", uri);
                    pblock::set(self.vars(), b"name", self.engine.root_object());
                }
                let pipeline = self.pipeline();
                pipeline.objects.clear();
                pipeline.translated = 0;
                pipeline.has_path = false;
                if !self.add_objects() {
                    return Ok(Some(REQ_ABORTED));
                }
                Ok(self.next_object())
            }
        }
    }

    /// Sets the path if no function or pattern has set it: below the document root, if there is one.
    fn find_path(&mut self, only_object: usize) {
        let pipeline = self.pipeline();
        pipeline.objects.clear();
        pipeline.objects.push(only_object);
        let root = self.engine.document_root();
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            let vars = self.vars();
            let uri = pblock::find((*self.request).reqpb, b"uri").unwrap_or(b"/");
            if root.is_empty() || uri.first() != Some(&b'/') {
                pblock::set(vars, b"path", uri);
            } else {
                pblock::set(vars, b"ntrans-base", root);
                pblock::set(vars, b"path", &[root, uri].concat());
            }
        }
    }

    /// Goes to the next object, or to the step after the last one.
    fn next_object(&mut self) -> Option<c_int> {
        if self.pipeline().translated < self.pipeline().objects.len() {
            self.pipeline().phase = Phase::AuthTrans;
            return None;
        }
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            let vars = self.vars();
            let ppath = pblock::find(vars, b"ppath").unwrap_or_default();
            if !self.pipeline().has_path
                && ppath.first() == Some(&b'/')
                && !self.engine.document_root().is_empty()
            {
                self.pipeline().has_path = true;
                let path = [self.engine.document_root(), ppath].concat();
                pblock::set(vars, b"ntrans-base", self.engine.document_root());
                pblock::set(vars, b"ppath", &path);
                if !self.add_objects() {
                    return Some(REQ_ABORTED);
                }
                return self.next_object();
            }
            pblock::set(vars, b"path", ppath);
            pblock::remove_all(vars, b"ppath");
        }
        Some(REQ_PROCEED)
    }

    /// Adds the objects for the variables `name` and `ppath`, and removes `name`.
    fn add_objects(&mut self) -> bool {
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            let vars = self.vars();
            while let Some(name) = pblock::find(vars, b"name") {
                let Some(index) = self.engine.object_of_name(name) else {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.engine.log(LOG_MISCONFIG, &format!("<Object name={name:?}> does not exist"));
                    self.set_status(500);
                    return false;
                };
                let first = pblock::find_param(vars, b"name");
                let taken = pblock::pblock_fr(c"name".as_ptr(), vars, 1);
                debug_assert_eq!(first, taken);
                pblock::param_free(taken);
                self.add_object(index);
            }
            let ppath = pblock::find(vars, b"ppath").unwrap_or_default();
            for index in self.engine.objects_of_path(ppath) {
                self.add_object(index);
            }
        }
        true
    }

    fn add_object(&mut self, index: usize) {
        let objects = &mut self.pipeline().objects;
        if !objects.contains(&index) {
            objects.push(index);
        }
    }

    /// Runs the directives of a stage in the object that is being translated, up to the first one that acts.
    fn run_in_object(&mut self, stage: Stage) -> Result<c_int, NeedsWorker> {
        let index = self.pipeline().objects[self.pipeline().translated];
        let directives = self.engine.directives(index, stage);
        while let Some(directive) = directives.get(self.pipeline().at_directive) {
            let answer = self.apply(directive)?;
            self.pipeline().at_directive += 1;
            if answer != REQ_NOACTION {
                self.pipeline().at_directive = 0;
                return Ok(answer);
            }
        }
        self.pipeline().at_directive = 0;
        Ok(REQ_NOACTION)
    }

    /// Runs the directives of a stage in all objects.
    fn run_in_all(&mut self, order: ObjectOrder) -> Result<c_int, NeedsWorker> {
        let count = self.pipeline().objects.len();
        let mut answer = if order.first_only { REQ_NOACTION } else { REQ_PROCEED };
        'objects: while self.pipeline().at_object < count {
            let at = self.pipeline().at_object;
            let index = self.pipeline().objects[if order.from_last { count - 1 - at } else { at }];
            let directives = self.engine.directives(index, order.stage);
            while let Some(directive) = directives.get(self.pipeline().at_directive) {
                let given = self.apply(directive)?;
                self.pipeline().at_directive += 1;
                if given != REQ_NOACTION && (order.first_only || given != REQ_PROCEED) {
                    answer = given;
                    break 'objects;
                }
            }
            self.pipeline().at_object += 1;
            self.pipeline().at_directive = 0;
        }
        self.pipeline().at_object = 0;
        self.pipeline().at_directive = 0;
        Ok(answer)
    }

    /// Calls the function of a directive, if the directive applies to the request.
    fn apply(&mut self, directive: &Directive) -> Result<c_int, NeedsWorker> {
        // SAFETY: session and request are those of the plug-in request, or of a request made from it.
        unsafe {
            if !directive.applies(self.session, self.request, session_dns_lookup) {
                return Ok(REQ_NOACTION);
            }
            let branch = directive.branch();
            match branch.map_or(Ok(true), |branch| self.takes(branch)) {
                Ok(true) => {}
                Ok(false) => return Ok(REQ_NOACTION),
                Err(message) => return Ok(self.cannot_evaluate(&message)),
            }
            let function = directive.function();
            let function_request = &raw mut self.plugin_request().request;
            if self.thread == ThreadKind::Core && !function.runs_on_core(function_request) {
                return Err(NeedsWorker);
            }
            if self.thread == ThreadKind::Worker {
                self.plugin_request().begin_function(function);
            }
            let block = directive.block(|templates, parameters| {
                let condition = branch.and_then(|branch| branch.condition.as_ref());
                let known = condition.and_then(|condition| self.decision(Arc::as_ptr(condition)));
                let groups = known.map(|(_, groups)| groups).unwrap_or_default();
                let mut evaluation = Evaluation::new(self.session, self.request, groups);
                templates.iter().try_for_each(|(at, template)| {
                    parameters[*at].1 = evaluation.text(template)?;
                    Ok::<(), String>(())
                })
            });
            match block {
                Ok(block) => Ok(function.call(block, self.session, self.request)),
                Err(message) => Ok(self.cannot_evaluate(&message)),
            }
        }
    }

    /// Whether the directives of an `<If>`, `<ElseIf>` or `<Else>` apply to this request.
    fn takes(&mut self, branch: &Branch) -> Result<bool, String> {
        if let Some(parent) = &branch.parent
            && !self.takes(parent)?
        {
            return Ok(false);
        }
        for condition in &branch.earlier {
            if self.holds(condition)? {
                return Ok(false);
            }
        }
        branch.condition.as_ref().map_or(Ok(true), |condition| self.holds(condition))
    }

    /// Whether a condition is true. It is evaluated once per request.
    fn holds(&mut self, condition: &Arc<Condition>) -> Result<bool, String> {
        let key = Arc::as_ptr(condition);
        if let Some((holds, _)) = self.decision(key) {
            return Ok(holds);
        }
        // SAFETY: session and request are those of the plug-in request, or of a request made from it.
        let mut evaluation = unsafe { Evaluation::new(self.session, self.request, Groups::default()) };
        let holds = evaluation
            .is_true(&condition.expression)
            .map_err(|message| format!("{}: {message}", condition.location))?;
        self.pipeline().decisions.push((key, holds, evaluation.into_groups()));
        Ok(holds)
    }

    fn decision(&self, key: *const Condition) -> Option<(bool, Groups)> {
        let decisions = &self.pipeline().decisions;
        decisions.iter().find(|(known, ..)| *known == key).map(|(_, holds, groups)| (*holds, groups.clone()))
    }

    /// Called when a condition cannot be evaluated. The request fails, because the condition may restrict
    /// access.
    fn cannot_evaluate(&mut self, message: &str) -> c_int {
        self.engine.log(LOG_MISCONFIG, message);
        self.set_status(500);
        REQ_ABORTED
    }

    /// Answers a request without a Service directive: 405 if another method has one, otherwise 501 or 404.
    fn answer_without_service(&mut self) {
        let mut allowed: Vec<&[u8]> = Vec::new();
        for index in self.pipeline().objects.clone() {
            for directive in self.engine.directives(index, Stage::Service) {
                let is_taken = directive.branch().is_none_or(|branch| self.takes(branch).unwrap_or_default());
                let (session, request) = (self.session, self.request);
                // SAFETY: session and request live.
                let applies =
                    || unsafe { directive.applies_but_for_method(session, request, session_dns_lookup) };
                if is_taken && applies() {
                    for method in [&b"GET"[..], b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"] {
                        if directive.takes_method(method) && !allowed.contains(&method) {
                            allowed.push(method);
                        }
                    }
                }
            }
        }
        // SAFETY: the request lives, and its blocks are valid.
        unsafe {
            if allowed.is_empty() {
                self.set_status(if (*self.request).method_num < 0 { 501 } else { 404 });
            } else {
                self.set_status(405);
                pblock::set((*self.request).srvhdrs, b"allow", &allowed.join(&b", "[..]));
            }
        }
    }
}
