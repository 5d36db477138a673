//! Evaluates `if`, `elif`, `else` and `endif`: changes the flow of the walk, and reports invalid conditions.

use super::sink::Sink;
use super::walk::Walk;
use crate::host::Host;
use crate::page::Condition;

impl<H: Host> Walk<H> {
    pub(super) fn begin_condition(&mut self, condition: &Condition, line: usize, sink: &Sink) {
        if !self.flow.prints {
            self.flow.skipped += 1;
            return;
        }
        if let Some(holds) = self.evaluate(condition, line, sink) {
            self.flow.take(holds);
            self.flow.skipped = 0;
        }
    }

    pub(super) fn else_if(&mut self, condition: &Condition, line: usize, sink: &Sink) {
        if self.flow.skipped > 0 {
            return;
        }
        if self.flow.taken && !matches!(condition, Condition::BrokenAttributes(_)) {
            self.flow.prints = false;
            return;
        }
        if let Some(holds) = self.evaluate(condition, line, sink) {
            self.flow.take(holds);
        }
    }

    pub(super) fn otherwise(&mut self, broken: Option<&str>, line: usize, sink: &Sink) {
        if self.flow.skipped > 0 {
            return;
        }
        if let Some(message) = broken {
            if self.flow.prints {
                self.fail(line, message, sink);
            }
            return;
        }
        if self.flow.taken {
            self.flow.prints = false;
        } else {
            self.flow.take(true);
        }
    }

    pub(super) fn end_condition(&mut self, broken: Option<&str>, line: usize, sink: &Sink) {
        if self.flow.skipped > 0 {
            self.flow.skipped -= 1;
            return;
        }
        match broken {
            Some(message) => self.fail(line, message, sink),
            None => self.flow.take(true),
        }
    }

    /// `None`: the condition is invalid, which has been reported. The rest of the `if` prints nothing,
    /// because it is unclear which branch is meant.
    fn evaluate(&mut self, condition: &Condition, line: usize, sink: &Sink) -> Option<bool> {
        let result = match condition {
            Condition::Expression(expression) => expression.holds(self).map_err(|error| error.to_string()),
            Condition::BrokenExpression(message) | Condition::BrokenAttributes(message) => {
                Err(message.clone())
            }
        };
        if let Err(message) = &result {
            self.fail(line, message, sink);
            self.flow.prints = false;
            self.flow.taken = true;
        }
        result.ok()
    }
}
