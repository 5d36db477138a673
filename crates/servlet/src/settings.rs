//! The settings of Java and of applications.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[java]`: the one virtual machine of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaSettings {
    /// The Java home; `None`: it is searched for.
    pub home: Option<PathBuf>,
    /// The directory of the jars; `None`: beside the program.
    pub jar_directory: Option<PathBuf>,
    /// Options for the machine.
    pub options: Vec<String>,
    /// The largest heap; 0: as the machine chooses.
    pub heap_bytes: u64,
    /// The directory for Tomcat's files that outlive a restart; `None`: none do.
    pub work: Option<PathBuf>,
    /// Jars that all applications may use, such as database drivers.
    pub class_path: Vec<PathBuf>,
}

/// Where applications run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// In the server.
    InProcess,
    /// In a separate process that is watched.
    Isolated,
}

/// Whether applications from before Jakarta EE 9 are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Convert {
    /// If they need it.
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// The names of a route in metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Names {
    /// The name of its site.
    pub site: String,
    /// What the route matches.
    pub route: String,
}

/// The applications of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSettings {
    /// One application: a WAR or a directory.
    pub app: Option<PathBuf>,
    /// A directory of applications.
    pub directory: Option<PathBuf>,
    /// The name of the route's site, which is stable over restarts: applications of two sites are separate.
    pub site: String,
    /// The names of its site and of the route in metrics.
    pub names: Names,
    /// The context path of the one application, or the prefix for those of a directory.
    pub context: String,
    /// Where they run.
    pub isolation: Isolation,
    /// Another process waits to replace it.
    pub standby: bool,
    /// The name of this server among those that a proxy chooses from.
    pub node: String,
    /// Users and their roles, as a tomcat-users.xml; `None`: no users.
    pub users: Option<PathBuf>,
    /// Whether changed applications are restarted.
    pub reload: bool,
    /// Whether changed classes of a directory are loaded.
    pub reload_classes: bool,
    /// Whether old applications are converted.
    pub convert: Convert,
    /// Whether error pages show the text that applications pass to `sendError`.
    pub error_text: bool,
    /// The port for requests that an application requires over HTTPS.
    pub https_port: u16,
    /// The longest form that is parsed into parameters.
    pub form_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Each request has its own virtual thread instead.
    pub has_virtual_threads: bool,
    /// The most requests that wait for a thread.
    pub queue: usize,
    /// Stack of a thread.
    pub stack_bytes: usize,
    /// How long a request waits for an application that is being started.
    pub start_timeout: Duration,
    /// How long an answer may take to begin; `None`: no limit.
    pub answer_timeout: Option<Duration>,
    /// How long requests may continue in an application that was replaced.
    pub drain_timeout: Duration,
}

/// Limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most threads.
    pub threads: usize,
    /// The most requests that wait for a thread.
    pub waiting: usize,
    /// The threads start a virtual one for each request.
    pub is_virtual: bool,
    /// The stack of each thread.
    pub stack_bytes: usize,
    /// How long a request waits for its application.
    pub start_timeout: Duration,
}

impl RouteSettings {
    /// The limits of its pool.
    pub fn limits(&self) -> Limits {
        // The threads of a pool only start virtual ones, and never wait for them.
        let starters = std::thread::available_parallelism().map_or(1, usize::from);
        Limits {
            threads: if self.has_virtual_threads { starters } else { self.threads.max(1) },
            waiting: if self.has_virtual_threads { usize::MAX / 2 } else { self.queue },
            is_virtual: self.has_virtual_threads,
            stack_bytes: self.stack_bytes,
            start_timeout: self.start_timeout,
        }
    }

    /// Its name in logs.
    pub fn name(&self) -> String {
        let source = self.app.as_ref().or(self.directory.as_ref());
        source.map_or_else(String::new, |path| path.display().to_string())
    }

    /// The settings in the form that `Applications.java` reads, with the directory for the applications'
    /// files and, if there is one, the directory for converted applications.
    pub fn properties(&self, work: &Path, converted: Option<&Path>) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            text.push_str(name);
            text.push('=');
            append_escaped(&mut text, value);
            text.push('\n');
        };
        let path =
            |path: &Option<PathBuf>| path.as_ref().map_or(String::new(), |path| path.display().to_string());
        line("name", &self.name());
        line("app", &path(&self.app));
        line("directory", &path(&self.directory));
        line("context", self.context.trim_end_matches('/'));
        line("node", &self.node);
        line("users", &path(&self.users));
        line("reload", if self.reload { "yes" } else { "no" });
        line("reload_classes", if self.reload_classes { "yes" } else { "no" });
        line(
            "convert",
            match self.convert {
                Convert::Auto => "auto",
                Convert::Yes => "yes",
                Convert::No => "no",
            },
        );
        line("form_bytes", &self.form_bytes.min(i32::MAX as u64).to_string());
        line("error_text", if self.error_text { "yes" } else { "no" });
        line("https_port", &self.https_port.to_string());
        let threads = self.threads.to_string();
        line("threads", if self.has_virtual_threads { "virtual" } else { &threads });
        line("drain_milliseconds", &self.drain_timeout.as_millis().to_string());
        line("work", &work.display().to_string());
        line("converted", &converted.map_or_else(String::new, |path| path.display().to_string()));
        text
    }
}

/// A value of a properties file, in which letters beyond ASCII and some others are escaped.
fn append_escaped(to: &mut String, value: &str) {
    use std::fmt::Write as _;
    for unit in value.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_')) => {
                to.push(char::from(byte))
            }
            _ => {
                // Writing to memory does not fail.
                let _ = write!(to, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_properties_survive_whatever_they_hold() {
        let mut text = String::new();
        append_escaped(&mut text, "/a b\n=ä");
        assert_eq!(text, "/a\\u0020b\\u000a\\u003d\\u00e4");
    }
}
