//! `touchstone init`: a configuration with comments, from a few answers.
//!
//! There is no question for an option that was given. An answer is checked at once, and the whole
//! configuration as by `touchstone check`.

mod text;

use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use touchstone_config::load_text;
use touchstone_proxy::OriginUrl;
use touchstone_sites::machine::check_machine;
use touchstone_sites::site_tls::check_certificates;

use super::print::print;
use crate::exit::Exit;

/// The answers that are known from options.
#[derive(clap::Args, Default)]
#[command(
    after_help = "Missing options are asked for on a terminal, or with --yes have their defaults. Example:\n\
    touchstone init --yes --kind proxy --to http://127.0.0.1:3000 --host a.org --tls acme --agree-to-terms"
)]
pub(crate) struct Arguments {
    /// The file to write; "-": standard output
    #[arg(value_name = "FILE", default_value = "touchstone.toml")]
    file: PathBuf,

    /// What to serve
    #[arg(long, value_enum)]
    kind: Option<Kind>,

    /// The directory of the files (files, php)
    #[arg(long, value_name = "DIR")]
    root: Option<String>,

    /// The application behind the server: http://host:port, https://host:port or unix:/path/of/socket (proxy,
    /// accelerate)
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// The address of php-fpm (unix:/path/of/socket or host:port), or "managed": started by the server (php)
    #[arg(long, value_name = "ADDRESS")]
    php: Option<String>,

    /// The Java web application: a WAR or a directory (servlet)
    #[arg(long, value_name = "PATH")]
    app: Option<String>,

    /// A host name; may be given several times [default: every host]
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// The source of the certificate
    #[arg(long, value_enum)]
    tls: Option<Tls>,

    /// The PEM file with the certificate and its chain (tls files)
    #[arg(long, value_name = "PEM")]
    cert: Option<String>,

    /// The PEM file with the private key (tls files)
    #[arg(long, value_name = "PEM")]
    key: Option<String>,

    /// The email address for the authority (tls acme)
    #[arg(long, value_name = "EMAIL")]
    contact: Option<String>,

    /// Agree to the terms of Let's Encrypt: https://letsencrypt.org/repository/ (tls acme)
    #[arg(long)]
    agree_to_terms: bool,

    /// The address and port to listen on [default: 127.0.0.1:8080, with a certificate 0.0.0.0:443]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    listen: Option<SocketAddr>,

    /// Do not ask: missing options have their defaults
    #[arg(long, short)]
    yes: bool,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub(super) enum Kind {
    /// The files of a directory
    Files,
    /// An application behind this server
    Proxy,
    /// The same, with a cache in front of it
    Accelerate,
    /// A PHP application
    Php,
    /// A Java web application
    Servlet,
}

/// The sources of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub(super) enum Tls {
    /// None: plain HTTP
    Off,
    /// Let's Encrypt, renewed by the server itself
    Acme,
    /// Your own files
    Files,
    /// Created at the start and trusted by no browser, for tests
    Development,
}

/// The contents of the configuration.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    kind: Kind,
    /// The directory, URL, address or application that belongs to the kind.
    what: String,
    /// The directory of the site.
    root: String,
    hosts: Vec<String>,
    tls: Tls,
    certificate: String,
    key: String,
    contact: String,
    listen: SocketAddr,
    /// The server will be started by root.
    is_root: bool,
    /// The directory has an application whose `index.php` answers for paths that are not files.
    is_application: bool,
}

impl Arguments {
    /// The kind that the options mean.
    fn usual_kind(&self) -> Kind {
        match self {
            Arguments { to: Some(_), .. } => Kind::Proxy,
            Arguments { php: Some(_), .. } => Kind::Php,
            Arguments { app: Some(_), .. } => Kind::Servlet,
            _ => Kind::Files,
        }
    }

    /// Options that belong to other kinds have no effect.
    fn check_kind(&self, kind: Kind) -> Result<(), String> {
        let misplaced = [
            ("--root", self.root.is_some(), &[Kind::Files, Kind::Php][..]),
            ("--to", self.to.is_some(), &[Kind::Proxy, Kind::Accelerate]),
            ("--php", self.php.is_some(), &[Kind::Php]),
            ("--app", self.app.is_some(), &[Kind::Servlet]),
        ];
        check_places(&misplaced, "--kind", kind)
    }

