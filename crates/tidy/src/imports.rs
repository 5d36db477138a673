//! The imports between the modules of a crate.
//!
//! An import counts between siblings: what `a::b` imports from `a::c` is an edge from `b` to `c` inside `a`,
//! and what it imports from `d::e` is an edge from `a` to `d` at the top. A module and its own children may
//! use each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust::{Import, RustFile};
use crate::workspace::Workspace;

/// The modules of one crate.
pub struct Modules {
    /// Lines without tests of each module, its children included.
    pub lines: BTreeMap<Path, usize>,
    /// For each module with children, the imports between these.
    pub levels: BTreeMap<Path, Edges>,
}

/// The names of a module and of those that contain it, from the top of the crate.
pub type Path = Vec<String>;

/// From an importing module and an imported one, which are siblings, to a place that says so.
pub type Edges = BTreeMap<(String, String), String>;

/// The modules of a crate and the imports between them. What only tests compile is left out.
pub fn modules(workspace: &Workspace, name: &str) -> Modules {
    let files: Vec<(Path, &RustFile)> = sources(workspace, name);
    let mut lines = BTreeMap::new();
    for (module, file) in &files {
        for depth in 0..=module.len() {
            *lines.entry(module[..depth].to_vec()).or_default() += file.lines - file.test_lines;
        }
    }
    let names = names(&files);
    let resolver = Resolver { modules: lines.keys().cloned().collect(), names };
    let mut levels: BTreeMap<Path, Edges> = BTreeMap::new();
    for (module, file) in &files {
        for import in &file.imports {
            let from = [&module[..], &import.inside[..]].concat();
            let Some(to) = resolver.resolve(&from, &import.path, 0) else { continue };
            let shared = module.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if shared < module.len() && shared < to.len() {
                let edge = (module[shared].clone(), to[shared].clone());
                let place = format!("{}:{}", file.path, import.line);
                levels.entry(module[..shared].to_vec()).or_default().entry(edge).or_insert(place);
            }
        }
    }
    Modules { lines, levels }
}

/// Lines of a crate that are compiled outside of tests.
pub fn lines(workspace: &Workspace, name: &str) -> usize {
    sources(workspace, name).iter().map(|(_, file)| file.lines - file.test_lines).sum()
}

/// The edges that are part of a circle.
pub fn circles(edges: &Edges) -> BTreeSet<(String, String)> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for (_, to) in edges.keys().filter(|(a, _)| a == at) {
                if seen.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    edges.keys().filter(|(from, to)| reached(to).contains(from.as_str())).cloned().collect()
}

/// The files of a crate that are compiled outside of tests, each with its module.
fn sources<'a>(workspace: &'a Workspace, name: &str) -> Vec<(Path, &'a RustFile)> {
    let directory = format!("crates/{name}/src/");
    let all: Vec<(Path, &RustFile)> = workspace
        .sources(name)
        .filter(|file| !file.path.contains("/src/bin/"))
        .map(|file| (module_of(&file.path[directory.len()..]), file))
        .collect();
    let for_tests: Vec<Path> = all
        .iter()
        .flat_map(|(module, file)| file.test_modules.iter().map(move |it| [&module[..], &it[..]].concat()))
        .collect();
    let is_test = |module: &Path| for_tests.iter().any(|test| module.starts_with(test));
    all.into_iter().filter(|(module, _)| !is_test(module)).collect()
}

/// The module of a file below `src`.
fn module_of(path: &str) -> Path {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Path = path.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// What each module knows by a name of its own through `use`.
fn names<'a>(files: &[(Path, &'a RustFile)]) -> BTreeMap<(Path, &'a str), &'a Import> {
    let mut names = BTreeMap::new();
    for (module, file) in files {
        for import in &file.names {
            names.insert(([&module[..], &import.inside[..]].concat(), import.name.as_str()), import);
        }
    }
    names
}

struct Resolver<'a> {
    modules: BTreeSet<Path>,
    names: BTreeMap<(Path, &'a str), &'a Import>,
}

impl Resolver<'_> {
    /// The module of this crate in which what `path` names is defined; `None` where it is of another crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Path> {
        let mut at = from.to_vec();
        let mut rest = path;
        let mut is_ours = false;
        while let [first, more @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                "self" => {}
                _ => break,
            }
            is_ours = true;
            rest = more;
        }
        while let [first, more @ ..] = rest {
            let child = [&at[..], std::slice::from_ref(first)].concat();
            if self.modules.contains(&child) {
                at = child;
            } else if depth < 8
                && let Some(import) = self.names.get(&(at.clone(), first.as_str()))
                && import.path != path
            {
                let target = [&import.path[..], more].concat();
                return self.resolve(&at, &target, depth + 1);
            } else {
                break;
            }
            is_ours = true;
            rest = more;
        }
        is_ours.then_some(at)
    }
}
