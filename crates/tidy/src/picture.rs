//! The imports as text that can be read from top to bottom: a module stands above what it imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::imports::{self, Edges, Path};
use crate::workspace::{Crate, Workspace};

/// The crates, those that use others first.
pub fn of_crates(workspace: &Workspace) -> String {
    let mut out = String::from("crates, each above what it uses (lines without tests)\n\n");
    for krate in workspace.crates.iter().rev() {
        let lines = imports::lines(workspace, &krate.name);
        _ = writeln!(out, "{:<14}{lines:>7}  {}", krate.name, krate.description);
        let used = direct(workspace, krate);
        if !used.is_empty() {
            _ = writeln!(out, "{:23}uses {}", "", used.join(", "));
        }
    }
    out
}

/// The modules of one crate; with `deep`, those of its modules too.
pub fn of_modules(workspace: &Workspace, name: &str, deep: bool) -> String {
    let modules = imports::modules(workspace, name);
    let mut out = String::new();
    let mut parents: BTreeSet<&Path> = modules.lines.keys().filter(|path| !path.is_empty()).collect();
    let all: Vec<&Path> = parents.iter().copied().collect();
    parents
        .retain(|parent| all.iter().any(|path| path.len() == parent.len() + 1 && path.starts_with(parent)));
    let root = Vec::new();
    for parent in std::iter::once(&root).chain(parents) {
        if !parent.is_empty() && !deep {
            break;
        }
        let children: BTreeMap<&str, usize> = modules
            .lines
            .iter()
            .filter(|(path, _)| path.len() == parent.len() + 1 && path.starts_with(parent))
            .map(|(path, lines)| (path[parent.len()].as_str(), *lines))
            .collect();
        let shown = [&[name.to_owned()], &parent[..]].concat().join("::");
        _ = writeln!(out, "\n{shown}: {} lines without tests", modules.lines.get(parent).unwrap_or(&0));
        let empty = Edges::new();
        draw(&mut out, &children, modules.levels.get(parent).unwrap_or(&empty));
    }
    out
}

/// What a crate uses, without what these use themselves.
fn direct(workspace: &Workspace, krate: &Crate) -> Vec<String> {
    let uses = |name: &str| workspace.crates.iter().find(|it| it.name == name).map(|it| &it.uses[..]);
    let is_below = |name: &String| {
        krate.uses.iter().any(|other| other != name && uses(other).is_some_and(|it| it.contains(name)))
    };
    krate.uses.iter().filter(|name| !is_below(name)).cloned().collect()
}

fn draw(out: &mut String, children: &BTreeMap<&str, usize>, edges: &Edges) {
    let circles = imports::circles(edges);
    let in_one_circle = |a: &str, b: &str| {
        a == b || {
            let connected: Edges = edges
                .iter()
                .filter(|(edge, _)| circles.contains(edge))
                .map(|(a, b)| (a.clone(), b.clone()))
                .collect();
            reaches(&connected, a, b) && reaches(&connected, b, a)
        }
    };
    // The modules of one circle form a group; a group stands one floor above the highest that it imports.
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for name in children.keys() {
        match groups.iter_mut().find(|group| in_one_circle(group[0], name)) {
            Some(group) => group.push(name),
            None => groups.push(vec![name]),
        }
    }
    let group_of = |name: &str| groups.iter().position(|group| group.contains(&name)).unwrap_or(0);
    let mut floors = vec![0usize; groups.len()];
    for _ in 0..groups.len() {
        for (from, to) in edges.keys() {
            let (from, to) = (group_of(from), group_of(to));
            if from != to {
                floors[from] = floors[from].max(floors[to] + 1);
            }
        }
    }
    for floor in (0..=floors.iter().copied().max().unwrap_or(0)).rev() {
        for (group, _) in groups.iter().zip(&floors).filter(|(_, it)| **it == floor) {
            if group.len() > 1 {
                _ = writeln!(out, "  {floor:>2}  a circle of {} modules:", group.len());
            }
            for name in group {
                let imported: Vec<&str> =
                    edges.keys().filter(|(from, _)| from == name).map(|(_, to)| to.as_str()).collect();
                let arrow = if imported.is_empty() { "" } else { " -> " };
                let line = format!("{name:<18}{:>6}{arrow}{}", children[name], imported.join(" "));
                _ = writeln!(out, "  {floor:>2}  {}{line}", if group.len() > 1 { "| " } else { "" });
            }
        }
    }
}

fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (_, next) in edges.keys().filter(|(a, _)| a == at) {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}