    /// The same for the source of the certificate.
    fn check_tls(&self, tls: Tls) -> Result<(), String> {
        let misplaced = [
            ("--cert", self.cert.is_some(), &[Tls::Files][..]),
            ("--key", self.key.is_some(), &[Tls::Files]),
            ("--contact", self.contact.is_some(), &[Tls::Acme]),
            ("--agree-to-terms", self.agree_to_terms, &[Tls::Acme]),
        ];
        check_places(&misplaced, "--tls", tls)
    }
}

/// Refuses options that were given and do not belong to the choice. Each has the choices that it belongs to.
fn check_places<T: clap::ValueEnum + PartialEq + Copy>(
    options: &[(&str, bool, &[T])],
    of: &str,
    choice: T,
) -> Result<(), String> {
    let misplaced = options.iter().find(|(_, is_given, choices)| *is_given && !choices.contains(&choice));
    let Some((option, _, choices)) = misplaced else { return Ok(()) };
    let choices: Vec<String> = choices.iter().map(|choice| name(*choice)).collect();
    Err(format!(
        "{option} has no effect with {of} {}; remove it, or use {of} {}",
        name(choice),
        choices.join(" or ")
    ))
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not a numeric address with a port, such as 127.0.0.1:8080 or [::1]:8080")
    })
}

/// Asks, writes and checks.
pub(crate) fn run(arguments: Arguments) -> Exit {
    let is_output = arguments.file == Path::new("-");
    if let Some(message) = problem_of_file(&arguments.file, arguments.force).filter(|_| !is_output) {
        return refuse(&message);
    }
    if !arguments.yes && !io::stdin().is_terminal() {
        return refuse(
            "standard input is not a terminal; use --yes, and options for other values than the defaults",
        );
    }
    let mut ask = Prompt { input: io::stdin().lock(), output: io::stderr(), is_silent: arguments.yes };
    let written = answers(&arguments, &mut ask).map(|answers| text::configuration(&answers));
    let text = match written {
        Ok(text) => text,
        Err(message) => return refuse(&message),
    };
    // The text is generated: a problem in it is one of an answer.
    if let Err(problems) = load_text(&text, &arguments.file) {
        return refuse(
            &problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; "),
        );
    }
    if is_output {
        print(&text);
        return Exit::Done;
    }
    if let Err(error) = write(&arguments.file, &text, arguments.force) {
        return refuse(&format!("{}: {error}", arguments.file.display()));
    }
    report(&arguments.file)
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone init: {message}");
    Exit::Usage
}

/// Why this file cannot be written, as far as is known before the questions.
fn problem_of_file(file: &Path, force: bool) -> Option<String> {
    let shown = file.display();
    if file.is_dir() {
        let inside = file.join("touchstone.toml");
        return Some(format!("{shown}: is a directory; name a file, such as {}", inside.display()));
    }
    if !force && file.exists() {
        return Some(format!("{shown}: exists already; --force overwrites it"));
    }
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    let is_missing = !directory.exists();
    is_missing.then(|| format!("{shown}: the directory {} does not exist; create it", directory.display()))
}

fn write(file: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(force).create(force).create_new(!force);
    options.open(file)?.write_all(text.as_bytes())
}

/// Prints what was written, and what is missing on the machine.
fn report(file: &Path) -> Exit {
    let shown = file.display();
    let problems = match touchstone_config::load_file(file) {
        Ok(loaded) => {
            let mut problems = check_machine(&loaded.config, &loaded.places);
            problems.extend(check_certificates(&loaded.config, &loaded.places));
            problems
        }
        Err(problems) => problems,
    };
    if problems.is_empty() {
        print(&format!("{shown} is written. Start: touchstone serve --config {shown}"));
        return Exit::Done;
    }
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    print(&format!(
        "{shown} is written; the above is missing. Check again: touchstone check --config {shown}"
    ));
    Exit::Failed
}

/// Asks a person on a terminal, or takes every default.
struct Prompt<I, O> {
    input: I,
    output: O,
    is_silent: bool,
}

