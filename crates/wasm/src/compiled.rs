//! Machine code of components: compiled once, cached on disk, and shared by all routes with the same
//! component.
//!
//! A file is used only if it belongs to this user and its directory is not writable for others, if engine
//! version, settings and component are the same, and if it is complete.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use touchstone_handler::shared_by_name::SharedByName;
use touchstone_http::hexadecimal;
use wasmtime::component::{Component, InstancePre};
use wasmtime::{Engine, Result};
use wasmtime_wasi_http::{p2, p3};

use crate::header::{Header, sha256};
use crate::runtime::{self, Runtime, Version};
use crate::state::State;

/// The largest component.
const MOST_COMPONENT_BYTES: u64 = 256 << 20;

/// The largest machine code.
const MOST_CODE_BYTES: u64 = 2 << 30;

/// Files that are not used for this time are removed.
const KEPT_FOR: Duration = Duration::from_secs(60 * 24 * 3600);

/// The suffix of the names of files with machine code.
const SUFFIX: &str = ".compiled";

/// A component that can be instantiated.
pub enum LoadedComponent {
    /// `wasi:http/incoming-handler` of 0.2.
    P2(p2::bindings::ProxyPre<State>),
    /// `wasi:http/handler` of 0.3.
    P3(p3::bindings::ServicePre<State>),
}

impl LoadedComponent {
    /// The engine of the component.
    pub fn engine(&self) -> &Engine {
        match self {
            LoadedComponent::P2(pre) => pre.engine(),
            LoadedComponent::P3(pre) => pre.engine(),
        }
    }
}

/// Loads a component, unless it is known by its hash. `note` receives messages for the operator about files
/// of compiled components. The error says what is wrong.
pub fn load(
    path: &Path,
    directory: Option<&Path>,
    known: &SharedByName<[u8; 32], LoadedComponent>,
    note: &mut dyn FnMut(String),
) -> Result<Arc<LoadedComponent>, String> {
    let bytes = read_component(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let hash = sha256(&bytes);
    if let Some(component) = known.find(&hash) {
        return Ok(component);
    }
    let directory = directory.filter(|directory| match prepare_directory(directory) {
        Ok(()) => true,
        Err(reason) => {
            note(format!("{}: {reason}; the component is compiled at each start", directory.display()));
            false
        }
    });
    let plain = runtime::of_process(Version::P2)?;
    let component = match component(&plain.engine, &bytes, hash, directory, note) {
        Ok(component) => link_p2(plain, &component),
        // A component of 0.3 is not valid without concurrency: validation fails before the compilation.
        Err(_) => {
            let concurrent = runtime::of_process(Version::P3)?;
            component(&concurrent.engine, &bytes, hash, directory, note)
                .and_then(|component| link_p3(concurrent, &component))
        }
    };
    let component = component.map_err(|error| format!("{}: {error:#}", path.display()))?;
    known.of_or(hash, |_| Ok(component))
}

fn read_component(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_COMPONENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_COMPONENT_BYTES {
        return Err(io::Error::other("it is longer than 256 MiB"));
    }
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', _, _, 1, 0]) => Ok(bytes),
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => {
            Err(io::Error::other("it is a module, not a component; make one with 'wasm-tools component new'"))
        }
        _ => Err(io::Error::other("it is not a WebAssembly component")),
    }
}

/// The error for a component without a handler.
const NO_HANDLER: &str =
    "it exports neither 'wasi:http/incoming-handler' of 0.2 nor 'wasi:http/handler' of 0.3";

/// Links a component of 0.2: checks its exports, and that all its imports are available.
fn link_p2(runtime: &Runtime, component: &Component) -> Result<LoadedComponent> {
    let instance: InstancePre<State> = runtime.linker.instantiate_pre(component)?;
    let proxy = p2::bindings::ProxyPre::new(instance);
    Ok(LoadedComponent::P2(proxy.map_err(|_| wasmtime::Error::msg(NO_HANDLER))?))
}

/// Links a component that needs concurrency. Its handler may be of 0.2.
fn link_p3(runtime: &Runtime, component: &Component) -> Result<LoadedComponent> {
    let instance: InstancePre<State> = runtime.linker.instantiate_pre(component)?;
    match p3::bindings::ServicePre::new(instance) {
        Ok(service) => Ok(LoadedComponent::P3(service)),
        Err(_) => link_p2(runtime, component),
    }
}

