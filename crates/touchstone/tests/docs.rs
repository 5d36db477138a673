//! Checks the documentation against the program: help texts, commands, links and configurations in every
//! `*.md`.
//!
//! Each command has a page, `docs/COMMAND.md`, whose help is between two markers and is compared with the
//! program's output. `BLESS=1 cargo test -p touchstone --test docs` writes the present help into the pages.
//! In fenced blocks marked `sh` or `console` every `touchstone` command line must name a command and options
//! that exist, and every `make` line a target. A block marked `toml` is a whole configuration and must pass
//! `check`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HELP_START: &str = "<!-- help:start -->";
const HELP_END: &str = "<!-- help:end -->";

#[test]
fn every_command_has_a_page_with_its_help() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut faults = Vec::new();
    for command in commands() {
        let path = top().join("docs").join(format!("{command}.md"));
        let Ok(page) = std::fs::read_to_string(&path) else {
            faults.push(format!("docs/{command}.md is missing"));
            continue;
        };
        let wanted = help_block(&help(&[&command]));
        match block_between_markers(&page) {
            Some(block) if block == wanted => {}
            _ if bless => std::fs::write(&path, with_help(&page, &wanted)).unwrap(),
            Some(_) => {
                faults.push(format!("docs/{command}.md: its help is not what `{command} --help` prints"))
            }
            None => faults.push(format!("docs/{command}.md has no {HELP_START} ... {HELP_END}")),
        }
    }
    assert!(faults.is_empty(), "{}\nBLESS=1 writes the present help into the pages", faults.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let index = std::fs::read_to_string(top().join("docs/README.md")).unwrap();
    let missing: Vec<String> = std::fs::read_dir(top().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "README.md" && !index.contains(&format!("({name})")))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not link to {missing:?}");
}

#[test]
fn help_stands_only_on_pages_of_commands() {
    let commands = commands();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.file_stem().unwrap().to_str().unwrap();
        let is_a_command_page =
            page.parent() == Some(top().join("docs").as_path()) && commands.iter().any(|it| it == name);
        let has_help = text.lines().any(|line| line == HELP_START);
        assert!(!has_help || is_a_command_page, "{}: `touchstone {name}` is not a command", page.display());
    }
}

