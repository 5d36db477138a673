//! `touchstone control`: reads and changes a running server by its control API.

mod client;
mod text;

use std::io::Read as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::client::{ApiRequest, Client, Reply};
use super::print::print;
use crate::exit::Exit;

/// The arguments of `touchstone control`.
#[derive(clap::Args)]
#[command(
    flatten_help = true,
    after_help = "\
The server is found by [admin] of its configuration file. A unix socket needs no token; else --token-file \
names a file with the token, or TOUCHSTONE_CONTROL_TOKEN has it. ORIGIN is a URL as `touchstone control \
origins` prints it.

  touchstone control origins
  touchstone control drain http://10.0.0.2:3000
  touchstone control weight http://10.0.0.1:3000 5
  touchstone control get /control/sites/example.org/routes
  touchstone control put /control/sites/example.org site.json --if-match '\"5d41...\"'"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ControlCommand,
}

/// What to do.
#[derive(clap::Subcommand)]
enum ControlCommand {
    /// List the origins of all routes, with their state and their load
    Origins(ServerOptions),
    /// Let an origin finish its requests and sessions; it gets no others
    Drain(OriginArguments),
    /// Send no requests to an origin
    Maintenance(OriginArguments),
    /// Send requests to an origin again
    Ready(OriginArguments),
    /// Set the weight of an origin
    Weight(WeightArguments),
    /// List the certificates of all sites
    Certificates(ServerOptions),
    /// Replace the certificate and the key of a site
    Certificate(CertificateArguments),
    /// Print a part of the effective configuration as JSON, and its ETag to standard error
    Get(GetArguments),
    /// Replace a part of the configuration by a JSON file
    Put(PutArguments),
    /// Add a site, a route or an origin by a JSON file
    Post(PutArguments),
    /// Remove a site, a route or an origin
    Delete(DeleteArguments),
    /// Print the last changes, accepted and refused
    History(ServerOptions),
    /// Discard all changes and apply the configuration file alone
    Discard(ServerOptions),
}

/// The server, and how it is reached.
#[derive(clap::Args)]
struct ServerOptions {
    /// The configuration file that the server was started with [default: /etc/touchstone/touchstone.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The admin listener, as ADDRESS:PORT or unix:PATH, if the configuration cannot be read
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    server: Option<String>,

    /// A file with the token in its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// An origin.
#[derive(clap::Args)]
struct OriginArguments {
    /// The URL of the origin
    #[arg(value_name = "ORIGIN")]
    origin: String,

    #[command(flatten)]
    which: WhichRoutes,

    #[command(flatten)]
    options: ServerOptions,
}

/// Of which routes an origin is meant.
#[derive(clap::Args)]
struct WhichRoutes {
    /// Only origins of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,

    /// Only origins of this route, as `touchstone control origins` prints it
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,

    /// Change it even if it is the last origin of a route that gets requests
    #[arg(long)]
    force: bool,
}

/// An origin and its weight.
#[derive(clap::Args)]
struct WeightArguments {
    /// The URL of the origin
    #[arg(value_name = "ORIGIN")]
    origin: String,

    /// The weight of the origin, or "configured" for that of the configuration
    #[arg(value_name = "WEIGHT")]
    weight: String,

    #[command(flatten)]
    which: WhichRoutes,

    #[command(flatten)]
    options: ServerOptions,
}

/// A certificate for a site.
#[derive(clap::Args)]
struct CertificateArguments {
    /// The site
    #[arg(value_name = "SITE")]
    site: String,

    /// The certificate with its chain, PEM
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,

    /// The private key of the certificate, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    #[command(flatten)]
    options: ServerOptions,
}

/// What to read.
#[derive(clap::Args)]
struct GetArguments {
    /// The path of the resource, such as /control/sites
    #[arg(value_name = "PATH", default_value = "/control/config")]
    path: String,

