//! Reads the definition of a system under test from TOML, strictly.

use super::companion::Companion;
use super::{CapabilityOfBuild, Definition, template};
use touchstone_lab::capability;
use touchstone_lab::definition::{DefinitionError, Document, LocatedValue, Table};
use touchstone_lab::result::ConfigurationFile;

/// Reads a system's TOML text; `file` names it in messages.
pub(super) fn definition(file: &str, text: &str) -> Result<Definition, DefinitionError> {
    let document = Document::new(file, text);
    let parsed = document.parse()?;
    let root = document.root(&parsed);
    let name = root.required_string("name")?;
    if !is_name(&name.value) {
        let rule = "a system's name has letters, digits, `.`, `-` and `_`, and does not begin with a dot";
        return Err(root.error_at(&name, rule));
    }
    let command = root.required("command", root.strings("command")?)?;
    check_command(&root, &command)?;
    let executables = root.required("executables", root.strings("executables")?)?;
    if executables.value.is_empty() {
        return Err(root.error_at(&executables, "`executables` names no executable"));
    }
    let strings = |key| Ok(root.strings(key)?.map_or_else(Vec::new, |list| list.value));
    let is_this_program = executables.value.iter().any(|name| name == "{self}");
    let capabilities = capabilities(&root, is_this_program)?;
    let capabilities_of_builds = capabilities_of_builds(&root, &capabilities)?;
    let definition = Definition {
        name: name.value,
        title: root.required_string("title")?.value,
        description: root.required_string("description")?.value,
        package: root.string("package")?.map(|package| package.value),
        executables: executables.value,
        version_arguments: strings("version_arguments")?,
        version_after: root.string("version_after")?.map_or_else(String::new, |text| text.value),
        command: command.value,
        environment: environment(&root)?,
        files: files(&root)?,
        companions: companions(&root, &capabilities)?,
        uncounted: uncounted(&root, &capabilities)?,
        capabilities,
        capabilities_of_builds,
        origin: root.string("origin")?.map(|origin| origin.value),
        is_limit: root.boolean("is_limit")?.is_some_and(|flag| flag.value),
    };
    root.finish()?;
    Ok(definition)
}

fn check_command(root: &Table<'_>, command: &LocatedValue<Vec<String>>) -> Result<(), DefinitionError> {
    if command.value.is_empty() {
        return Err(root.error_at(command, "`command` is empty; it begins with \"{executable}\""));
    }
    command.value.iter().try_for_each(|word| check_template(root, command, word))
}

fn check_template<T>(
    table: &Table<'_>,
    place: &LocatedValue<T>,
    template: &str,
) -> Result<(), DefinitionError> {
    template::problem(template).map_or(Ok(()), |problem| Err(table.error_at(place, problem)))
}

fn environment(root: &Table<'_>) -> Result<Vec<(String, String)>, DefinitionError> {
    let variables = root.texts_by_name("environment")?;
    for (name, template) in &variables {
        if let Some(problem) = template::problem(template) {
            return Err(root.error(format!("[environment] {name}: {problem}")));
        }
    }
    Ok(variables)
}

fn files(root: &Table<'_>) -> Result<Vec<ConfigurationFile>, DefinitionError> {
    let mut files: Vec<ConfigurationFile> = Vec::new();
    for table in root.tables("file")? {
        let name = table.required_string("name")?;
        if !is_name(&name.value) || files.iter().any(|file| file.name == name.value) {
            return Err(table.error_at(&name, "a file's name is one plain word, and no two files share it"));
        }
        let template = table.required_string("template")?;
        check_template(&table, &template, &template.value)?;
        table.finish()?;
        files.push(ConfigurationFile { name: name.value, text: template.value });
    }
    Ok(files)
}

/// The capabilities that this program has only if it was built with its feature `wasm`.
const OF_WASM: [&str; 2] = ["wasm", "wasm_reused"];

fn capabilities(root: &Table<'_>, is_this_program: bool) -> Result<Vec<String>, DefinitionError> {
    let mut capabilities = root.required("capabilities", root.strings("capabilities")?)?;
    for capability in &capabilities.value {
        check_known(root, &capabilities, capability)?;
    }
    if is_this_program && !cfg!(feature = "wasm") {
        capabilities.value.retain(|capability| !OF_WASM.contains(&capability.as_str()));
    }
    Ok(capabilities.value)
}