#[test]
fn command_lines_in_the_documentation_exist() {
    let options: BTreeMap<String, BTreeSet<String>> =
        commands().into_iter().map(|command| (command.clone(), options_in(&help(&[&command])))).collect();
    let makefile = std::fs::read_to_string(top().join("Makefile")).unwrap();
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in fenced_blocks(&text).iter().filter(|block| block.info == "sh" || block.info == "console")
        {
            for words in command_lines(block) {
                seen += 1;
                if let Err(fault) = check_command_line(&words, &options, &makefile) {
                    faults.push(format!("{}: `{}`: {fault}", shown(&page), words.join(" ")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 10, "only {seen} command lines were found: are the blocks still marked sh or console?");
}

#[test]
fn suites_and_systems_in_the_documentation_exist() {
    let (suites, systems) = (printed("suites"), printed("systems"));
    let mut faults = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in fenced_blocks(&text).iter().filter(|block| block.info == "sh" || block.info == "console")
        {
            for words in
                command_lines(block).iter().filter(|words| words.get(1).is_some_and(|it| it == "bench"))
            {
                let unknown = unknown_names(words, &suites, &systems);
                faults.extend(unknown.iter().map(|name| format!("{}: no {name}", shown(&page))));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn configurations_in_the_documentation_pass_check() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in fenced_blocks(&text).iter().filter(|block| block.info == "toml") {
            seen += 1;
            if let Err(fault) = check_configuration(&block.text) {
                faults.push(format!("{}: {fault}\n{}", shown(&page), block.text));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 0, "no configuration was found: are the blocks still marked toml?");
}

#[test]
fn relative_links_resolve() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            if let Err(fault) = resolve(&page, &link) {
                faults.push(format!("{}: {link}: {fault}", shown(&page)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 10, "only {seen} links were found");
}

#[test]
fn the_site_of_the_book_has_a_page_for_each_and_links_that_lead_somewhere() {
    let site = tempfile::tempdir().unwrap();
    let output =
        Command::new("/usr/bin/python3").arg(top().join("scripts/docs.py")).arg(site.path()).output();
    let said = match &output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("SKIPPED: the book as a site (install python3): {error}"),
    };
    if let Some(why) = said.strip_prefix("SKIPPED: ") {
        writeln!(std::io::stderr(), "SKIPPED: {}", why.trim_end()).unwrap();
        return;
    }
    assert!(output.unwrap().status.success(), "{said}");
    for page in ["index.html", "import.html", "contributing/add-a-key.html", "search.json", "style.css"] {
        assert!(site.path().join(page).is_file(), "{page}");
    }
    let page = std::fs::read_to_string(site.path().join("import.html")).unwrap();
    assert!(page.contains("name=\"viewport\"") && page.contains("href=\"routes.html\""), "{page}");
}

#[test]
fn functions_that_the_architecture_names_are_where_it_says() {
    let text = std::fs::read_to_string(top().join("ARCHITECTURE.md")).unwrap();
    let faults: Vec<String> = function_links(&text)
        .filter(|(function, file)| bodies_of(function, &source(file)).is_empty())
        .map(|(function, file)| format!("ARCHITECTURE.md: {file} has no function {function}"))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(function_links(&text).count() > 100, "links to functions are missing");
}

#[test]
fn functions_of_the_walks_call_each_other_in_the_order_of_the_rows() {
    let text = std::fs::read_to_string(top().join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = text.split_once("\n## Three requests, function by function\n").expect("the walks");
    let walks = walks.split("\n## ").next().unwrap_or(walks);
    let (mut faults, mut seen) = (Vec::new(), 0);
    for walk in walks.split("\n### ").skip(1) {
        let title = walk.lines().next().unwrap_or_default();
        let first_columns = walk.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
        let steps: Vec<Step> = first_columns.flat_map(function_links).map(Step::of).collect();
        seen += steps.len();
        faults
            .extend(faults_of_walk(&steps).iter().map(|fault| format!("ARCHITECTURE.md: {title}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 40, "only {seen} functions of walks were found");
}

/// A function that a walk names.
struct Step<'t> {
    /// Its name without that of its type.
    name: &'t str,
    /// Its text, without comments.
    body: String,
}

impl<'t> Step<'t> {
    fn of((function, file): (&'t str, &'t str)) -> Step<'t> {
        let body = bodies_of(function, &source(file)).concat();
        Step { name: function.rsplit("::").next().unwrap_or(function), body }
    }

    /// The positions in its text at which it calls a function with this name.
    fn calls(&self, name: &str) -> Vec<usize> {
        let call = format!("{name}(");
        let is_whole = |at: &usize| !self.body[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_call = |at: &usize| !self.body[..*at].ends_with("fn ");
        self.body.match_indices(&call).map(|(at, _)| at).filter(is_whole).filter(is_call).collect()
    }
}

/// The steps that no earlier step calls, and pairs of steps that their caller calls in the other order. The
/// caller of a step is the last earlier one that calls a function with its name.
fn faults_of_walk(steps: &[Step<'_>]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut callers: Vec<Option<usize>> = vec![None];
    for (position, step) in steps.iter().enumerate().skip(1) {
        let caller = (0..position).rev().find(|&earlier| !steps[earlier].calls(step.name).is_empty());
        let Some(index) = caller else {
            faults.push(format!("no function before {} calls it", step.name));
            callers.push(None);
            continue;
        };
        let last_call = steps[index].calls(step.name).last().copied();
        for other in (index + 1..position).filter(|&other| callers[other] == caller) {
            let first_call = steps[index].calls(steps[other].name).first().copied();
            if last_call < first_call {
                let (caller, other) = (steps[index].name, steps[other].name);
                faults.push(format!("{caller} calls {} before {other}", step.name));
            }
        }
        callers.push(caller);
    }
    faults
}

/// The text of a file of the tree; empty if there is none.
fn source(file: &str) -> String {
    std::fs::read_to_string(top().join(file)).unwrap_or_default()
}

/// The texts of the functions with a name, `name` or `Type::name`, without their comments. Sources have the
/// form of rustfmt, so a function ends at the next line with its own indentation and a brace.
fn bodies_of(function: &str, source: &str) -> Vec<String> {
    let (of_type, name) = match function.rsplit_once("::") {
        Some((of_type, name)) => (Some(of_type), name),
        None => (None, function),
    };
    let starts = [format!("fn {name}("), format!("fn {name}<")];
    let lines: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut bodies = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_start =
            starts.iter().any(|start| line.trim_start().split('"').next().unwrap().contains(start));
        if !is_start || !of_type.is_none_or(|of_type| is_in_type(&lines[..at], of_type)) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let rest = &lines[at..];
        let length = match line.ends_with('}') {
            true => 0,
            false => rest.iter().position(|line| *line == end).unwrap_or(0),
        };
        bodies.push(rest[..=length].join("\n"));
    }
    bodies
}

/// Whether the last `impl` of these lines is of a type.
fn is_in_type(lines: &[&str], of_type: &str) -> bool {
    let last = lines.iter().rev().find(|line| line.starts_with("impl"));
    last.is_some_and(|line| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == of_type))
}

/// The links to sources whose text is the name of a function: name and file.
fn function_links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("[`").skip(1).filter_map(|rest| {
        let (function, rest) = rest.split_once("`](")?;
        let (file, _) = rest.split_once(')')?;
        file.ends_with(".rs").then_some((function, file))
    })
}

// The parts below are checked too: a check must not pass because it finds no input.

#[test]
fn links_are_found_in_text_and_in_html_but_not_in_code() {
    let text = "[a](x.md) and ![b](img/y.png \"title\"), <img src=\"z.png\"><source srcset=\"w.png\">\n\
                `[c](no.md)`\n```sh\n[d](no.md)\n```\n[e]: ref.md\n";
    assert_eq!(links(text), ["x.md", "img/y.png", "z.png", "w.png", "ref.md"]);
}

#[test]
fn a_walk_that_skips_or_turns_calls_around_is_a_fault() {
    let source = "impl A {\n    fn first(&self) {\n        // second(1)\n        self.third(2);\n        \
                  second(3);\n    }\n\n    fn second() {}\n}\n\nimpl B {\n    fn second() {\n        \
                  fourth();\n    }\n}\n";
    assert_eq!(bodies_of("A::second", source), ["    fn second() {}"]);
    assert!(bodies_of("B::first", source).is_empty() && bodies_of("second", source).len() == 2);
    let walk = |names: &[&'static str]| {
        let step = |name: &&'static str| Step { name, body: bodies_of(name, source).concat() };
        faults_of_walk(&names.iter().map(step).collect::<Vec<_>>())
    };
    assert!(walk(&["first", "third", "second", "fourth"]).is_empty());
    assert_eq!(walk(&["first", "second", "third"]), ["first calls third before second"]);
    assert_eq!(walk(&["first", "fourth"]), ["no function before fourth calls it"]);
}

#[test]
fn headings_become_anchors_as_on_github() {
    assert_eq!(anchors("# A `b` c, d!\n## Same\n## Same\n```sh\n# no\n```\n"), ["a-b-c-d", "same", "same-1"]);
}

#[test]
fn command_lines_end_at_comments_and_pipes() {
    let block = Block {
        info: "console".into(),
        text: "$ touchstone load http://127.0.0.1/ \\\n    --json | jq .\nnot a command\n\
               $ A=1 make test # all\n\
               $ touchstone import curl \"curl -X PUT '/'\" --name a\n"
            .into(),
    };
    assert_eq!(
        command_lines(&block),
        [
            vec!["touchstone", "load", "http://127.0.0.1/", "--json"],
            vec!["make", "test"],
            vec!["touchstone", "import", "curl", "\"curl -X PUT '/'\"", "--name", "a"],
        ]
    );
}

#[test]
fn unknown_commands_options_and_targets_are_faults() {
    let options =
        BTreeMap::from([("load".to_string(), options_in("  -c, --clients <N>  how many [default: 8]"))]);
    let check = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        check_command_line(&words, &options, "test: setup\n").is_ok()
    };
    assert!(check("touchstone load URL --clients=3"));
    assert!(check("touchstone --help"));
    assert!(check("make test"));
    assert!(!check("touchstone loud URL"));
    assert!(!check("touchstone load URL --client 3"));
    assert!(!check("make tests"));
}

#[test]
fn unknown_suites_and_systems_are_faults() {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
    let line = "touchstone bench old --quick --sut ours,theirs,http://127.0.0.1/";
    let words: Vec<String> = line.split(' ').map(str::to_string).collect();
    assert!(unknown_names(&words, &names(&["old"]), &names(&["ours", "theirs"])).is_empty());
    assert_eq!(unknown_names(&words, &names(&["new"]), &names(&["ours"])), ["suite old", "system theirs"]);
}

/// The top of the source tree.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn shown(page: &Path) -> String {
    page.strip_prefix(top()).unwrap().display().to_string()
}

/// Every Markdown file of the tree, except in built, measured or hidden directories.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![top()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "results" {
                directories.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What `touchstone ARGUMENTS --help` prints, at a fixed width.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(arguments)
        .arg("--help")
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "touchstone {arguments:?} --help: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The words that a command without arguments prints.
fn printed(command: &str) -> BTreeSet<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_touchstone")).arg(command).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "touchstone {command}: {}", output.status);
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect()
}

/// Words of a `touchstone bench` line that are neither a suite nor a system; URLs and paths are systems and
/// suites of the reader.
fn unknown_names(words: &[String], suites: &BTreeSet<String>, systems: &BTreeSet<String>) -> Vec<String> {
    let own = |name: &str| name.contains('/');
    let suite =
        words[2..].first().filter(|name| !name.starts_with('-') && !own(name) && !suites.contains(*name));
    let named = words.windows(2).filter(|pair| pair[0] == "--sut").flat_map(|pair| pair[1].split(','));
    let mut unknown: Vec<String> = suite.map(|name| format!("suite {name}")).into_iter().collect();
    unknown.extend(
        named.filter(|name| !own(name) && !systems.contains(*name)).map(|name| format!("system {name}")),
    );
    unknown
}

/// The commands, as `touchstone --help` lists them.
fn commands() -> Vec<String> {
    let help = help(&[]);
    let (_, listed) = help.split_once("Commands:\n").expect("the help lists the commands");
    let listed: Vec<String> = listed
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_string())
        .filter(|command| command != "help")
        .collect();
    assert!(!listed.is_empty(), "no command in:\n{help}");
    listed
}

/// The help between the markers.
fn help_block(help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("\n```text\n{}\n```\n", lines.join("\n"))
}

fn block_between_markers(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(HELP_START)?;
    Some(rest.split_once(HELP_END)?.0)
}

/// The page with the help between its markers; at its end if it has none.
fn with_help(page: &str, block: &str) -> String {
    match (page.split_once(HELP_START), page.split_once(HELP_END)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{HELP_START}{block}{HELP_END}{after}"),
        _ => format!("{}\n\n## Options\n\n{HELP_START}{block}{HELP_END}\n", page.trim_end()),
    }
}

/// All words of a help text with the form of an option: `--clients`, `-c`.
fn options_in(help: &str) -> BTreeSet<String> {
    help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with('-') && word.len() > 1)
        .map(str::to_string)
        .collect()
}

/// A fenced block of a page.
struct Block {
    info: String,
    text: String,
}

fn fenced_blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.trim().into(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fenced block is not closed:\n{text}");
    blocks
}

/// The command lines of a block that begin with `touchstone` or `make`, in words.
fn command_lines(block: &Block) -> Vec<Vec<String>> {
    let joined = block.text.replace("\\\n", " ");
    let typed = joined.lines().filter_map(|line| match block.info.as_str() {
        "console" => line.strip_prefix("$ "),
        _ => Some(line),
    });
    typed
        .map(|line| {
            words(line)
                .skip_while(|word| word.contains('=') && !word.starts_with('-') || *word == "sudo")
                .take_while(|word| !word.starts_with(['#', '|', '>', '&', ';']) && !word.starts_with("2>"))
                .map(str::to_string)
                .collect::<Vec<_>>()
        })
        .filter(|words| words.first().is_some_and(|word| word == "make" || program(word) == "touchstone"))
        .collect()
}

/// The words of a line; text between quotation marks is one word, or a part of one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut open = None;
    let divides = move |character: char| {
        match open {
            Some(mark) if mark == character => open = None,
            None if matches!(character, '"' | '\'') => open = Some(character),
            _ => {}
        }
        open.is_none() && character.is_whitespace()
    };
    line.split(divides).filter(|word| !word.is_empty())
}

/// The last part of a path.
fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn check_command_line(
    words: &[String],
    options: &BTreeMap<String, BTreeSet<String>>,
    makefile: &str,
) -> Result<(), String> {
    if words[0] == "make" {
        let targets = words[1..].iter().filter(|word| !word.contains('='));
        return match targets
            .into_iter()
            .find(|target| !format!("\n{makefile}").contains(&format!("\n{target}:")))
        {
            Some(target) => Err(format!("the Makefile has no target {target}")),
            None => Ok(()),
        };
    }
    let Some(command) = words.get(1).filter(|word| !word.starts_with('-')) else { return Ok(()) };
    let Some(known) = options.get(command) else { return Err(format!("no command {command}")) };
    for word in &words[2..] {
        let option = word.split('=').next().unwrap_or(word);
        if option.starts_with('-') && option.len() > 1 && !known.contains(option) {
            return Err(format!("{command} has no option {option}"));
        }
    }
    Ok(())
}

/// Writes the files that examples name: a password file, with the password "password", tokens, secrets and
/// keys.
fn write_named_files(directory: &Path) -> Result<(), String> {
    let users = "ada:$2y$05$lfJtylH9G4my3uZb4KQoj.RJs0HrvF2/2gBTiiKW0CbphmKGbdPRG\n";
    for (name, text) in [
        ("users.htpasswd", users),
        ("admin.token", "0123456789abcdef0123456789abcdef\n"),
        ("control.tokens", "deploy change 0123456789abcdef\n"),
        ("links.secret", "a long secret of links\n"),
        ("ajp.secret", "a long secret\n"),
        ("login.keys", "0123456789abcdef0123456789abcdef\n"),
        ("login.secret", "a secret of the site\n"),
        (
            "monitoring-keys.json",
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"WSw3Md6LsQLwe2gfUpV4Sxg2Xur8Qzp-ihbp1p6YICE"}]}"#,
        ),
        ("tls/acme.tsig", "hmac-sha256:acme:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"),
    ] {
        let path = directory.join(name);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(directory))
            .and_then(|()| std::fs::write(&path, text))
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)));
        written.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Runs `touchstone check` on a configuration, in a directory where the roots and log directories that it