    #[command(flatten)]
    options: ServerOptions,
}

/// What to write.
#[derive(clap::Args)]
struct PutArguments {
    /// The path of the resource, such as /control/sites/example.org
    #[arg(value_name = "PATH")]
    path: String,

    /// The JSON file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    condition: Condition,

    #[command(flatten)]
    options: ServerOptions,
}

/// What to remove.
#[derive(clap::Args)]
struct DeleteArguments {
    /// The path of the resource, such as /control/sites/example.org/routes/3
    #[arg(value_name = "PATH")]
    path: String,

    #[command(flatten)]
    condition: Condition,

    #[command(flatten)]
    options: ServerOptions,
}

/// On what a change is based.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Condition {
    /// The ETag that `get` has printed: the change is made only if the resource has not changed since
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,

    /// Create the resource; it must not exist yet
    #[arg(long)]
    new: bool,
}

impl Condition {
    fn field(&self) -> (&'static str, String) {
        match &self.if_match {
            Some(tag) => ("If-Match", tag.clone()),
            None => ("If-None-Match", "*".to_string()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Exit {
    match carry_out(arguments.command) {
        Ok(exit) => exit,
        Err(problem) => {
            eprintln!("touchstone control: {problem}");
            Exit::Usage
        }
    }
}

fn carry_out(command: ControlCommand) -> Result<Exit, String> {
    let state = |state: &str| json!({ "state": state });
    match command {
        ControlCommand::Origins(options) => list(&options, "/control/origins", text::origins),
        ControlCommand::Certificates(options) => list(&options, "/control/certificates", text::certificates),
        ControlCommand::History(options) => list(&options, "/control/history", text::history),
        ControlCommand::Drain(arguments) => patch(&arguments, &state("drain")),
        ControlCommand::Maintenance(arguments) => patch(&arguments, &state("maintenance")),
        ControlCommand::Ready(arguments) => patch(&arguments, &state("ready")),
        ControlCommand::Weight(WeightArguments { origin, weight, which, options }) => {
            let weight = match weight.as_str() {
                "configured" => Value::Null,
                text => {
                    text.parse::<u32>().map_err(|_| format!("a weight is a number, not {text:?}"))?.into()
                }
            };
            patch(&OriginArguments { origin, which, options }, &json!({ "weight": weight }))
        }
        ControlCommand::Certificate(arguments) => replace_certificate(&arguments),
        ControlCommand::Get(arguments) => get(&arguments),
        ControlCommand::Put(arguments) => write("PUT", &arguments),
        ControlCommand::Post(arguments) => write("POST", &arguments),
        ControlCommand::Delete(arguments) => {
            let client = Client::new(&arguments.options)?;
            let fields = [arguments.condition.field()];
            let reply = client.ask(&ApiRequest {
                method: "DELETE",
                path: &arguments.path,
                fields: &fields,
                body: None,
            })?;
            Ok(print_reply(&reply, arguments.options.json))
        }
        ControlCommand::Discard(options) => {
            let client = Client::new(&options)?;
            let path = "/control/overlay";
            let read = client.ask(&ApiRequest::get(path))?;
            let fields = [("If-Match", read.tag.clone().unwrap_or_default())];
            let reply = client.ask(&ApiRequest { method: "DELETE", path, fields: &fields, body: None })?;
            Ok(print_reply(&reply, options.json))
        }
    }
}

/// Prints a list as a table, or as JSON.
fn list(options: &ServerOptions, path: &str, table: fn(&Value) -> String) -> Result<Exit, String> {
    let reply = Client::new(options)?.ask(&ApiRequest::get(path))?;
    if options.json || reply.status != 200 {
        return Ok(print_reply(&reply, options.json));
    }
    print(&table(&reply.body));
    Ok(Exit::Done)
}

/// Changes an origin in every route that has it, or in those that are named.
fn patch(arguments: &OriginArguments, change: &Value) -> Result<Exit, String> {
    let options = &arguments.options;
    let client = Client::new(options)?;
    let reply = client.ask(&ApiRequest::get("/control/origins"))?;
    if reply.status != 200 {
        return Ok(print_reply(&reply, options.json));
    }
    let is = |wanted: &Option<String>, value: &Value| wanted.is_none() || wanted.as_deref() == value.as_str();
    let groups = reply.body["groups"].as_array().into_iter().flatten();
    let groups = groups.filter(|group| {
        is(&arguments.which.site, &group["site"]) && is(&arguments.which.route, &group["route"])
    });
    let origins = groups.flat_map(|group| group["origins"].as_array().into_iter().flatten());
    let found = origins.filter(|origin| origin["origin"] == arguments.origin.as_str());
    let mut paths: Vec<String> =
        found.filter_map(|origin| origin["href"].as_str()).map(str::to_string).collect();
    paths.dedup();
    if paths.is_empty() {
        eprintln!(
            "touchstone control: no route has the origin {}; `touchstone control origins` lists them",
            arguments.origin
        );
        return Ok(Exit::Failed);
    }
    for path in paths {
        let path = if arguments.which.force { format!("{path}?force=true") } else { path };
        let body = Some(change.to_string());
        let reply = client.ask(&ApiRequest { method: "PATCH", path: &path, fields: &[], body })?;
        if reply.status != 200 || options.json {
            let exit = print_reply(&reply, options.json);
            if exit != Exit::Done {
                return Ok(exit);
            }
        } else {
            print(&text::origin(&reply.body));
        }
    }
    Ok(Exit::Done)
}

fn replace_certificate(arguments: &CertificateArguments) -> Result<Exit, String> {
    let read = |file: &PathBuf| {
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let body = json!({ "certificate": read(&arguments.cert)?, "key": read(&arguments.key)? });
    let client = Client::new(&arguments.options)?;
    let path = format!("/control/certificates/{}", client::encoded(&arguments.site));
    let known = client.ask(&ApiRequest::get(&path))?;
    if known.status != 200 {
        return Ok(print_reply(&known, arguments.options.json));
    }
    let fields = [("If-Match", known.tag.clone().unwrap_or_default())];
    let reply = client.ask(&ApiRequest {
        method: "PUT",
        path: &path,
        fields: &fields,
        body: Some(body.to_string()),
    })?;
    Ok(print_reply(&reply, arguments.options.json))
}

fn get(arguments: &GetArguments) -> Result<Exit, String> {
    let reply = Client::new(&arguments.options)?.ask(&ApiRequest::get(&arguments.path))?;
    if reply.status != 200 {
        return Ok(print_reply(&reply, arguments.options.json));
    }
    print(&format!("{:#}", reply.body));
    if let Some(tag) = &reply.tag {
        eprintln!("ETag: {tag}");
    }
    Ok(Exit::Done)
}

fn write(method: &'static str, arguments: &PutArguments) -> Result<Exit, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", arguments.file.display());
    let mut body = String::new();
    match arguments.file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut body).map(drop).map_err(cannot)?,
        _ => body = std::fs::read_to_string(&arguments.file).map_err(cannot)?,
    }
    let fields = [arguments.condition.field()];
    let sent = ApiRequest { method, path: &arguments.path, fields: &fields, body: Some(body) };
    let reply = Client::new(&arguments.options)?.ask(&sent)?;
    Ok(print_reply(&reply, arguments.options.json))
}

/// Prints what became of a request.
fn print_reply(reply: &Reply, as_json: bool) -> Exit {
    let is_done = (200..300).contains(&reply.status);
    if as_json {
        print(&format!("{:#}", reply.body));
    } else if is_done {
        print(&text::changed(&reply.body));
    } else {
        eprint!("{}", text::refused(reply.status, &reply.body));
    }
    if is_done { Exit::Done } else { Exit::Failed }
}
