//! The first minutes: `serve` with almost no arguments, `init`, and the files generated from the definitions
//! of commands and keys: completions, manual pages, the schema.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Origin, SECOND, Server, Tree, binary, error_lines, run, run_in, skipped};

#[test]
fn without_options_this_directory_is_served_on_a_free_port() {
    let tree = Tree::standard();
    let mut command = binary();
    command.arg("serve").current_dir(tree.root()).stdin(Stdio::null());
    let server = Server::start_piped(command);
    assert!(server.address().ip().is_loopback() && server.address().port() != 0);
    let said = server.error_text();
    assert!(said.contains(&tree.root().display().to_string()), "{said}");
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn a_directory_a_configuration_and_a_url_are_told_apart() {
    let tree = Tree::standard();
    let root = tree.root();
    fs::create_dir(root.join("empty")).unwrap();
    let server = Server::start([root.as_os_str(), "--listen".as_ref(), "127.0.0.1:0".as_ref()]);
    server.assert_serves("/second.txt", SECOND.as_bytes());
    assert_eq!(server.get("/empty/").status, 200, "a directory shows what is in it");

    let accelerating = Server::start([format!("http://{}", server.address())]);
    let miss = accelerating.get("/second.txt");
    assert_eq!((miss.status, miss.body.as_slice()), (200, SECOND.as_bytes()));
    assert!(miss.field("cache-status").is_some());

    let file = tree.beside("site.toml");
    fs::write(&file, tree.configuration("")).unwrap();
    Server::start([&file]).assert_serves("/second.txt", SECOND.as_bytes());
    let refused = run(["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error_lines(&refused)[0].contains("sets its own addresses"), "{:?}", error_lines(&refused));
}

#[test]
fn a_certificate_goes_with_every_kind() {
    let url = format!("http://{}", one_answer().address);
    let server = Server::start([url.as_str(), "--development-certificate"]);
    assert!(server.error_text().contains("https://"), "{}", server.error_text());
}

/// A server that answers every request.
fn one_answer() -> Origin {
    Origin::answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
}

#[test]
fn init_writes_what_serves_and_does_not_write_over_it() {
    let tree = Tree::standard();
    let root = tree.root();
    let init = |more: &[&str]| {
        let first = ["init", "--yes", "--listen", "127.0.0.1:0"];
        run_in(tree.around(), first.iter().chain(more))
    };
    let root = ["--root", root.to_str().unwrap()];
    let output = init(&root);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let file = tree.beside("touchstone.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# "), "{text}");
    assert_eq!(run(["check", "--config", file.to_str().unwrap()]).status.code(), Some(0));
    Server::start([&file]).assert_serves("/second.txt", SECOND.as_bytes());

    let again = init(&["--kind", "proxy"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(error_lines(&again)[0].contains("--force"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let to = format!("http://{}", one_answer().address);
    let forced = init(&["--kind", "accelerate", "--to", &to, "--force"]);
    assert_eq!(forced.status.code(), Some(0), "{:?}", error_lines(&forced));
    assert_eq!(Server::start([&file]).get("/").body, b"hi");

    let printed = init(&["-", root[0], root[1]]);
    assert!(String::from_utf8(printed.stdout).unwrap().contains("[[site]]"));
    for (words, message) in [
        (&["other.toml", "--kind", "proxy", "--to", "localhost"][..], "an origin is"),
        (&["other.toml", "--host", "a b"], "host name"),
        (&["other.toml", "--kind", "servlet"], "--app: an answer is needed"),
        (&["other.toml", "--kind", "files", "--to", "http://a"], "--to has no effect with --kind files"),
        (&["."], "is a directory; name a file, such as ./touchstone.toml"),
        (&["missing/other.toml"], "the directory missing does not exist"),
    ] {
        let refused = init(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let lines = error_lines(&refused);
        assert!(lines.len() == 1 && lines[0].contains(message), "{lines:?}");
        assert!(!tree.beside("other.toml").exists());
    }
    let missing = run_in(tree.around(), ["init", "--yes", "other.toml", "--root", "missing-directory"]);
    assert_eq!(missing.status.code(), Some(1), "what the machine lacks is said: {:?}", error_lines(&missing));
    assert!(error_lines(&missing)[0].contains("missing-directory"), "{:?}", error_lines(&missing));
    let asked = run_in(tree.around(), ["init", "third.toml"]);
    assert!(error_lines(&asked)[0].contains("--yes"), "{:?}", error_lines(&asked));
}

/// What a newcomer writes first and wrong is refused with what to write instead.
#[test]
fn wrong_commands_are_told_what_to_write() {
    let tree = Tree::standard();
    fs::write(tree.beside("binary"), [b'a', 0, 0xff, b'\n']).unwrap();
    for (words, message) in [
        (&["serve", "a", "b"][..], "one target at a time"),
        (&["serve", ""], "write . for this directory"),
        (&["serve", ":3000"], "http://127.0.0.1:3000"),
        (&["serve", "missing.toml"], "`touchstone init missing.toml`"),
        (&["serve", "--port", "8080"], "'--listen 127.0.0.1:PORT'"),
        (&["import", "nginx", "."], "is a directory; name the file"),
        (&["import", "nginx", "binary"], "not a text file"),
        (&["import", "caddy", "binary"], "not a text file"),
        (&["import", "apache", "binary"], "not a text file"),
    ] {
        let output = run_in(tree.around(), words);
        let text = error_lines(&output).join("\n");
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}: {text}");
        assert!(text.contains(message) && !text.contains("as a value, use"), "{words:?}: {text}");
    }
    let asked = run_in(tree.around(), ["status", "--config", "missing.toml"]);
    let lines = error_lines(&asked);
    assert_eq!((asked.status.code(), lines.len()), (Some(1), 1), "{lines:?}");
    assert!(lines[0].starts_with("touchstone status: missing.toml: no such file"), "{lines:?}");
}

#[test]
fn completions_are_scripts_that_the_shells_take() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("accelerate") && text.contains("development-certificate"), "{shell}");
        assert!(!text.contains("nsapi-host"), "{shell}: what only the server starts is completed");
        let file = directory.path().join(shell);
        fs::write(&file, &text).unwrap();
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {checked:?}"),
            Err(_) => skipped(&format!("the completions for {shell} (install {shell})")),
        }
    }
    let script = format!(
        "source {}; COMP_WORDS=(touchstone serve --ro); COMP_CWORD=2; _touchstone touchstone --ro serve; \
         echo \"${{COMPREPLY[@]}}\"",
        directory.path().join("bash").display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--root", "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let output = run(["man", pages.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let read =
        |name: &str| fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let program = read("touchstone.1");
    for command in ["serve", "load", "init", "import", "man"] {
        assert!(program.contains(command), "touchstone.1 lacks {command}");
        assert!(read(&format!("touchstone-{command}.1")).contains("EXIT STATUS"));
    }
    assert!(!pages.join("touchstone-spawner.1").exists());
    assert!(read("touchstone-serve.1").contains("development"));
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let Ok(checked) = Command::new("groff").args(["-ww", "-man", "-Tascii", "-z"]).arg(&page).output()
        else {
            return skipped("a look at the manual pages (install groff)");
        };
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success() && said.is_empty(), "{}: {said}", page.display());
    }
}

#[test]
fn manual_pages_that_cannot_be_written_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let output = run(["man", file.join("below").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_lines(&output)[0].contains(file.to_str().unwrap()));
}

/// Says whether a value keeps to the schema that the program prints, and what is wrong with it.
struct Schema {
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
}

impl Schema {
    fn printed() -> Schema {
        let output = run(["schema"]);
        assert_eq!(output.status.code(), Some(0));
        let schema = serde_json::from_slice(&output.stdout).unwrap();
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("touchstone.json", schema).unwrap();
        let index = compiler.compile("touchstone.json", &mut schemas).unwrap();
        Schema { schemas, index }
    }

    fn check(&self, configuration: &str) -> Result<(), String> {
        let table: toml::Table = configuration.parse().map_err(|error| format!("{error}"))?;
        let value = serde_json::to_value(table).unwrap();
        self.schemas.validate(&value, self.index).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn every_configuration_in_the_documentation_keeps_to_the_schema() {
    let schema = Schema::printed();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    let mut pages: Vec<_> =
        fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(top.join("README.md"));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(page).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            seen += 1;
            schema.check(block).unwrap_or_else(|fault| panic!("{}: {fault}\n{block}", page.display()));
        }
    }
    for name in ["touchstone.toml", "container.toml"] {
        schema.check(&fs::read_to_string(top.join("packaging").join(name)).unwrap()).unwrap();
    }
    assert!(seen > 40, "only {seen} configurations were found");
}

#[test]
fn the_schema_refuses_what_check_refuses() {
    let schema = Schema::printed();
    let site = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n";
    schema.check(site).unwrap();
    for (text, word) in [
        ("", "site"),
        ("[[site]]\nlisten = ['127.0.0.1:80']\n", "root"),
        ("[[site]]\nlisten = []\nroot = 'www'\n", "listen"),
        ("[site]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n", "array"),
        (&format!("[limit]\n{site}"), "limit"),
        (&format!("[limits]\nranges = 'many'\n{site}"), "ranges"),
        (&format!("[limits]\nheader_timeout = 10\n{site}"), "header_timeout"),
        (&format!("[limits]\nbody_bytes = '10 pounds'\n{site}"), "body_bytes"),
        (&format!("{site}rot = 'www'\n"), "rot"),
        (&format!("{site}listing = 'pretty'\n"), "listing"),
        (&format!("{site}error_pages = {{ 200 = '/a' }}\n"), "200"),
        (&format!("{site}[[site.route]]\npath = '/'\nproxy = {{ too = 'http://a' }}\n"), "too"),
        (&format!("{site}[[site.route]]\npath = '/'\nphp = 9000\n"), "php"),
    ] {
        let fault = schema.check(text).expect_err(text);
        assert!(fault.contains(word), "{text}: {fault}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("site.toml");
        fs::write(&file, text).unwrap();
        assert_eq!(run(["check", "--config", file.to_str().unwrap()]).status.code(), Some(1), "{text}");
    }
}