impl<I: BufRead, O: Write> Prompt<I, O> {
    /// The option of this name, or else the answer to the question, or else the default; repeats the question
    /// until the answer is valid.
    fn answer<T>(
        &mut self,
        (name, option): (&str, Option<String>),
        question: &str,
        default: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        if let Some(given) = option {
            return check(&given).map_err(|message| format!("{name}: {message}"));
        }
        if self.is_silent {
            return check(default).map_err(|message| format!("{name}: {message}"));
        }
        loop {
            let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            let written = write!(self.output, "{question}{shown}: ").and_then(|()| self.output.flush());
            written.map_err(|error| error.to_string())?;
            let mut line = String::new();
            match self.input.read_line(&mut line) {
                Ok(0) => return Err("the answers ended; nothing is written".to_string()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            }
            let line = line.trim();
            match check(if line.is_empty() { default } else { line }) {
                Ok(answer) => return Ok(answer),
                Err(message) => _ = writeln!(self.output, "  {message}"),
            }
        }
    }
}

fn choice<T: clap::ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let names: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|value| Some(value.to_possible_value()?.get_name().to_string()))
            .collect();
        format!("{text:?} is not one of {}", names.join(", "))
    })
}

/// The name of a choice, as on the command line.
fn name<T: clap::ValueEnum>(value: T) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

fn some_text(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an answer is needed".to_string()),
        text => Ok(text.to_string()),
    }
}

fn answers<I: BufRead, O: Write>(arguments: &Arguments, ask: &mut Prompt<I, O>) -> Result<Answers, String> {
    let kind_question = "What is to be served: files, proxy, accelerate, php or servlet";
    let usual = name(arguments.usual_kind());
    let kind: Kind = ask.answer(("--kind", arguments.kind.map(name)), kind_question, &usual, choice)?;
    arguments.check_kind(kind)?;
    let mut root = String::from(".");
    if matches!(kind, Kind::Files | Kind::Php) {
        let usual = ["public", "www", "site"].into_iter().find(|name| Path::new(name).is_dir());
        let question = "Directory of the files";
        root = ask.answer(("--root", arguments.root.clone()), question, usual.unwrap_or("."), some_text)?;
    }
    let what = match kind {
        Kind::Files => String::new(),
        Kind::Proxy | Kind::Accelerate => {
            let origin = |text: &str| OriginUrl::parse(text).map(|_| text.to_string());
            let question = "URL of the application";
            ask.answer(("--to", arguments.to.clone()), question, "http://127.0.0.1:3000", origin)?
        }
        Kind::Php => {
            let question = "php-fpm: unix:/path/of/socket, host:port, or managed (started by the server)";
            ask.answer(("--php", arguments.php.clone()), question, &php_socket(), some_text)?
        }
        Kind::Servlet => {
            ask.answer(("--app", arguments.app.clone()), "The application (.war)", "", some_text)?
        }
    };
    let hosts = if arguments.hosts.is_empty() {
        let split = |text: &str| {
            Ok(text.split([' ', ',']).filter(|host| !host.is_empty()).map(String::from).collect())
        };
        ask.answer(("--host", None), "Host names, with spaces between (none: every host)", "", split)?
    } else {
        arguments.hosts.clone()
    };
    let (certificate_file, default) = match &arguments.cert {
        Some(file) => (file.clone(), "files"),
        None => (String::new(), "off"),
    };
    let tls_question = "Certificate: off, acme (Let's Encrypt), files or development";
    let tls: Tls = ask.answer(("--tls", arguments.tls.map(name)), tls_question, default, choice)?;
    arguments.check_tls(tls)?;
    let mut answers = Answers {
        kind,
        what,
        root,
        hosts,
        tls,
        certificate: certificate_file,
        key: arguments.key.clone().unwrap_or_default(),
        contact: arguments.contact.clone().unwrap_or_default(),
        listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
        is_root: rustix::process::geteuid().is_root(),
        is_application: false,
    };
    answers.is_application = has_front_controller(Path::new(&answers.root));
    certificate(arguments, ask, &mut answers)?;
    let default = if tls == Tls::Off { "127.0.0.1:8080" } else { "0.0.0.0:443" };
    let listen = arguments.listen.map(|listen| listen.to_string());
    answers.listen =
        ask.answer(("--listen", listen), "Address and port to listen on", default, parse_address)?;
    Ok(answers)
}