/// names exist.
fn check_configuration(text: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = directory.path().join("touchstone.toml");
    write_named_files(directory.path())?;
    // Configurations of plug-ins; lines of `directives` are the object `default`.
    let object = if text.contains("\ndirectives = ") { "other" } else { "default" };
    let obj_conf = format!("<Object name={object}>\n</Object>\n");
    for (name, content) in [
        // An application without a file in it: only the end of an archive.
        ("shop.war", "PK\u{5}\u{6}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("usr/share/touchstone/java/touchstone-servlet.jar", ""),
        ("hello.wasm", ""),
        ("maps/backends.map", "a.example.org a\n"),
        ("moved.map", "/old /new\n"),
        ("short.map", "a /about.html\n"),
        ("maps/countries.geo", "192.0.2.0/24 office;\n"),
        ("auth.wasm", ""),
        ("log.wasm", ""),
        ("config/obj.conf", &obj_conf[..]),
        ("config/magnus.conf", "ServerName www.example.org\n"),
        ("usr/local/lib/nsapi/hello.c", "int hello(void *a, void *b, void *c) { return -2; }\n"),
    ] {
        let path = directory.path().join(name);
        let made = std::fs::create_dir_all(path.parent().unwrap_or(directory.path()));
        made.and_then(|()| std::fs::write(&path, content)).map_err(|error| error.to_string())?;
    }
    // Plug-ins, which are loaded.
    for plugin in ["plugin.so", "hello.so"] {
        let plugins = directory.path().join("usr/local/lib/nsapi");
        let mut compiler = Command::new("cc");
        compiler.current_dir(plugins).args(["-shared", "-fPIC", "hello.c", "-o", plugin]);
        let status = compiler.status().map_err(|error| format!("cc: {error}"))?;
        assert!(status.success(), "{plugin}: {status}");
    }
    // Certificates for origins, which are read.
    let own =
        rcgen::generate_simple_self_signed(["localhost".to_string()]).map_err(|error| error.to_string())?;
    let key = own.signing_key.serialize_pem();
    // A file of a certificate may also have its key.
    let pem = own.cert.pem() + &key;
    for (name, content) in [
        ("internal.pem", &pem),
        ("origins.pem", &pem),
        ("edge.pem", &pem),
        ("edge.key", &key),
        ("mail.pem", &pem),
        ("mail.key", &key),
        ("proxy.pem", &pem),
        ("proxy.key", &key),
        ("clients.pem", &pem),
    ] {
        let tls = directory.path().join("tls");
        let made = std::fs::create_dir_all(&tls).and_then(|()| std::fs::write(tls.join(name), content));
        made.map_err(|error| error.to_string())?;
    }
    std::fs::write(directory.path().join("places.mmdb"), EMPTY_LOCATIONS)
        .map_err(|error| error.to_string())?;
    let mut placed = String::new();
    let mut in_server = false;
    for line in text.lines() {
        if line.starts_with('[') {
            in_server = line == "[server]";
        }
        let placed_line = match in_server {
            true => as_ourselves(line).map_or_else(|| in_directory(line, directory.path()), Ok),
            false => in_directory(line, directory.path()),
        };
        placed.push_str(&placed_line?);
        placed.push('\n');
    }
    std::fs::write(&file, placed).map_err(|error| error.to_string())?;
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["check", "--config"])
        .arg(&file)
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "check: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// A file in MaxMind's format without addresses: one node, and the metadata that readers need.
const EMPTY_LOCATIONS: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \xab\xcd\xefMaxMind.com\xe9\x4anode_count\xc1\x01\x4brecord_size\xa1\x18\x4aip_version\xa1\x04\
    \x5bbinary_format_major_version\xa1\x02\x5bbinary_format_minor_version\xa1\0\
    \x4bbuild_epoch\x01\x02\x01\x4ddatabase_type\x44None\x49languages\0\x04\x4bdescription\xe0";

/// A line of `[server]` that names the server's user: here the user of the test, because examples name users
/// that this machine need not have, and that may not read a directory of the test.
fn as_ourselves(line: &str) -> Option<String> {
    match line.split_once(" = ")?.0 {
        "user" => Some(format!("user = \"{}\"", rustix::process::geteuid().as_raw())),
        "group" => Some(format!("group = \"{}\"", rustix::process::getegid().as_raw())),
        "supplementary_groups" => Some("supplementary_groups = []".to_string()),
        _ => None,
    }
}

/// A line whose value is an absolute path, moved below `directory`; what it needs there is made.
fn in_directory(line: &str, directory: &Path) -> Result<String, String> {
    if let Some(program) = line.strip_prefix("command = [\"/") {
        return with_program(program, directory);
    }
    if let Some(shared) = line.strip_prefix("directories = [\"/data=/") {
        let path = directory.join(shared.split('"').next().unwrap_or(shared));
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        return Ok(format!("directories = [\"/data={}\"]", path.display()));
    }
    if line.starts_with("files = [") {
        return Ok(format!("files = [{:?}]", directory.join("places.mmdb")));
    }
    let Some((key, value)) = line.split_once(" = \"") else { return Ok(line.to_string()) };
    if key == "ca_certificate" {
        return Ok(format!("ca_certificate = {:?}", directory.join("tls/internal.pem")));
    }
    let value = value.split('"').next().unwrap_or(value);
    let is_certificate = matches!(key, "certificate" | "client_authorities") && value.ends_with(".pem");
    if is_certificate || key == "key" && value.ends_with(".key") {
        let file = if key == "key" { "edge.key" } else { "edge.pem" };
        return Ok(format!("{key} = {:?}", directory.join("tls").join(file)));
    }
    let place = directory.join(value.trim_start_matches('/'));
    let made = match key {
        // The URL of a certificate authority is called a directory too, but is not a path.
        "directory" if !value.starts_with('/') => return Ok(line.to_string()),
        "root" | "directory" | "spool_directory" | "virtualenv" | "library" => {
            std::fs::create_dir_all(&place)
        }
        "program" | "interpreter" => std::fs::create_dir_all(place.parent().unwrap_or(directory))
            .and_then(|()| std::fs::write(&place, "#!/bin/sh\n")),
        "pid_file" | "control_socket" if value.contains('/') => {
            std::fs::create_dir_all(place.parent().unwrap_or(directory))
        }
        "storage" => std::fs::create_dir_all(place.parent().unwrap_or(directory)),
        "path" if value.contains('/') => std::fs::create_dir_all(place.parent().unwrap_or(directory)),
        _ => return Ok(line.to_string()),
    };
    made.map_err(|error| error.to_string())?;
    Ok(format!("{key} = \"{}\"", place.display()))
}

/// A `command` whose program is made below `directory`.
fn with_program(rest: &str, directory: &Path) -> Result<String, String> {
    let (path, after) = rest.split_once('"').unwrap_or((rest, ""));
    let program = directory.join(path);
    let made = std::fs::create_dir_all(program.parent().unwrap_or(directory))
        .and_then(|()| std::fs::copy("/bin/true", &program));
    made.map_err(|error| error.to_string())?;
    Ok(format!("command = [{program:?}{after}"))
}

/// The targets of all links and pictures outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        // Every second piece between back quotes is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (start, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
            for piece in prose.split(start).skip(1) {
                let target = piece.split(end).next().unwrap_or(piece);
                found.push(target.split_whitespace().next().unwrap_or_default().to_string());
            }
        }
        if let Some((_, target)) = prose.split_once("]: ").filter(|(label, _)| label.starts_with('[')) {
            found.push(target.trim().to_string());
        }
    }
    found
}

/// The anchors of a page's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        if in_fence || !line.starts_with('#') {
            continue;
        }
        let slug: String = line
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let same = |number: usize| if number == 0 { slug.clone() } else { format!("{slug}-{number}") };
        let free = (0..).map(same).find(|candidate| !found.contains(candidate));
        found.extend(free);
    }
    found
}

/// Whether a link of a page is valid: it names an existing file, and an existing heading in it.
fn resolve(page: &Path, link: &str) -> Result<(), String> {
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (link, None),
    };
    let target = match file {
        "" => page.to_path_buf(),
        _ => page.parent().unwrap_or(page).join(file),
    };
    if !target.exists() {
        return Err("no such file".to_string());
    }
    match anchor {
        Some(anchor) => {
            let text = std::fs::read_to_string(&target).map_err(|error| error.to_string())?;
            match anchors(&text).iter().any(|it| it == anchor) {
                true => Ok(()),
                false => Err(format!("no heading #{anchor}")),
            }
        }
        None => Ok(()),
    }
}
