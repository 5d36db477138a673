//! Requests to the control API, from who sends them to their answers.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_accelerator::purge::PurgeOrder;
use touchstone_config::{Config, ConfigPlaces, ConfigProblem, ControlConfig, Persistence};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::{ControlCounts, ControlResult, Metrics};
use touchstone_observe::request_id::RequestIds;
use touchstone_proxy::OriginGroups;
use touchstone_tls::private_file;

use crate::audit::{AuditLog, now};
use crate::base::Base;
use crate::call::{Call, CallAnswer, Failure};
use crate::certificates;
use crate::effective::{Effective, Opened, set_conflicts_aside};
use crate::keyed_hash::HashKey;
use crate::overlay::{OriginName, OriginOrder, Overlay};
use crate::place::Place;
use crate::secrets;
use crate::tokens::{Identity, Right};

/// The most changes that are remembered.
const MOST_HISTORY: usize = 200;

/// The subject of a change of everything.
pub(crate) const EVERYTHING: &str = "everything";

/// The server that is controlled.
pub trait Host {
    /// What this machine lacks for a configuration, as `touchstone check` says it.
    fn check(&self, config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem>;

    /// Puts a configuration in force, as a reload does, with these orders for its origins. `commit` is called
    /// when everything is prepared that may fail; if it fails, nothing changes.
    fn apply(
        &mut self,
        config: Config,
        orders: &BTreeMap<OriginName, OriginOrder>,
        commit: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String>;

    /// Removes stored responses; `None`: no route has a cache.
    fn purge(&self, order: &PurgeOrder) -> Option<usize>;

    /// The file of a certificate by ACME.
    fn acme_file(&self, config: &Config, hosts: &[String]) -> PathBuf;

    /// Why nothing can be changed at the moment.
    fn busy(&self) -> Option<String>;
}

/// The control API of a running server.
pub struct ControlApi {
    pub(crate) base: Base,
    pub(crate) overlay: Overlay,
    pub(crate) effective: Effective,
    pub(crate) key: HashKey,
    pub(crate) history: VecDeque<Value>,
    error_log: ErrorLog,
    audit: AuditLog,
    ids: RequestIds,
    counts: Arc<ControlCounts>,
    /// The origins of the server.
    pub(crate) origins: Arc<OriginGroups>,
}

/// What a request has changed, for the audit log.
#[derive(Default)]
pub(crate) struct ChangeNote {
    /// What it is about, as in `site shop.example`.
    pub(crate) subjects: Vec<String>,
    /// The differences.
    pub(crate) changes: Vec<Value>,
}

impl ControlApi {
    /// The API over a configuration that is in force.
    pub fn new(opened: Opened, error_log: ErrorLog, metrics: &Metrics) -> Result<ControlApi, String> {
        let control = &opened.effective.config.control;
        let audit = AuditLog::open(control.audit_log.as_deref(), error_log.clone())?;
        let counts = metrics.control().clone();
        counts.set_used();
        let mut api = ControlApi {
            base: opened.base,
            overlay: opened.overlay,
            effective: opened.effective,
            key: HashKey::new(),
            history: VecDeque::new(),
            error_log,
            audit,
            ids: RequestIds::new(),
            counts,
            origins: metrics.origins().clone(),
        };
        if let Some(directory) = api.directory() {
            // This process is the only writer from now on.
            private_file::remove_unfinished(&Overlay::file(&directory));
        }
        api.keep(&opened.conflicts);
        Ok(api)
    }

    /// What operators want of origins.
    pub fn orders(&self) -> &BTreeMap<OriginName, OriginOrder> {
        &self.overlay.origins
    }

    /// A reload has put the files in force. Returns what it has dropped.
    pub fn reloaded(&mut self, opened: Opened) -> Result<Vec<String>, String> {
        let persistence = [self.control().persist, opened.effective.config.control.persist];
        let dropped: Vec<String> = match persistence.contains(&Persistence::None) {
            true => {
                let dropped =
                    |change: String| format!("the reload drops a change of the control API: {change}");
                self.overlay.summary().into_iter().map(dropped).collect()
            }
            false => Vec::new(),
        };
        let control = &opened.effective.config.control;
        if control.audit_log != self.control().audit_log {
            self.audit = AuditLog::open(control.audit_log.as_deref(), self.error_log.clone())?;
        }
        let is_same = self.effective.document == opened.effective.document;
        (self.base, self.overlay, self.effective) = (opened.base, opened.overlay, opened.effective);
        if !is_same {
            self.remember(json!({
                "time": now(), "who": "reload", "result": "applied", "subjects": [EVERYTHING],
            }));
        }
        self.keep(&opened.conflicts);
        self.remove_unused_certificates();
        Ok(dropped)
    }

    /// What changes until the next reload, for a process that ends.
    pub fn lost_at_end(&self) -> Vec<String> {
        match self.control().persist {
            Persistence::None => self.overlay.summary(),
            Persistence::File => Vec::new(),
        }
    }

    /// Opens the audit log again, after a rotation.
    pub fn reopen_log(&mut self) -> Result<(), String> {
        self.audit.reopen()
    }

    /// Carries out a request, and writes the audit log.
    pub fn handle(&mut self, call: &Call, host: &mut dyn Host) -> CallAnswer {
        let id = self.request_id(call);
        let mut note = ChangeNote::default();
        let result = self.carry_out(call, host, &mut note);
        let mut answer = result.unwrap_or_else(|failure| failure.answer());
        if !call.method.is_safe() {
            self.record(call, &id, &answer, note);
        }
        answer.fields.push(("X-Request-Id", id));
        answer
    }

    fn carry_out(
        &mut self,
        call: &Call,
        host: &mut dyn Host,
        note: &mut ChangeNote,
    ) -> Result<CallAnswer, Failure> {
        let identity = call.caller.clone()?;
        if call.fields.from_browser {
            return Err(Failure::new(
                403,
                "the control API is not for browsers: a request must not have Origin, Cookie or \
                 Sec-Fetch-Site",
            ));
        }
        let place = Place::parse(&call.path)?;
        place.allows(call.method)?;
        if call.method.is_safe() {
            return self.read(&place, call, host);
        }
        if identity.right != Right::Change {
            return Err(Failure::new(403, format!("'{}' may read only", identity.name)));
        }
        let body = self.body(call)?;
        if let Some(reason) = host.busy() {
            return Err(Failure::new(503, reason));
        }
        self.change(&place, call, body, &identity, host, note)
    }

    /// The body, in which texts in place of secrets are the secrets again; null for DELETE.
    fn body(&self, call: &Call) -> Result<Value, Failure> {
        let bytes = call.body.clone()?;
        if call.method == crate::call::CallMethod::Delete {
            return match bytes.is_empty() {
                true => Ok(Value::Null),
                false => Err(Failure::new(400, "DELETE has no body")),
            };
        }
        let media_type = call.fields.content_type.as_deref().unwrap_or_default();
        let normal = media_type.to_ascii_lowercase().replace(' ', "");
        if !["application/json", "application/json;charset=utf-8"].contains(&normal.as_str()) {
            return Err(Failure::new(415, "the body must have Content-Type: application/json"));
        }
        let mut body: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::new(400, format!("the body is not JSON: {error}")))?;
        let known = Value::Object(self.effective.document.clone());
        secrets::restore(&mut body, &known, &self.key).map_err(|problem| Failure::new(422, problem))?;
        Ok(body)
    }

    /// The request's own id if it has the form of one, or a new one.
    fn request_id(&mut self, call: &Call) -> String {
        let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(&byte);
        match &call.fields.request_id {
            Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(is_id_byte) => id.clone(),
            _ => String::from_utf8_lossy(&self.ids.next_uuid()).into_owned(),
        }
    }

    /// Writes what became of a change into the audit log.
    fn record(&mut self, call: &Call, id: &str, answer: &CallAnswer, note: ChangeNote) {
        let (word, result) = match answer.status {
            200..=299 => ("applied", ControlResult::Applied),
            401 | 403 => ("denied", ControlResult::Denied),
            409 | 412 | 428 => ("conflict", ControlResult::Conflict),
            _ => ("refused", ControlResult::Refused),
        };
        self.counts.count(result);
        let mut record = json!({
            "time": now(),
            "request_id": id,
            "who": call.caller.as_ref().map_or("-", |identity| identity.name.as_str()),
            "address": call.address,
            "method": call.method.word(),
            "path": call.path,
            "subjects": note.subjects,
            "result": word,
            "status": answer.status,
        });
        if word == "applied" {
            record["changes"] = note.changes.into();
        } else {
            for name in ["error", "problems"] {
                if !answer.body[name].is_null() {
                    record[name] = answer.body[name].clone();
                }
            }
        }
        match call.caller.is_ok() {
            true => {
                self.audit.write(&record);
                self.remember(record);
            }
            false => self.audit.write_of_unknown(record),
        }
    }

    fn remember(&mut self, record: Value) {
        self.history.push_back(record);
        if self.history.len() > MOST_HISTORY {
            self.history.pop_front();
        }
    }

    /// The last change of a subject that was made.
    pub(crate) fn last_change(&self, subject: &str) -> Option<&Value> {
        let is_about = |record: &&Value| {
            let subjects = record["subjects"].as_array().map_or(&[][..], Vec::as_slice);
            record["result"] == "applied"
                && subjects
                    .iter()
                    .any(|known| known == subject || known == EVERYTHING || subject == EVERYTHING)
        };
        self.history.iter().rev().find(is_about)
    }

    /// `[control]`
    pub(crate) fn control(&self) -> &ControlConfig {
        &self.effective.config.control
    }

    /// Where changes are kept; `None`: they are not kept.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        let control = self.control();
        control.directory.clone().filter(|_| control.persist == Persistence::File)
    }

