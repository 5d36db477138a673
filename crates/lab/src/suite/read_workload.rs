//! Reads what a suite's clients ask for: a workload of classes whose weights sum to 100, or the interfaces that it compares, which
//! must return as many bytes as each other.

use super::read::name;
use super::{Class, Content, Interface, Part, Workload};
use crate::definition::{DefinitionError, Located, Table};

/// The most files of a class, and of a tree.
const FILES_MAX: u64 = 100_000;
/// The largest file: 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The largest tree: 16 GiB.
const TREE_BYTES_MAX: u64 = 16 << 30;
/// How far the sum of the weights may be from 100, for weights with decimals.
const WEIGHTS_TOLERANCE: f64 = 1e-6;
/// The most interfaces of a suite.
const INTERFACES_MAX: usize = 100;

/// The parts of a suite, from its top level.
pub(super) fn parts(root: &Table<'_>) -> Result<Vec<Part>, DefinitionError> {
    let table = root.table("workload")?.ok_or_else(|| root.error("the suite needs a [workload]"))?;
    match root.strings("interfaces")? {
        Some(interfaces) => interface_parts(root, &interfaces, &table),
        None => Ok(vec![Part { interface: None, workload: workload(&table)? }]),
    }
}

/// A part for each interface, of one class.
fn interface_parts(
    root: &Table<'_>,
    names: &Located<Vec<String>>,
    workload: &Table<'_>,
) -> Result<Vec<Part>, DefinitionError> {
    let (workload_name, content_seed) = workload_head(workload)?;
    workload.finish()?;
    let mut parts: Vec<Part> = Vec::new();
    for name in &names.value {
        let interface = Interface::find(name).map_err(|message| root.error_at(names, message))?;
        let class = Class {
            name: interface.name.to_uppercase(),
            weight_percent: 100.0,
            content: Content::Interface(Box::new(interface.clone())),
        };
        let classes = vec![class];
        let workload = Workload { name: workload_name.clone(), content_seed, classes };
        parts.push(Part { interface: Some(interface), workload });
    }
    match interfaces_problem(&parts) {
        Some(problem) => Err(root.error_at(names, problem)),
        None => Ok(parts),
    }
}

fn interfaces_problem(parts: &[Part]) -> Option<String> {
    if !(2..=INTERFACES_MAX).contains(&parts.len()) {
        return Some(format!(
            "`interfaces` names 2 to {INTERFACES_MAX}: the first is what the others are held against"
        ));
    }
    let interfaces: Vec<&Interface> = parts.iter().filter_map(|part| part.interface.as_ref()).collect();
    for (index, interface) in interfaces.iter().enumerate() {
        let (first, name) = (interfaces[0], &interface.name);
        if interface.body_bytes != first.body_bytes {
            return Some(format!(
                "`{name}` returns {} bytes and `{}` {}: what returns another number of bytes cannot be compared",
                interface.body_bytes, first.name, first.body_bytes
            ));
        }
        if interfaces[..index].iter().any(|other| other.name == *name || other.path == interface.path) {
            return Some(format!("`{name}`, or its path, is there twice"));
        }
    }
    None
}

/// The name of a workload, and the seed of its files.
fn workload_head(table: &Table<'_>) -> Result<(String, u64), DefinitionError> {
    let name = name(table, table.required_string("name")?, "a workload's")?;
    // Whole numbers in TOML are signed 64-bit.
    let content_seed = table.whole("content_seed", 0..=i64::MAX as u64)?.map_or(1, |seed| seed.value);
    Ok((name, content_seed))
}

fn workload(table: &Table<'_>) -> Result<Workload, DefinitionError> {
    let (name, content_seed) = workload_head(table)?;
    let mut classes: Vec<Class> = Vec::new();
    for class_table in table.tables("class")? {
        let class = class(&class_table)?;
        if classes.iter().any(|other| other.name == class.name) {
            return Err(class_table.error(format!("the class `{}` is there twice", class.name)));
        }
        classes.push(class);
    }
    table.finish()?;
    let workload = Workload { name, content_seed, classes };
    match workload_problem(&workload) {
        Some(problem) => Err(table.error(problem)),
        None => Ok(workload),
    }
}