/// Asks for the settings of this kind of certificate.
fn certificate<I: BufRead, O: Write>(
    arguments: &Arguments,
    ask: &mut Prompt<I, O>,
    answers: &mut Answers,
) -> Result<(), String> {
    match answers.tls {
        Tls::Off | Tls::Development => {}
        Tls::Files => {
            answers.certificate = ask.answer(
                ("--cert", arguments.cert.clone()),
                "Certificate (PEM)",
                "certificate.pem",
                some_text,
            )?;
            let any = |text: &str| Ok(text.to_string());
            answers.key = ask.answer(
                ("--key", arguments.key.clone()),
                "Its key (PEM; none: in the same file)",
                "",
                any,
            )?;
        }
        Tls::Acme => {
            if answers.hosts.is_empty() {
                return Err("a certificate by ACME is for host names: name at least one (--host)".to_string());
            }
            let any = |text: &str| Ok(text.to_string());
            let question = "Email address for the authority (none: it sends no messages)";
            answers.contact = ask.answer(("--contact", arguments.contact.clone()), question, "", any)?;
            let agreed = arguments.agree_to_terms.then(|| "yes".to_string());
            let question = "Do you agree to https://letsencrypt.org/repository/ (yes or no)";
            let is_agreed = ask.answer(("--agree-to-terms", agreed), question, "no", |text| match text {
                "yes" | "y" => Ok(true),
                "no" | "n" => Ok(false),
                _ => Err("yes or no".to_string()),
            })?;
            if !is_agreed {
                return Err(
                    "without agreement to its terms there is no certificate (--agree-to-terms)".to_string()
                );
            }
        }
    }
    Ok(())
}

/// The socket of the php-fpm that is installed, or the word for one of the server's own.
fn php_socket() -> String {
    let mut sockets: Vec<String> = std::fs::read_dir("/run/php")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.ends_with("-fpm.sock"))
        .collect();
    sockets.sort();
    sockets.pop().map_or("managed".to_string(), |path| format!("unix:{path}"))
}

