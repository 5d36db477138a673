//! The functions of a core for the origins of streams, which send no requests of their own.

use std::rc::{Rc, Weak};

use touchstone_files::cache::DateSecond;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Level, LocalBoxFuture, Server};
use touchstone_handler::request::Request;

use touchstone_exchange::core::Core;

/// The functions of a core, as long as it exists.
pub struct StreamServer {
    core: Weak<Core>,
}

impl StreamServer {
    /// The functions of this core for streams.
    pub fn of_core(core: &Rc<Core>) -> Rc<dyn Server> {
        Rc::new(StreamServer { core: Rc::downgrade(core) })
    }
}

impl Server for StreamServer {
    fn date(&self) -> DateSecond {
        match self.core.upgrade() {
            Some(core) => core.clock.second(),
            None => DateSecond { unix_seconds: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" },
        }
    }

    fn log(&self, level: Level, what: &'static str, message: &str) {
        if let Some(core) = self.core.upgrade() {
            core.error_log.limited(level.into(), what, message);
        }
    }

    fn log_failing(&self, name: &str, reason: &str) {
        if let Some(core) = self.core.upgrade() {
            core.error_log.failing(name, reason);
        }
    }

    fn log_recovered(&self, name: &str) -> bool {
        self.core.upgrade().is_some_and(|core| core.error_log.recovered(name))
    }

    fn answer(&self, _request: Request) -> LocalBoxFuture<Answer> {
        Box::pin(async { Answer::error(503) })
    }

    fn core(&self) -> usize {
        self.core.upgrade().map_or(0, |core| core.index)
    }
}