fn check_known<T>(
    table: &Table<'_>,
    place: &LocatedValue<T>,
    capability: &str,
) -> Result<(), DefinitionError> {
    if capability::is_known(capability) {
        return Ok(());
    }
    let known: Vec<&str> = capability::names().collect();
    let message = format!("there is no capability `{capability}`; known: {}", known.join(", "));
    Err(table.error_at(place, message))
}

fn capabilities_of_builds(
    root: &Table<'_>,
    of_all: &[String],
) -> Result<Vec<CapabilityOfBuild>, DefinitionError> {
    let mut of_builds: Vec<CapabilityOfBuild> = Vec::new();
    for table in root.tables("capability_of_build")? {
        let capability = table.required_string("capability")?;
        check_known(&table, &capability, &capability.value)?;
        let is_same = |of_build: &CapabilityOfBuild| of_build.capability == capability.value;
        if of_all.contains(&capability.value) || of_builds.iter().any(is_same) {
            let message = format!("`{}` is stated twice", capability.value);
            return Err(table.error_at(&capability, message));
        }
        let arguments = table.required("arguments", table.strings("arguments")?)?;
        let prints = table.required_string("prints")?;
        table.finish()?;
        of_builds.push(CapabilityOfBuild {
            capability: capability.value,
            arguments: arguments.value,
            prints: prints.value,
        });
    }
    Ok(of_builds)
}

fn companions(root: &Table<'_>, capabilities: &[String]) -> Result<Vec<Companion>, DefinitionError> {
    let mut companions: Vec<Companion> = Vec::new();
    for table in root.tables("companion")? {
        let needs = table.required_string("needs")?;
        check_own_capability(&table, &needs, &needs.value, capabilities)?;
        let socket = table.required_string("socket")?;
        if !is_name(&socket.value) || companions.iter().any(|other| other.socket == socket.value) {
            return Err(
                table.error_at(&socket, "a socket's name is one plain word, and no two companions share it")
            );
        }
        let command = table.required("command", table.strings("command")?)?;
        if command.value.is_empty() {
            return Err(table.error_at(&command, "`command` is empty"));
        }
        command.value.iter().try_for_each(|word| check_template(&table, &command, word))?;
        table.finish()?;
        companions.push(Companion { needs: needs.value, socket: socket.value, command: command.value });
    }
    Ok(companions)
}

fn uncounted(root: &Table<'_>, capabilities: &[String]) -> Result<Vec<String>, DefinitionError> {
    let Some(uncounted) = root.strings("uncounted")? else { return Ok(Vec::new()) };
    for name in &uncounted.value {
        check_own_capability(root, &uncounted, name, capabilities)?;
    }
    Ok(uncounted.value)
}