/// Loads the machine code of a component from the directory, or compiles it and writes it there.
fn component(
    engine: &Engine,
    bytes: &[u8],
    component: [u8; 32],
    directory: Option<&Path>,
    note: &mut dyn FnMut(String),
) -> Result<Component> {
    let Some(directory) = directory else { return Component::from_binary(engine, bytes) };
    let header = Header { engine: engine_id(engine), component, code: [0; 32], code_bytes: 0 };
    let path = directory.join(file_name(&header));
    match read_file(&path) {
        Ok(file) => {
            if let Some(found) = matching_component(engine, &file, &header) {
                return Ok(found);
            }
            note(format!("{}: it does not match and is written again", path.display()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => note(format!("{}: {error}; it is written again", path.display())),
    }
    let code = engine.precompile_component(bytes)?;
    let header = Header { code: sha256(&code), code_bytes: code.len() as u64, ..header };
    if let Err(error) = write_file(&path, &header, &code) {
        note(format!("{}: {error}; the component is compiled again at the next start", path.display()));
    }
    remove_old(directory);
    deserialize(engine, &code)
}

/// The component in a file, if the file matches the engine and the component.
fn matching_component(engine: &Engine, file: &[u8], wanted: &Header) -> Option<Component> {
    let (header, code) = Header::read(file)?;
    let fits = header.engine == wanted.engine && header.component == wanted.component;
    if fits { deserialize(engine, code).ok() } else { None }
}

fn deserialize(engine: &Engine, code: &[u8]) -> Result<Component> {
    // SAFETY: `precompile_component` of an engine with the same id has produced the code: in this process, or
    // in an earlier one of this user, see `read_file`. Its hash shows that it is complete.
    unsafe { Component::deserialize(engine, code) }
}

/// Creates the directory if it is missing, and checks that only this user can write to it.
fn prepare_directory(directory: &Path) -> Result<(), String> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.map_err(|error| format!("it cannot be created: {error}"))?;
    let found = fs::metadata(directory).map_err(|error| error.to_string())?;
    if !found.is_dir() {
        return Err("it is not a directory".to_string());
    }
    check_owner(&found)
}

fn check_owner(found: &fs::Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(format!("it belongs to user {}, not to the server's user {own}", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return Err(format!("other users may write to it (mode {:03o})", found.mode() & 0o777));
    }
    Ok(())
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    check_owner(&found).map_err(io::Error::other)?;
    if found.len() > MOST_CODE_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    if found.modified().is_ok_and(|time| age(time) > Duration::from_secs(24 * 3600)) {
        // Marks the file as used. A failure costs one compilation at most.
        let _ = file.set_modified(SystemTime::now());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0));
    file.take(MOST_CODE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write_file(path: &Path, header: &Header, code: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    // A file left by a process with the same id.
    let _ = fs::remove_file(&temporary);
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
            file.write_all(&header.write())?;
            file.write_all(code)?;
            fs::rename(&temporary, path)
        });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

fn age(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

fn remove_old(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_string_lossy().ends_with(SUFFIX) || name.to_string_lossy().ends_with(".new");
        let modified = entry.metadata().and_then(|found| found.modified());
        if is_ours && modified.is_ok_and(|time| age(time) > KEPT_FOR) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn file_name(header: &Header) -> PathBuf {
    let (component, engine) =
        (hexadecimal::encode(&header.component), hexadecimal::encode(&header.engine[..8]));
    format!("{component}-{engine}{SUFFIX}").into()
}

/// Identifies an engine: engines with the same id can share machine code.
fn engine_id(engine: &Engine) -> [u8; 32] {
    struct Sha256Hasher(Sha256);
    impl Hasher for Sha256Hasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Sha256Hasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn header(code: &[u8]) -> Header {
        Header { engine: [1; 32], component: [2; 32], code: sha256(code), code_bytes: code.len() as u64 }
    }

    fn file(code: &[u8]) -> Vec<u8> {
        [&header(code).write()[..], code].concat()
    }

    #[test]
    fn files_writable_for_others_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.compiled");
        write_file(&path, &header(b"code"), b"code").unwrap();
        assert_eq!(read_file(&path).unwrap(), file(b"code"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(read_file(&path).unwrap_err().to_string().contains("other users may write to it (mode 620)"));
        let link = directory.path().join("link.compiled");
        std::os::unix::fs::symlink("a.compiled", &link).unwrap();
        assert!(read_file(&link).is_err());
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert!(prepare_directory(directory.path()).unwrap_err().contains("other users may write"));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(prepare_directory(&directory.path().join("new/below")), Ok(()));
        assert!(prepare_directory(&path).is_err());
    }

    #[test]
    fn old_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, days) in [("a.compiled", 70), ("b.compiled", 10), ("c.txt", 70)] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 24 * 3600)).unwrap();
        }
        remove_old(directory.path());
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b.compiled", "c.txt"]);
    }
}
