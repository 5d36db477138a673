//! Loading plug-ins: shared libraries whose functions the server calls. They stay loaded until the program
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
    /// Loads one. Every symbol that it needs must be there: what is missing is named now, and not when a
    /// request comes.
    pub fn load(path: &Path) -> Result<Plugin, String> {
        if let Err(error) = std::fs::File::open(path) {
            return Err(format!("the plug-in {} cannot be read: {error}", path.display()));
        }
        crate::slots::install();
        let c_path =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| "the path holds a NUL byte".to_string())?;
        let before = crate::crash::loaded_places();
        // SAFETY: loading runs the plug-in's own initialisation; that it may do so is what loading it means.
        let library = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("the plug-in {} is refused: {}", path.display(), explain(&last_error())));
        }
        // Its own code, and that of libraries that have come with it.
        let mut places = crate::crash::loaded_places();
        places.retain(|place| !before.contains(place));
        let file = path.file_name().unwrap_or_default().as_bytes();
        crate::crash::know_places(&places, &CString::new(file).unwrap_or_default());
        Ok(Plugin { path: path.to_path_buf(), loaded: library })
    }

    /// A function of it: `-` in its name is `_` in C.
    pub fn function(&self, name: &str) -> Result<FuncPtr, String> {
        self.symbol(&name.replace('-', "_"))
            .or_else(|| self.symbol(name))
            .ok_or_else(|| format!("the plug-in {} has no function {name}", self.path.display()))
    }

    fn symbol(&self, name: &str) -> Option<FuncPtr> {
        let name = CString::new(name).ok()?;
        // SAFETY: the library is loaded, and stays so.
        let symbol = unsafe { libc::dlsym(self.loaded, name.as_ptr()) };
        // SAFETY: whoever names a function in the configuration says that it is of this type; C knows no
        // types here.
        (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, FuncPtr>(symbol) })
    }
}

fn last_error() -> String {
    // SAFETY: dlerror's text is valid until the next call on this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".to_string()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// What the loader says, with what it means.
fn explain(error: &str) -> String {
    let hint = if error.contains("undefined symbol: __nsapi") {
        "; the program that loads it does not export the NSAPI tables"
    } else if error.contains("undefined symbol") {
        "; it needs a function that neither NSAPI 3 nor a library it names has: it is for another interface, or was \
         linked without one of its libraries"
    } else if error.contains("wrong ELF class")
        || error.contains("invalid ELF header")
        || error.contains("file too short")
    {
        "; it is no shared library for this machine"
    } else {
        ""
    };
    format!("{error}{hint}")
}