fn check_own_capability<T>(
    table: &Table<'_>,
    place: &LocatedValue<T>,
    name: &str,
    capabilities: &[String],
) -> Result<(), DefinitionError> {
    if capabilities.iter().any(|capability| capability == name) {
        return Ok(());
    }
    Err(table.error_at(place, format!("`{name}` is not among the system's `capabilities`")))
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.len() <= 100 && name.chars().all(allowed) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"name = "tiny"
title = "tiny {version}"
description = "For tests"
executables = ["tiny"]
command = ["{executable}", "--port", "{port}"]
capabilities = ["files"]
[environment]
PORT = "{port}"
[[file]]
name = "tiny.conf"
template = "listen {port}; events { }"
"#;

    const OF_BUILD: &str = "capability = \"tls\"\narguments = [\"-V\"]\nprints = \"with-tls\"\n";

    #[test]
    fn a_good_definition_is_read() {
        let tiny = definition("tiny.toml", GOOD).unwrap();
        assert_eq!(tiny.command, ["{executable}", "--port", "{port}"]);
        assert_eq!(tiny.environment, [("PORT".to_string(), "{port}".to_string())]);
        assert_eq!((tiny.files.len(), tiny.is_limit, tiny.package), (1, false, None));
        let with = "[[companion]]\nneeds = \"files\"\nsocket = \"a\"\ncommand = [\"{programs}/a\"]\n[[file]]";
        let tiny = definition("tiny.toml", &GOOD.replacen("[[file]]", with, 1)).unwrap();
        assert_eq!((tiny.companions.len(), tiny.companions[0].socket.as_str()), (1, "a"));
        let with = format!("[[capability_of_build]]\n{OF_BUILD}[[file]]");
        let tiny = definition("tiny.toml", &GOOD.replacen("[[file]]", &with, 1)).unwrap();
        let of_build = &tiny.capabilities_of_builds[0];
        assert_eq!((of_build.capability.as_str(), of_build.prints.as_str()), ("tls", "with-tls"));
        assert_eq!(of_build.arguments, ["-V"]);
    }

    #[test]
    fn bad_capabilities_of_builds_are_refused() {
        let cases = [
            ("\"tls\"", "\"tsl\"", "tiny.toml:10:14: there is no capability `tsl`; known: files, "),
            ("\"tls\"", "\"files\"", "tiny.toml:10:14: `files` is stated twice"),
            ("\"with-tls\"", "\"\"", "tiny.toml:12:10: `prints` must not be empty"),
            ("prints = \"with-tls\"\n", "", "tiny.toml:9:1: [capability_of_build] needs `prints`"),
        ];
        for (from, to, expected) in cases {
            let with = format!("[[capability_of_build]]\n{}[[file]]", OF_BUILD.replace(from, to));
            let text = GOOD.replacen("[[file]]", &with, 1);
            let message = definition("tiny.toml", &text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message} for {to}");
        }
    }

    #[test]
    fn bad_definitions_are_refused_with_the_place_and_the_reason() {
        let cases = [
            ("titl = 1\n", "title = \"tiny {version}\"\n", "tiny.toml:1:1: the top level needs `title`"),
            (
                "pakage = \"x\"\ntitle",
                "title",
                "tiny.toml:2:1: unknown key `pakage` in the top level; did you mean `package`?",
            ),
            (
                "\"{prot}\"]",
                "\"{port}\"]",
                "tiny.toml:5:11: there is no placeholder {prot}; did you mean {port}?",
            ),
            (
                "capabilities = [\"cgj\"]",
                "capabilities = [\"files\"]",
                "tiny.toml:6:16: there is no capability `cgj`; known: files, includes, cgi",
            ),
            (
                "executables = []",
                "executables = [\"tiny\"]",
                "tiny.toml:4:15: `executables` names no executable",
            ),
            ("name = \"../x\"", "name = \"tiny.conf\"", "tiny.toml:10:8: a file's name is one plain word"),
            (
                "uncounted = [\"cgi\"]\n[environment]",
                "[environment]",
                "tiny.toml:7:13: `cgi` is not among the system's `capabilities`",
            ),
            (
                "[[companion]]\nneeds = \"fastcgi\"\nsocket = \"a\"\ncommand = [\"a\"]\n[[file]]",
                "[[file]]",
                "tiny.toml:10:9: `fastcgi` is not among the system's `capabilities`",
            ),
            (
                "[[companion]]\nneeds = \"files\"\nsocket = \"a/b\"\ncommand = [\"a\"]\n[[file]]",
                "[[file]]",
                "tiny.toml:11:10: a socket's name is one plain word",
            ),
            ("listen {?cgi};", "listen {port};", "tiny.toml:11:12: the part {?cgi} has no {/cgi}"),
            (
                "listen {prot};",
                "listen {port};",
                "tiny.toml:11:12: there is no placeholder {prot}; did you mean {port}?",
            ),
        ];
        for (to, from, expected) in cases {
            assert!(GOOD.contains(from), "{from}");
            let text = GOOD.replacen(from, to, 1);
            let message = definition("tiny.toml", &text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message} for {to}");
        }
    }

    proptest! {
        #[test]
        fn no_damage_to_a_good_definition_makes_the_reader_panic(
            at in 0..GOOD.len(),
            put in "[\\x20-\\x7e\\n]{0,8}",
        ) {
            let mut text = GOOD.to_string();
            text.replace_range(at..(at + 1), &put);
            let _ = definition("any.toml", &text);
        }
    }
}