fn class(table: &Table<'_>) -> Result<Class, DefinitionError> {
    let name = name(table, table.required_string("name")?, "a class's")?;
    let weight = table.required("weight_percent", table.number("weight_percent", 0.0..=100.0)?)?;
    if weight.value <= 0.0 {
        return Err(table.error_at(&weight, "a class of weight 0 is never asked for; leave it out"));
    }
    let content = match table.string("interface")? {
        Some(named) => {
            let interface =
                Interface::find(&named.value).map_err(|message| table.error_at(&named, message))?;
            Content::Interface(Box::new(interface))
        }
        None => Content::Files {
            files: table.required("files", table.whole("files", 1..=FILES_MAX)?)?.value,
            file_bytes: table.required("file_bytes", table.whole("file_bytes", 1..=FILE_BYTES_MAX)?)?.value,
        },
    };
    table.finish()?;
    Ok(Class { name, weight_percent: weight.value, content })
}

fn workload_problem(workload: &Workload) -> Option<String> {
    if workload.classes.is_empty() {
        return Some("the workload needs at least one [[workload.class]]".to_string());
    }
    let sum: f64 = workload.classes.iter().map(|class| class.weight_percent).sum();
    if (sum - 100.0).abs() > WEIGHTS_TOLERANCE {
        return Some(format!("the weights of the classes must sum to 100; they sum to {sum}"));
    }
    if workload.files() > FILES_MAX {
        return Some(format!("the tree has {} files; at most {FILES_MAX} are allowed", workload.files()));
    }
    (workload.tree_bytes() > TREE_BYTES_MAX).then(|| {
        format!("the tree has {} bytes; at most {TREE_BYTES_MAX} are allowed", workload.tree_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::super::read::suite;
    use super::super::read::tests::GOOD;
    use super::super::{Part, Suite};
    use crate::definition::DefinitionError;

    /// The good suite with interfaces in the place of its classes.
    fn with_interfaces(interfaces: &str) -> Result<Suite, DefinitionError> {
        let (head, _) = GOOD.split_once("[[workload.class]]").unwrap();
        suite("two.toml", &head.replacen("mixes =", &format!("interfaces = {interfaces}\nmixes ="), 1))
    }

    #[test]
    fn interfaces_become_parts() {
        let suite = with_interfaces("[\"static\", \"nsapi-c\"]").unwrap();
        assert!(suite.compares_interfaces());
        assert_eq!(suite.parts.iter().map(Part::name).collect::<Vec<_>>(), ["static", "nsapi-c"]);
        assert_eq!(suite.parts[1].workload.classes[0].path(0), "/nsapi/nsapi-send-c");
    }

    #[test]
    fn interfaces_that_cannot_be_compared_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let short = place.path().join("short.toml");
        std::fs::write(
            &short,
            "name = \"s\"\ntitle = \"s\"\ndescription = \"s\"\nneeds = \"files\"\npath = \"/s\"\nbody_bytes = 5\n",
        )
        .unwrap();
        let short = format!("[\"static\", {:?}]", short.display().to_string());
        let cases = [
            ("[\"static\"]", "`interfaces` names 2 to 100"),
            ("[\"static\", \"cgj\"]", "there is no interface `cgj`; did you mean `cgi`?"),
            ("[\"static\", \"cgi\", \"cgi\"]", "`cgi`, or its path, is there twice"),
            (short.as_str(), "`s` returns 5 bytes and `static` 6250"),
            ("[\"static\", \"/none.toml\"]", "definition of an interface, /none.toml"),
        ];
        for (interfaces, expected) in cases {
            let message = with_interfaces(interfaces).unwrap_err().to_string();
            assert!(message.starts_with("two.toml:5:14: ") && message.contains(expected), "{message}");
        }
        let both = GOOD.replacen("mixes =", "interfaces = [\"static\", \"cgi\"]\nmixes =", 1);
        assert!(
            suite("two.toml", &both).unwrap_err().to_string().contains("unknown key `class` in [workload]")
        );
    }

    #[test]
    fn a_class_can_be_what_a_program_answers() {
        let text = GOOD.replacen("files = 1\nfile_bytes = 1000", "interface = \"cgi\"", 1);
        let suite = suite("mixed.toml", &text).unwrap();
        let part = suite.first_part();
        assert_eq!((part.needs(), part.programs()), (vec!["cgi", "files"], vec!["cgi"]));
        assert_eq!((part.workload.files(), part.workload.classes[1].body_bytes()), (3, 6250));
    }
}
