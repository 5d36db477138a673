//! The settings that the server passes to a child process: a file in a directory.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::settings::{JavaSettings, RouteSettings};

/// The file with the settings, in the directory that is the child's argument.
pub const SETTINGS_FILE: &str = "settings.json";

/// The settings of the child.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// `[java]`
    pub java: JavaSettings,
    /// Its applications.
    pub route: RouteSettings,
}

/// The directory to which a child writes. Its parent removes it.
pub fn own_directory(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("of-{pid}"))
}
