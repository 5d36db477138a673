//! The crates of the workspace: what each is for, what it depends on, and how long it is.

use crate::rust::{self, RustFile};
use crate::tree::{self, SourceFile};

/// The source tree, read once.
pub struct Workspace {
    /// Every text file.
    pub files: Vec<SourceFile>,
    /// Every Rust file.
    pub rust: Vec<RustFile>,
    /// The crates in the order of `members` in the root Cargo.toml: each may use only those before it.
    pub crates: Vec<Crate>,
}

/// One crate.
pub struct Crate {
    /// The name of its directory below `crates`.
    pub name: String,
    /// The description in its Cargo.toml.
    pub description: String,
    /// The crates of this workspace that it depends on, for its tests too.
    pub uses: Vec<String>,
}

/// Reads the tree.
pub fn read() -> Result<Workspace, String> {
    let files = tree::files().map_err(|error| format!("the source tree cannot be read: {error}"))?;
    let rust = files.iter().filter(|file| file.kind() == "rs").map(rust::read).collect::<Result<_, _>>()?;
    let root = manifest(&files, "Cargo.toml")?;
    let members = root["workspace"]["members"].as_array().ok_or("Cargo.toml has no members")?;
    let crates = members
        .iter()
        .filter_map(|member| member.as_str()?.strip_prefix("crates/"))
        .map(|name| read_crate(&files, name))
        .collect::<Result<_, _>>()?;
    Ok(Workspace { files, rust, crates })
}

impl Workspace {
    /// The Rust files of a crate's `src`, with what tests alone compile.
    pub fn sources<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a RustFile> {
        let directory = format!("crates/{name}/src/");
        self.rust.iter().filter(move |file| file.path.starts_with(&directory))
    }
}

fn read_crate(files: &[SourceFile], name: &str) -> Result<Crate, String> {
    let manifest = manifest(files, &format!("crates/{name}/Cargo.toml"))?;
    let mut uses: Vec<String> = ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|table| manifest.get(*table)?.as_table())
        .flat_map(|table| table.keys())
        .filter_map(|key| key.strip_prefix("touchstone-"))
        .map(str::to_owned)
        .collect();
    uses.sort();
    uses.dedup();
    let description = manifest["package"].get("description").and_then(|it| it.as_str()).unwrap_or_default();
    Ok(Crate { name: name.to_owned(), description: description.to_owned(), uses })
}

fn manifest(files: &[SourceFile], path: &str) -> Result<toml::Table, String> {
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| format!("{path} is missing"))?;
    file.text.parse().map_err(|error| format!("{path}: {error}"))
}