    /// Says conflicts, and keeps what was set aside.
    fn keep(&mut self, conflicts: &[String]) {
        if conflicts.is_empty() {
            return;
        }
        conflicts.iter().for_each(|conflict| self.error_log.warning(format_args!("control: {conflict}")));
        if let Some(Err(problem)) = self.directory().map(|directory| self.overlay.write(&directory)) {
            self.error_log.error(format_args!("control: {problem}"));
        }
    }

    /// A new overlay counts from now on; changes over a text that the files no longer have are set aside.
    pub(crate) fn in_force(&mut self, overlay: Overlay, effective: Effective) {
        (self.overlay, self.effective) = (overlay, effective);
        debug_assert!(set_conflicts_aside(&self.base, &mut self.overlay.clone()).is_empty());
        self.remove_unused_certificates();
    }

    fn remove_unused_certificates(&self) {
        if let Some(directory) = &self.control().directory {
            let document = Value::Object(self.effective.document.clone()).to_string();
            certificates::remove_unused(directory, &[document, self.overlay.to_json().to_string()]);
        }
    }

    /// A value without its secrets.
    pub(crate) fn hidden(&self, value: &Value) -> Value {
        secrets::hidden(value, &self.key)
    }

    /// The note about a client in a change.
    pub(crate) fn stamp(identity: &Identity) -> (String, String) {
        (identity.name.clone(), now())
    }
}
