//! Executes requests to the control API: checks the client, reads or changes, and writes the audit log.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_config::{Config, ConfigPlaces, ConfigProblem, ControlConfig, Persistence};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::{ControlCounts, ControlResult, Metrics};
use touchstone_observe::request_id::RequestIds;
use touchstone_proxy::OriginGroups;
use touchstone_tls::private_file;

use crate::audit::{AuditLog, now};
use crate::base::Base;
use crate::certificates;
use crate::effective::{EffectiveConfig, LoadedConfig, set_conflicts_aside};
use crate::keyed_hash::HashKey;
use crate::overlay::{OriginName, OriginOverride, Overlay};
use crate::request::{ControlError, ControlRequest, ControlResponse};
use crate::resource::Resource;
use crate::secrets;
use crate::tokens::{Identity, Right};

/// The maximum number of changes in the history.
const MOST_HISTORY: usize = 200;

/// The subject of a change of the whole configuration.
pub(crate) const EVERYTHING: &str = "everything";

/// The server that the control API reads and changes.
pub trait ControlledServer {
    /// Checks a configuration on this machine, as `touchstone check` does.
    fn check(&self, config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem>;

    /// Applies a configuration, as a reload does, with these overrides for its origins. Calls `commit` after
    /// all preparations that can fail; if `commit` fails, nothing changes.
    fn apply(
        &mut self,
        config: Config,
        overrides: &BTreeMap<OriginName, OriginOverride>,
        commit: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String>;

    /// Removes stored responses; `None`: no route has a cache.
    fn purge(&self, order: &PurgeRequest) -> Option<usize>;

    /// The file of a certificate that ACME obtains.
    fn acme_file(&self, config: &Config, hosts: &[String]) -> PathBuf;

    /// The reason why the server can change nothing at present, if there is one.
    fn busy(&self) -> Option<String>;
}

/// The control API of a running server.
pub struct ControlApi {
    pub(crate) base: Base,
    pub(crate) overlay: Overlay,
    pub(crate) effective: EffectiveConfig,
    pub(crate) key: HashKey,
    pub(crate) history: VecDeque<Value>,
    error_log: ErrorLog,
    audit: AuditLog,
    ids: RequestIds,
    counts: Arc<ControlCounts>,
    /// The origins of the server.
    pub(crate) origins: Arc<OriginGroups>,
}

/// The changes that a request made, for the audit log.
#[derive(Default)]
pub(crate) struct ChangeNote {
    /// The changed sites and sections, for example `site shop.example`.
    pub(crate) subjects: Vec<String>,
    /// The differences.
    pub(crate) changes: Vec<Value>,
}

impl ControlApi {
    /// Opens the API for the applied configuration.
    pub fn new(opened: LoadedConfig, error_log: ErrorLog, metrics: &Metrics) -> Result<ControlApi, String> {
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
        api.report_conflicts(&opened.conflicts);
        Ok(api)
    }

    /// The states and weights of origins that operators have set.
    pub fn origin_overrides(&self) -> &BTreeMap<OriginName, OriginOverride> {
        &self.overlay.origins
    }

    /// Replaces the configuration after a reload has applied the files. Returns the changes that are lost.
    pub fn reloaded(&mut self, opened: LoadedConfig) -> Result<Vec<String>, String> {
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
            self.add_to_history(json!({
                "time": now(), "who": "reload", "result": "applied", "subjects": [EVERYTHING],
            }));
        }
        self.report_conflicts(&opened.conflicts);
        self.remove_unused_certificates();
        Ok(dropped)
    }

    /// The changes that are lost when this process ends.
    pub fn unsaved_changes(&self) -> Vec<String> {
        match self.control().persist {
            Persistence::None => self.overlay.summary(),
            Persistence::File => Vec::new(),
        }
    }

    /// Opens the audit log again, after a rotation.
    pub fn reopen_log(&mut self) -> Result<(), String> {
        self.audit.reopen()
    }

    /// Executes a request, and writes the audit log.
    pub fn handle(&mut self, request: &ControlRequest, server: &mut dyn ControlledServer) -> ControlResponse {
        let id = self.request_id(request);
        let mut note = ChangeNote::default();
        let result = self.execute(request, server, &mut note);
        let mut answer = result.unwrap_or_else(|error| error.response());
        if !request.method.is_safe() {
            self.record(request, &id, &answer, note);
        }
        answer.fields.push(("X-Request-Id", id));
        answer
    }

    fn execute(
        &mut self,
        request: &ControlRequest,
        server: &mut dyn ControlledServer,
        note: &mut ChangeNote,
    ) -> Result<ControlResponse, ControlError> {
        let identity = request.caller.clone()?;
        if request.fields.from_browser {
            return Err(ControlError::new(
                403,
                "the control API is not for browsers: a request must not have Origin, Cookie or \
                 Sec-Fetch-Site",
            ));
        }
        let resource = Resource::parse(&request.path)?;
        resource.allows(request.method)?;
        if request.method.is_safe() {
            return self.read(&resource, request, server);
        }
        if identity.right != Right::Change {
            return Err(ControlError::new(403, format!("'{}' may read only", identity.name)));
        }
        let body = self.body(request)?;
        if let Some(reason) = server.busy() {
            return Err(ControlError::new(503, reason));
        }
        self.change(&resource, request, body, &identity, server, note)
    }

    /// The body, in which the placeholders are replaced by the secrets; null for DELETE.
    fn body(&self, request: &ControlRequest) -> Result<Value, ControlError> {
        let bytes = request.body.clone()?;
        if request.method == crate::request::ControlMethod::Delete {
            return match bytes.is_empty() {
                true => Ok(Value::Null),
                false => Err(ControlError::new(400, "DELETE has no body")),
            };
        }
        let media_type = request.fields.content_type.as_deref().unwrap_or_default();
        let normal = media_type.to_ascii_lowercase().replace(' ', "");
        if !["application/json", "application/json;charset=utf-8"].contains(&normal.as_str()) {
            return Err(ControlError::new(415, "the body must have Content-Type: application/json"));
        }
        let mut body: Value = serde_json::from_slice(&bytes)
            .map_err(|error| ControlError::new(400, format!("the body is not JSON: {error}")))?;
        let known = Value::Object(self.effective.document.clone());
        secrets::restore(&mut body, &known, &self.key).map_err(|problem| ControlError::new(422, problem))?;
        Ok(body)
    }

    /// The `X-Request-Id` of the request if it is valid; otherwise a new one.
    fn request_id(&mut self, request: &ControlRequest) -> String {
        let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(&byte);
        match &request.fields.request_id {
            Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(is_id_byte) => id.clone(),
            _ => String::from_utf8_lossy(&self.ids.next_uuid()).into_owned(),
        }
    }

    /// Writes the result of a change to the audit log.
    fn record(&mut self, request: &ControlRequest, id: &str, answer: &ControlResponse, note: ChangeNote) {
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
            "who": request.caller.as_ref().map_or("-", |identity| identity.name.as_str()),
            "address": request.address,
            "method": request.method.word(),
            "path": request.path,
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
        match request.caller.is_ok() {
            true => {
                self.audit.write(&record);
                self.add_to_history(record);
            }
            false => self.audit.write_of_unknown(record),
        }
    }

    fn add_to_history(&mut self, record: Value) {
        self.history.push_back(record);
        if self.history.len() > MOST_HISTORY {
            self.history.pop_front();
        }
    }

    /// The last applied change of a subject.
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

    /// The directory in which changes are stored; `None`: they are not stored.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        let control = self.control();
        control.directory.clone().filter(|_| control.persist == Persistence::File)
    }

    /// Logs conflicts, and stores the changes that were set aside.
    fn report_conflicts(&mut self, conflicts: &[String]) {
        if conflicts.is_empty() {
            return;
        }
        conflicts.iter().for_each(|conflict| self.error_log.warning(format_args!("control: {conflict}")));
        if let Some(Err(problem)) = self.directory().map(|directory| self.overlay.write(&directory)) {
            self.error_log.error(format_args!("control: {problem}"));
        }
    }

    /// Replaces the overlay and the effective configuration.
    pub(crate) fn activate(&mut self, overlay: Overlay, effective: EffectiveConfig) {
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

    /// A copy of a value with placeholders for its secrets.
    pub(crate) fn redacted(&self, value: &Value) -> Value {
        secrets::with_placeholders(value, &self.key)
    }

    /// The name of the client and the present time, for a change.
    pub(crate) fn author_and_time(identity: &Identity) -> (String, String) {
        (identity.name.clone(), now())
    }
}
