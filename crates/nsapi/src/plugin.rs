//! Loads plug-ins: shared libraries whose functions the server calls. They stay loaded until the program
//! ends.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::abi::FuncPtr;

/// A loaded plug-in.
pub struct Plugin {
    path: PathBuf,
    loaded: *mut c_void,
}

// SAFETY: dlsym may be called on any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Loads a plug-in; the tables of functions must be installed before. All symbols are resolved at once,
    /// so that a missing one is an error now and not during a request.
    pub fn load(path: &Path) -> Result<Plugin, String> {
        if let Err(error) = std::fs::File::open(path) {
            return Err(format!("the plug-in {} cannot be read: {error}", path.display()));
        }
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "the path contains a NUL byte".to_string())?;
        let before = crate::crash::loaded_code_ranges();
        // SAFETY: loading runs the plug-in's own initialisation, which the operator has asked for.
        let library = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("the plug-in {} is refused: {}", path.display(), explain(&last_error())));
        }
        // The code of the plug-in and of the libraries that were loaded with it.
        let mut ranges = crate::crash::loaded_code_ranges();
        ranges.retain(|range| !before.contains(range));
        let file = path.file_name().unwrap_or_default().as_bytes();
        crate::crash::register_code_ranges(&ranges, &CString::new(file).unwrap_or_default());
        Ok(Plugin { path: path.to_path_buf(), loaded: library })
    }

    /// A function of the plug-in. `-` in its name is `_` in C.
    pub fn function(&self, name: &str) -> Result<FuncPtr, String> {
        self.symbol(&name.replace('-', "_"))
            .or_else(|| self.symbol(name))
            .ok_or_else(|| format!("the plug-in {} has no function {name}", self.path.display()))
    }

    fn symbol(&self, name: &str) -> Option<FuncPtr> {
        let name = CString::new(name).ok()?;
        // SAFETY: the library is loaded and stays loaded.
        let symbol = unsafe { libc::dlsym(self.loaded, name.as_ptr()) };
        // SAFETY: the operator must name only functions of this type in the configuration. A C symbol has no
        // type that could be checked.
        (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, FuncPtr>(symbol) })
    }
}

fn last_error() -> String {
    // SAFETY: the text of dlerror is valid until the next call on this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".to_string()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// The loader's message with an explanation.
fn explain(error: &str) -> String {
    let hint = if error.contains("undefined symbol: __nsapi") {
        "; the program that loads it does not export the NSAPI tables"
    } else if error.contains("undefined symbol") {
        "; it needs a function that is neither in NSAPI 3 nor in its libraries: it is for another \
         interface, or was linked without one of its libraries"
    } else if error.contains("wrong ELF class")
        || error.contains("invalid ELF header")
        || error.contains("file too short")
    {
        "; it is not a shared library for this machine"
    } else {
        ""
    };
    format!("{error}{hint}")
}
