//! Upgrade: another process takes the sockets, and this one finishes its requests.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use touchstone_lifecycle::control::{Answer, Reply};
use touchstone_lifecycle::handover::{ReadyNotice, Successor, own_program};
use touchstone_lifecycle::systemd::Notice;

use super::{Event, Running};
use crate::process::core_loop::{CoreOrder, Drain};

/// A new process that is starting.
pub struct Upgrade {
    /// The process.
    pub successor: Arc<Successor>,
    /// The clients of the control socket that wait for the outcome.
    replies: Vec<Reply>,
}

impl Running {
    /// Starts the new process; an event reports the outcome.
    pub(super) fn begin_upgrade(&mut self, program: Option<PathBuf>, reply: Option<Reply>) {
        if let Some(upgrade) = &self.upgrade {
            let process = upgrade.successor.process();
            let message = format!("an upgrade is in progress: process {process} is getting ready");
            self.parts.error_log.warning(&message);
            return reply.into_iter().for_each(|reply| reply.send(Answer::refused(&message, Vec::new())));
        }
        let replies: Vec<Reply> = reply.into_iter().collect();
        match self.start_successor(program) {
            Ok(successor) => {
                let program = successor.program().display();
                let process = successor.process();
                self.parts
                    .error_log
                    .info(format_args!("upgrade: '{program}' is started as process {process}"));
                self.upgrade = Some(Upgrade { successor, replies });
            }
            Err(reason) => self.refuse_upgrade(&reason, replies),
        }
    }

    fn start_successor(&self, program: Option<PathBuf>) -> Result<Arc<Successor>, String> {
        let own =
            || own_program().map_err(|error| format!("the program of this process is not found: {error}"));
        let program = program.map_or_else(own, Ok)?;
        let failed = |error: io::Error| format!("the sockets cannot be handed over: {error}");
        let mut sockets = self.parts.listening.to_pass().map_err(failed)?;
        sockets.extend(self.parts.http3.to_pass().map_err(failed)?);
        sockets.extend(self.parts.datagrams.to_pass().map_err(failed)?);
        if let Some(control) = &self.control {
            sockets.push(control.to_pass().map_err(failed)?);
        }
        self.notify(&Notice::Status("Starting the process that is to take over"));
        let successor = Arc::new(Successor::start(&program, sockets)?);
        let (waiting, events) = (successor.clone(), self.events.clone());
        let most = self.parts.snapshot.config.server.upgrade_timeout;
        let wait = move || drop(events.send(Event::Successor(waiting.wait_until_ready(most))));
        match std::thread::Builder::new().name("upgrade".to_string()).spawn(wait) {
            Ok(_) => Ok(successor),
            Err(error) => {
                successor.end();
                Err(format!("no thread can be started to wait for the new process: {error}"))
            }
        }
    }

    pub(super) fn upgrade_failed(&mut self, reason: &str) {
        let replies = self.upgrade.take().map_or_else(Vec::new, |upgrade| upgrade.replies);
        self.refuse_upgrade(reason, replies);
    }

    fn refuse_upgrade(&self, reason: &str, replies: Vec<Reply>) {
        self.parts.error_log.error(format_args!("upgrade: {reason}"));
        let message = "the upgrade failed; this process continues";
        self.parts.error_log.error(message);
        let status = format!("{}; the last upgrade failed, see the error log", self.status_line());
        self.notify(&Notice::Ready(&status));
        for reply in replies {
            reply.send(Answer::refused(message, vec![reason.to_string()]));
        }
    }

    /// The new process accepts: releases what that has taken, and finishes the rest.
    pub(super) fn leave_to_successor(mut self, ready: &ReadyNotice) -> io::Result<()> {
        let Some(Upgrade { successor, replies }) = self.upgrade.take() else { return self.stop() };
        let process = successor.process();
        self.parts.error_log.info(format_args!(
            "process {process} has taken over; requests and connections of this one are finished"
        ));
        self.log_lost_changes();
        // The new process sends notices to systemd after the order to continue; until then systemd accepts
        // notices only from the main process.
        self.notify(&Notice::MainProcess(process));
        self.parts.notifier.stop_notifying();
        if let Some(control) = self.control.take() {
            control.leave();
        }
        // The pid file and the admin address belong to the new process now.
        self.parts.pid_file = None;
        self.parts.admin.end();
        self.parts.listening.remove_files(&ready.taken);
        self.order_to_drain(Drain { left: ready.taken.clone().into(), patient: true });
        // If the new process has ended by now, its own log contains the reason.
        let _ = successor.go();
        for reply in replies {
            let mut answer = Answer::done(format!("process {process} has taken over"));
            answer.facts = json!({ "process": process, "program": successor.program().to_string_lossy() });
            reply.send(answer);
        }
        self.finish()
    }

    /// The previous process has ended, and with it its HTTP/3 connections: this process alone uses the
    /// sockets.
    pub(super) fn begin_http3(&mut self) {
        let parts = &mut self.parts;
        parts.http3.resume();
        let listening = &parts.listening;
        match parts.http3.open(&parts.snapshot, |address| listening.bound_ip_of(address), &parts.error_log) {
            Ok(opened) => {
                for (core, sockets) in parts.cores.iter().zip(parts.http3.apply(opened)) {
                    let _ = core.orders.send(CoreOrder::Http3(sockets));
                }
            }
            Err(problem) => parts.error_log.error(format_args!("no HTTP/3 until the next start: {problem}")),
        }
    }
}
