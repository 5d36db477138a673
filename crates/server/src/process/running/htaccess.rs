//! Watches the directories of sites for `.htaccess` files that appear, change or go. What they forbid is then
//! refused about a second later, without a reload of the configuration file.
//!
//! ```text
//! change of a name -> a pause, for further changes -> event for the main thread -> search -> configuration
//! ```

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use touchstone_files::watch::{Change, DirectoryId, Watcher};
use touchstone_sites::htaccess::search_again;

use super::{Event, Running};

/// The most directories that are watched. The user's limit is shared with the cache of files.
const MOST_DIRECTORIES: usize = 4096;

/// How long further changes are waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// Watches directories.
pub(super) struct HtaccessWatch {
    watcher: Watcher,
    /// The directories that are watched.
    paths: Arc<Mutex<HashMap<DirectoryId, PathBuf>>>,
}

impl HtaccessWatch {
    fn start(events: Sender<Event>) -> io::Result<HtaccessWatch> {
        let (changes, changed) = sync_channel::<()>(1);
        std::thread::Builder::new().name("htaccess".to_string()).spawn(move || {
            while changed.recv().is_ok() {
                std::thread::sleep(PAUSE);
                let _ = changed.try_recv();
                if events.send(Event::HtaccessChanged).is_err() {
                    break;
                }
            }
        })?;
        let paths: Arc<Mutex<HashMap<DirectoryId, PathBuf>>> = Arc::default();
        let of_watcher = paths.clone();
        let watcher = Watcher::start(move |change| {
            let path =
                of_watcher.lock().unwrap_or_else(PoisonError::into_inner).get(&change.directory).cloned();
            if concerns(&change, path.as_deref()) {
                // If the channel is full, the thread has not begun to handle the change before.
                let _ = changes.try_send(());
            }
        })?;
        Ok(HtaccessWatch { watcher, paths })
    }

    /// Watches these directories and no others; returns whether some of them are new.
    fn watch(&self, directories: &[PathBuf]) -> bool {
        let watch = |directory: &PathBuf| Some((self.watcher.watch(directory).ok()?, directory.clone()));
        // Again for each: a directory that was replaced by another one of its name is a new one.
        let wanted = directories.iter().take(MOST_DIRECTORIES).filter_map(watch).collect();
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *paths, wanted);
        before.keys().filter(|id| !paths.contains_key(id)).for_each(|id| self.watcher.unwatch(*id));
        paths.iter().any(|(id, path)| before.get(id) != Some(path))
    }
}

/// Whether a change may be one of such a file: that name, or a directory, in which others may be.
fn concerns(change: &Change, directory: Option<&Path>) -> bool {
    match &change.name {
        None => true,
        Some(name) => name == ".htaccess" || directory.is_some_and(|path| path.join(name).is_dir()),
    }
}

impl Running {
    /// Watches the directories of the configuration in use.
    pub(super) fn watch_htaccess(&mut self) {
        let directories = self.parts.snapshot.htaccess_directories.clone();
        self.watch_directories(&directories);
    }

    fn watch_directories(&mut self, directories: &[PathBuf]) {
        if self.htaccess.is_none() && !directories.is_empty() {
            match HtaccessWatch::start(self.events.clone()) {
                Ok(watch) => self.htaccess = Some(watch),
                Err(error) => self.parts.error_log.warning(format_args!(
                    "new .htaccess files are only found by a reload: the disk is not watched: {error}"
                )),
            }
        }
        let has_new = self.htaccess.as_ref().is_some_and(|watch| watch.watch(directories));
        if has_new {
            // They may have changed after they were searched.
            drop(self.events.send(Event::HtaccessChanged));
        }
    }

    /// Searches for the files again, and refuses what they forbid now.
    pub(super) fn htaccess_changed(&mut self) {
        let (changed, directories) = search_again(&self.parts.snapshot.config);
        let Some(config) = changed else { return self.watch_directories(&directories) };
        match self.make_ready(config) {
            Ok(ready) => {
                self.apply(ready, None);
                self.parts.error_log.info(".htaccess files have changed: what they forbid is refused now");
            }
            Err(problem) => {
                let message = format_args!("changed .htaccess files are not taken into account: {problem}");
                self.parts.error_log.error(message);
            }
        }
    }
}
