//! The application, and the Python side of a worker.

use std::ffi::{CStr, CString};

use crate::api::{Gil, Object, PythonException};
use crate::settings::{Protocol, RouteSettings};
use crate::shared::control::trace_signal;

/// The Python side of a worker.
const BOOTSTRAP: &str = include_str!("bootstrap.py");

/// An application, and the Python side of the worker.
#[derive(Clone)]
pub struct Application {
    /// The callable of the application.
    pub app: Object,
    /// `wsgi` or `asgi`.
    pub protocol: String,
    names: Object,
}

impl Application {
    /// An object of the Python side.
    pub fn find(&self, gil: Gil, name: &CStr) -> Result<Object, String> {
        let missing = || format!("the Python side has no {}", name.to_string_lossy());
        let key = gil.interned(name).map_err(|PythonException| missing())?;
        gil.get(&self.names, &key).ok().flatten().ok_or_else(missing)
    }

    /// Whether one thread at a time runs Python.
    pub fn has_lock(&self, gil: Gil) -> bool {
        let has_lock_answer =
            self.find(gil, c"touchstone_has_lock").ok().and_then(|has_lock| gil.call0(&has_lock).ok());
        has_lock_answer.is_none_or(|has| gil.is_true(&has).unwrap_or(true))
    }

    /// The files of its modules.
    pub fn source_files(&self, gil: Gil) -> Vec<std::path::PathBuf> {
        let Ok(function) = self.find(gil, c"touchstone_source_files") else { return Vec::new() };
        let Ok(list) = gil.call0(&function) else {
            gil.clear_error();
            return Vec::new();
        };
        let member =
            |index| gil.member(&list, index).ok().and_then(|name| Some(gil.text(&name).ok()?.into()));
        (0..gil.length(&list).unwrap_or(0)).filter_map(member).collect()
    }
}

/// Imports the application.
///
/// # Errors
/// It cannot be imported; the text contains the trace.
pub fn load(gil: Gil, settings: &RouteSettings) -> Result<Application, String> {
    let text = CString::new(BOOTSTRAP).map_err(|error| error.to_string())?;
    let raised = |PythonException| "Python cannot be set up".to_string();
    let names = gil
        .run(&text, c"touchstone")
        .map_err(|PythonException| format!("the Python part of the worker failed: {}", plain_error(gil)))?;
    let mut application = Application { app: gil.none(), protocol: String::new(), names };
    let traces = application.find(gil, c"touchstone_enable_traces")?;
    let signal =
        gil.number(trace_signal().into()).map_err(|PythonException| "Python cannot be set up".to_string())?;
    gil.call1(&traces, &signal).map_err(|PythonException| plain_error(gil))?;
    let function = application.find(gil, c"touchstone_load")?;
    let text = |text: &str| gil.utf8(text.as_bytes()).map_err(raised);
    let path: Result<Vec<Object>, String> =
        settings.path.iter().map(|place| text(&place.to_string_lossy())).collect();
    let protocol = match settings.protocol {
        Protocol::Detect => "detect",
        Protocol::Wsgi => "wsgi",
        Protocol::Asgi => "asgi",
    };
    let arguments = [
        text(&settings.app)?,
        text(&settings.directory.to_string_lossy())?,
        gil.list(path?.into_iter()).map_err(raised)?,
        text(protocol)?,
        gil.truth(settings.is_factory).map_err(raised)?,
    ];
    let loaded = gil.call5(&function, arguments.each_ref());
    let loaded = loaded.map_err(|PythonException| match gil.take_error() {
        Some(error) => format!("{} cannot be imported:\n{}", settings.app, application.describe(gil, &error)),
        None => format!("{} cannot be imported", settings.app),
    })?;
    application.app = gil.member(&loaded, 0).map_err(raised)?;
    let protocol = gil.member(&loaded, 1).map_err(raised)?;
    application.protocol = gil.text(&protocol).map_err(raised)?.to_string();
    Ok(application)
}

impl Application {
    /// An exception, with its trace, as text.
    pub fn describe(&self, gil: Gil, error: &Object) -> String {
        let described = self
            .find(gil, c"touchstone_describe")
            .ok()
            .and_then(|function| gil.call1(&function, error).ok())
            .and_then(|text| gil.text(&text).ok().map(str::to_string));
        described.unwrap_or_else(|| {
            gil.clear_error();
            "an exception that cannot be described".to_string()
        })
    }
}

/// An error of Python that its own side cannot describe.
fn plain_error(gil: Gil) -> String {
    let text = gil.take_error().and_then(|error| {
        let text = gil.attribute(&error, c"args").ok()?;
        let first = gil.member(&text, 0).ok()?;
        gil.text(&first).ok().map(str::to_string)
    });
    gil.clear_error();
    text.unwrap_or_else(|| "unknown".to_string())
}
