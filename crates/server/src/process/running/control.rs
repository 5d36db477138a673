//! Requests to the control API, on the thread that makes every change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use touchstone_accelerator::purge::PurgeRequest;
use touchstone_admin::ControlFunction;
use touchstone_config::{Config, ConfigPlaces, ConfigProblem};
use touchstone_control::{
    ControlApi, ControlError, ControlRequest, ControlResponse, ControlledServer, LoadedConfig, OriginName,
    OriginOverride,
};
use touchstone_sites::checks::check_all;

use super::{Event, Running};

/// Passes requests of the admin listener to the main thread, and waits for the answers.
pub(super) fn by_events(events: Sender<Event>) -> ControlFunction {
    Arc::new(move |request| {
        let (reply, answer) = channel();
        // The events end when the server stops.
        drop(events.send(Event::Control(Box::new(request), reply)));
        answer.recv().unwrap_or_else(|_| ControlError::new(503, "the server is being stopped").response())
    })
}

impl Running {
    /// Executes a request.
    pub(super) fn control(&mut self, request: &ControlRequest) -> ControlResponse {
        let Some(mut api) = self.parts.control_api.take() else {
            return ControlError::new(503, "there is no control API; the error log has the reason")
                .response();
        };
        let answer = api.handle(request, self);
        self.parts.control_api = Some(api);
        answer
    }

    /// Gives the control API the configuration that a reload has applied.
    pub(super) fn control_reloaded(&mut self, opened: LoadedConfig) {
        let (parts, is_enabled) = (&mut self.parts, opened.effective.config.control.enabled);
        let done = match parts.control_api.take() {
            Some(api) if !is_enabled => {
                let lost = api.unsaved_changes().into_iter();
                lost.for_each(|change| parts.error_log.warning(lost_change(&change)));
                return;
            }
            None if !is_enabled => return,
            Some(mut api) => api.reloaded(opened).map(|dropped| {
                dropped.iter().for_each(|change| parts.error_log.warning(change));
                api
            }),
            None => ControlApi::new(opened, parts.error_log.clone(), &parts.metrics),
        };
        match done {
            Ok(api) => parts.control_api = Some(api),
            Err(problem) => {
                let message = format_args!("there is no control API until the next reload: {problem}");
                parts.error_log.error(message);
            }
        }
    }

    /// Logs which changes are lost when this process ends.
    pub(super) fn log_lost_changes(&self) {
        let api = self.parts.control_api.iter();
        for change in api.flat_map(|api| api.unsaved_changes()) {
            self.parts.error_log.warning(lost_change(&change));
        }
    }

    /// Restores the logs of the present configuration after a prepared one was not applied.
    fn keep_logs(&self) {
        let parts = &self.parts;
        let config = &parts.snapshot.config;
        let kept = parts.access_log.reconfigure(&config.access_log);
        for error in
            [kept, parts.error_log.reconfigure(&config.error_log)].into_iter().filter_map(Result::err)
        {
            parts.error_log.error(format_args!("a log cannot be opened again: {error}"));
        }
    }
}

fn lost_change(change: &str) -> String {
    format!("a change of the control API is discarded, because control.persist is \"none\": {change}")
}

impl ControlledServer for Running {
    fn check(&self, config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
        check_all(config, places)
    }

    fn apply(
        &mut self,
        config: Config,
        overrides: &BTreeMap<OriginName, OriginOverride>,
        commit: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let ready = self.make_ready(config)?;
        if let Err(problem) = commit() {
            self.keep_logs();
            return Err(problem);
        }
        self.apply(ready, Some(overrides));
        Ok(())
    }

    fn purge(&self, order: &PurgeRequest) -> Option<usize> {
        self.parts.view.purge(order)
    }

    fn acme_file(&self, config: &Config, hosts: &[String]) -> PathBuf {
        touchstone_acme::certificate_file(&config.acme, hosts)
    }

    fn busy(&self) -> Option<String> {
        self.upgrade.as_ref().map(|upgrade| {
            format!("an upgrade is in progress: process {} is getting ready", upgrade.successor.process())
        })
    }
}