/// Whether the directory is that of WordPress, Laravel, Symfony or Drupal.
fn has_front_controller(root: &Path) -> bool {
    const MARKS: [&str; 4] = ["wp-login.php", "../artisan", "../bin/console", "core/lib/Drupal.php"];
    root.join("index.php").is_file() && MARKS.iter().any(|mark| root.join(mark).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_get_their_front_controller() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("index.php"), "").unwrap();
        let arguments = || Arguments {
            yes: true,
            kind: Some(Kind::Php),
            root: Some(directory.path().display().to_string()),
            php: Some("managed".into()),
            ..Arguments::default()
        };
        let front = "\nphp = { user = \"www-data\", front_controller = \"/index.php\" }\n";
        let text = |is_root| {
            let answers = Answers { is_root, ..asked(arguments(), "").0.unwrap() };
            text::configuration(&answers)
        };
        assert!(text(false).contains("\nphp = \"managed\"\n"), "{}", text(false));
        assert!(text(true).contains("\nphp = { user = \"www-data\" }\n"), "{}", text(true));
        std::fs::write(directory.path().join("wp-login.php"), "").unwrap();
        assert!(text(true).contains(front), "{}", text(true));
    }

    fn asked(arguments: Arguments, typed: &str) -> (Result<Answers, String>, String) {
        let mut output = Vec::new();
        let is_silent = arguments.yes;
        let mut ask = Prompt { input: typed.as_bytes(), output: &mut output, is_silent };
        let answers = answers(&arguments, &mut ask);
        (answers, String::from_utf8(output).unwrap())
    }

    #[test]
    fn what_is_wrong_is_asked_again() {
        let typed = "fish\nproxy\nlocalhost\nhttp://127.0.0.1:9\na.org, b.org\noff\n\n";
        let (answers, output) = asked(Arguments::default(), typed);
        let answers = answers.unwrap();
        assert_eq!((answers.kind, answers.what.as_str()), (Kind::Proxy, "http://127.0.0.1:9"));
        assert_eq!(answers.hosts, ["a.org", "b.org"]);
        assert_eq!(answers.listen.to_string(), "127.0.0.1:8080");
        assert!(output.contains("not one of files, proxy"), "{output}");
        assert!(output.contains("an origin is"), "{output}");
    }

    #[test]
    fn options_mean_a_kind_and_belong_to_it() {
        let of = |change: fn(&mut Arguments)| {
            let mut arguments = Arguments { yes: true, ..Arguments::default() };
            change(&mut arguments);
            asked(arguments, "").0
        };
        let origin = || Some("http://127.0.0.1:9".to_string());
        assert_eq!(of(|own| own.to = Some("unix:/a.sock".into())).unwrap().kind, Kind::Proxy);
        assert_eq!(of(|own| own.app = Some("a.war".into())).unwrap().kind, Kind::Servlet);
        assert_eq!(of(|own| own.php = Some("managed".into())).unwrap().kind, Kind::Php);
        let refused = |arguments: Arguments| asked(Arguments { yes: true, ..arguments }, "").0.unwrap_err();
        let files = Some(Kind::Files);
        assert_eq!(
            refused(Arguments { kind: files, to: origin(), ..Arguments::default() }),
            "--to has no effect with --kind files; remove it, or use --kind proxy or accelerate"
        );
        let contact = Some("a@b".to_string());
        assert_eq!(
            refused(Arguments { contact, ..Arguments::default() }),
            "--contact has no effect with --tls off; remove it, or use --tls acme"
        );
        assert_eq!(
            refused(Arguments { kind: Some(Kind::Servlet), ..Arguments::default() }),
            "--app: an answer is needed"
        );
        assert_eq!(
            refused(Arguments { root: Some(" ".into()), ..Arguments::default() }),
            "--root: an answer is needed"
        );
        assert!(parse_address("8080").unwrap_err().contains("127.0.0.1:8080"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_before_the_questions() {
        let directory = tempfile::tempdir().unwrap();
        let problem = |name: &str, force| {
            let above = format!("{}/", directory.path().display());
            problem_of_file(&directory.path().join(name), force).map(|text| text.replace(&above, ""))
        };
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::fs::write(directory.path().join("a.toml"), "").unwrap();
        assert_eq!(problem("new.toml", false), None);
        assert_eq!(problem("a.toml", true), None);
        let is = |text: &str| Some(text.to_string());
        assert_eq!(problem("a.toml", false), is("a.toml: exists already; --force overwrites it"));
        assert_eq!(problem("d", true), is("d: is a directory; name a file, such as d/touchstone.toml"));
        assert_eq!(problem("e/a.toml", true), is("e/a.toml: the directory e does not exist; create it"));
        assert_eq!(problem_of_file(Path::new("no-such-file.toml"), false), None);
    }

    #[test]
    fn the_end_of_the_answers_writes_nothing() {
        assert!(asked(Arguments::default(), "files\n").0.unwrap_err().contains("ended"));
    }

    #[test]
    fn nothing_is_asked_with_yes_and_terms_are_agreed_to_in_words_alone() {
        let arguments = |agree_to_terms| Arguments {
            yes: true,
            agree_to_terms,
            tls: Some(Tls::Acme),
            hosts: vec!["example.org".into()],
            ..Arguments::default()
        };
        let (refused, output) = asked(arguments(false), "");
        assert!(refused.unwrap_err().contains("--agree-to-terms") && output.is_empty());
        assert_eq!(asked(arguments(true), "").0.unwrap().listen.port(), 443);
        let without_host = Arguments { hosts: Vec::new(), ..arguments(true) };
        assert!(asked(without_host, "").0.unwrap_err().contains("--host"));
    }

    #[test]
    fn every_combination_is_a_configuration() {
        for kind in [Kind::Files, Kind::Proxy, Kind::Accelerate, Kind::Php, Kind::Servlet] {
            for tls in [Tls::Off, Tls::Acme, Tls::Files, Tls::Development] {
                let what = match kind {
                    Kind::Files => "",
                    Kind::Proxy | Kind::Accelerate => "http://127.0.0.1:3000",
                    Kind::Php => "managed",
                    Kind::Servlet => "a \"b\".war",
                };
                let answers = Answers {
                    kind,
                    what: what.into(),
                    root: "www".into(),
                    hosts: vec!["example.org".into()],
                    tls,
                    certificate: "c.pem".into(),
                    key: String::new(),
                    contact: "a@example.org".into(),
                    listen: "0.0.0.0:443".parse().unwrap(),
                    is_root: tls == Tls::Off,
                    is_application: tls == Tls::Files,
                };
                let text = text::configuration(&answers);
                load_text(&text, Path::new("/etc/site.toml"))
                    .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
            }
        }
    }
}
