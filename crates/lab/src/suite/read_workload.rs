//! Reads the workload of a suite: classes whose weights add up, or the interfaces that it compares, which
//! must return the same number of bytes.

use super::own_request::OwnRequest;
use super::read_class::{FILES_MAX, Shared, Weight, class};
use super::script::script;
use super::values::name;
use super::{Class, Content, Endpoint, Interface, Part, Workload};
use crate::definition::{DefinitionError, LocatedValue, Table};
use std::collections::HashMap;
use std::path::Path;
use touchstone_load::ScriptPlan;

/// The largest tree: 16 GiB.
const TREE_BYTES_MAX: u64 = 16 << 30;
/// The tolerance of the sum of the weights, for weights with decimals.
const WEIGHTS_TOLERANCE: f64 = 1e-6;
/// The most interfaces of a suite.
const INTERFACES_MAX: usize = 100;

/// The parts of a suite, from its top level; requests are sent to `endpoint` unless a class names another
/// one, on connections that `streams` clients share.
pub(super) fn parts(
    root: &Table<'_>,
    endpoint: Endpoint,
    streams: usize,
    directory: Option<&Path>,
) -> Result<Vec<Part>, DefinitionError> {
    let table = root.table("workload")?.ok_or_else(|| root.error("the suite needs a [workload]"))?;
    match root.strings("interfaces")? {
        Some(interfaces) => interface_parts(root, &interfaces, &table, endpoint),
        None => Ok(vec![Part { interface: None, workload: workload(&table, endpoint, streams, directory)? }]),
    }
}

/// A part for each interface, of one class.
fn interface_parts(
    root: &Table<'_>,
    names: &LocatedValue<Vec<String>>,
    workload: &Table<'_>,
    endpoint: Endpoint,
) -> Result<Vec<Part>, DefinitionError> {
    let (workload_name, content_seed) = workload_head(workload)?;
    workload.finish()?;
    let mut parts: Vec<Part> = Vec::new();
    for name in &names.value {
        let interface = Interface::find(name).map_err(|message| root.error_at(names, message))?;
        let class = Class {
            name: interface.name.to_uppercase(),
            weight_percent: 100.0,
            content: Content::Interface { interface: Box::new(interface.clone()), asked_bytes: None },
            zipf: 0.0,
            headers: Vec::new(),
            endpoint,
        };
        let classes = vec![class];
        let workload =
            Workload { name: workload_name.clone(), content_seed, classes, script: ScriptPlan::default() };
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
        if interface.body_varies {
            return Some(format!("it is not known how many bytes `{name}` returns: it cannot be compared"));
        }
        if interface.body_bytes != first.body_bytes {
            return Some(format!(
                "`{name}` returns {} bytes and `{}` {}: what returns another number of bytes cannot be \
                 compared",
                interface.body_bytes, first.name, first.body_bytes
            ));
        }
        if interfaces[..index].iter().any(|other| other.name == *name || other.path == interface.path) {
            return Some(format!("`{name}`, or its path, is defined twice"));
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

fn workload(
    table: &Table<'_>,
    endpoint: Endpoint,
    streams: usize,
    directory: Option<&Path>,
) -> Result<Workload, DefinitionError> {
    let (name, content_seed) = workload_head(table)?;
    let script = script(table, directory)?;
    let shared = Shared { endpoint, streams, content_seed };
    let (mut classes, mut weights): (Vec<Class>, Vec<Weight>) = (Vec::new(), Vec::new());
    for class_table in &table.tables("class")? {
        let (class, weight) = class(class_table, shared)?;
        if classes.iter().any(|other| other.name == class.name) {
            return Err(class_table.error(format!("the class `{}` is defined twice", class.name)));
        }
        classes.push(class);
        weights.push(weight);
    }
    table.finish()?;
    weigh(&mut classes, &weights).map_err(|problem| table.error(problem))?;
    let workload = Workload { name, content_seed, classes, script };
    match workload_problem(&workload) {
        Some(problem) => Err(table.error(problem)),
        None => Ok(workload),
    }
}

/// Gives every class its percentage.
fn weigh(classes: &mut [Class], weights: &[Weight]) -> Result<(), String> {
    let (mut percent, mut relative) = (None, None);
    for weight in weights {
        match weight {
            Weight::Percent(value) => *percent.get_or_insert(0.0) += value,
            Weight::Relative(value) => *relative.get_or_insert(0.0) += value,
        }
    }
    let factor: f64 = match (percent, relative) {
        (None, None) => return Err("the workload needs at least one [[workload.class]]".to_string()),
        (Some(_), Some(_)) => {
            return Err("some classes have a `weight` and some a `weight_percent`: all must have the same"
                .to_string());
        }
        (Some(sum), None) if f64::abs(sum - 100.0) > WEIGHTS_TOLERANCE => {
            return Err(format!("the weights of the classes must sum to 100; they sum to {sum}"));
        }
        // As stated, to the last digit.
        (Some(_), None) => 1.0,
        (None, Some(sum)) => 100.0 / sum,
    };
    for (class, Weight::Percent(value) | Weight::Relative(value)) in classes.iter_mut().zip(weights) {
        class.weight_percent = value * factor;
    }
    Ok(())
}

fn workload_problem(workload: &Workload) -> Option<String> {
    if workload.files() > FILES_MAX {
        return Some(format!("the tree has {} files; at most {FILES_MAX} are allowed", workload.files()));
    }
    if workload.tree_bytes() > TREE_BYTES_MAX {
        return Some(format!(
            "the tree has {} bytes; at most {TREE_BYTES_MAX} are allowed",
            workload.tree_bytes()
        ));
    }
    let mut directories: HashMap<&str, &Content> = HashMap::new();
    for content in workload.classes.iter().map(|class| &class.content) {
        if let Content::Files { directory, .. } = content
            && *directories.entry(directory).or_insert(content) != content
        {
            return Some(format!(
                "two classes have the directory {directory}, with files of other sizes or names"
            ));
        }
    }
    // The same file in two sizes would be made twice, and be wrong once.
    let mut files: HashMap<&str, u64> = HashMap::new();
    for request in workload.classes.iter().flat_map(Class::own_files) {
        let bytes = request.usual_bytes().unwrap_or(0);
        if *files.entry(&request.path).or_insert(bytes) != bytes {
            return Some(format!(
                "the file {} is there with {} bytes and with {bytes}",
                request.path,
                files[&request.path[..]]
            ));
        }
    }
    None
}

impl Class {
    /// Its requests that files answer, if they are explicit.
    pub(super) fn own_files(&self) -> impl Iterator<Item = &OwnRequest> {
        let requests = match &self.content {
            Content::Requests { requests, interface: None, .. } => &requests[..],
            _ => &[],
        };
        requests.iter().filter(|request| request.is_file())
    }
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
            "name = \"s\"\ntitle = \"s\"\ndescription = \"s\"\nneeds = \"files\"\npath = \"/s\"\n\
             body_bytes = 5\n",
        )
        .unwrap();
        let short = format!("[\"static\", {:?}]", short.display().to_string());
        let cases = [
            ("[\"static\"]", "`interfaces` names 2 to 100"),
            ("[\"static\", \"cgj\"]", "there is no interface `cgj`; did you mean `cgi`?"),
            ("[\"static\", \"cgi\", \"cgi\"]", "`cgi`, or its path, is defined twice"),
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
        assert_eq!((part.workload.files(), part.workload.classes[1].body_bytes(0)), (3, Some(6250)));
    }
}
