//! Sessions with data: values are extracted from answers, read from files and generated, inserted into later
//! requests, and checked.
//!
//! A [`ScriptPlan`] and the [`StepPlan`] of each request are text that can be sent to another machine. Before
//! a run [`Script::compile`] turns them into a [`Script`], and reports every mistake in them. During the load
//! each virtual client has one [`State`]: its values and its cookies. This crate uses neither
//! sockets nor clocks.

mod answer;
mod assertion;
mod cookie_jar;
mod data;
mod extraction;
mod html;
mod html_position;
mod json;
mod location;
mod plan;
mod query;
mod script;
mod step_cache;
mod template;
mod values;

pub use answer::{AnswerView, FieldSource};
pub use data::{MAXIMUM_DATA_BYTES, read_csv, read_json};
pub use location::resolve_location;
pub use plan::{DataPlan, ExtractPlan, RowOrder, ScriptError, ScriptPlan, StepPlan};
pub use script::{Problem, Script, Start, State, Step, check_step};
pub use step_cache::StepCache;
pub use template::{RequestPart, Template, check_text, has_variables};
pub use values::Values;
