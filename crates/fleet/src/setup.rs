//! A new fleet: keys, certificates, the broker's configuration and the list of agents, in one directory on
//! the controller's machine.

use crate::credentials::{Credentials, toml_text, write_secret};
use crate::launch_settings::Launch;
use crate::message::{Role, check_name};
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer};
use rcgen::{KeyPair as CertificateKey, KeyUsagePurpose};
use serde::Deserialize;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that describes a fleet.
pub const FLEET_FILE: &str = "fleet.toml";
/// The broker's configuration.
pub const BROKER_FILE: &str = "broker.conf";
/// The controller's name among the members.
pub(crate) const CONTROLLER: &str = "controller";
/// The most agents of a fleet.
pub const MAXIMUM_AGENTS: usize = 10_000;

/// The description of a fleet: `fleet.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetFile {
    /// Its name.
    pub name: String,
    /// Where the broker is, for example `tls://10.0.0.1:4222`.
    pub controller: String,
    /// The program that is its broker; absent: `nats-server` on the search path.
    #[serde(default)]
    pub broker: Option<String>,
    /// How its agents are started from here; absent: the operator starts them.
    #[serde(default)]
    pub launch: Option<Launch>,
    /// The agents.
    #[serde(default, rename = "agent")]
    pub agents: Vec<AgentEntry>,
}

/// An agent of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    /// Its name, which its credentials contain.
    pub name: String,
    /// Its task.
    #[serde(default = "load")]
    pub role: Role,
    /// Its machine, for a launcher: under Slurm, the node's name.
    #[serde(default)]
    pub host: Option<String>,
    /// The processors for its engine, for a launcher; absent: all.
    #[serde(default)]
    pub cores: Option<String>,
}

impl AgentEntry {
    /// An agent that is started by hand.
    pub fn new(name: &str, role: Role) -> AgentEntry {
        AgentEntry { name: name.to_string(), role, host: None, cores: None }
    }
}

fn load() -> Role {
    Role::Load
}

impl FleetFile {
    /// Reads the file of a fleet's directory.
    pub fn read(directory: &Path) -> Result<FleetFile, String> {
        let path = directory.join(FLEET_FILE);
        let text = fs::read_to_string(&path).map_err(|error| {
            format!("there is no fleet in {}: {}: {error}", directory.display(), path.display())
        })?;
        let file: FleetFile =
            toml::from_str(&text).map_err(|error| format!("{}: {}", path.display(), error.message()))?;
        check_name(&file.name)?;
        check_agents(&file.agents)?;
        Ok(file)
    }

    /// The content of the file.
    fn text(&self) -> String {
        let mut text = format!(
            "# A fleet; the keys are those of docs/fleet.md.\nname = {}\ncontroller = {}\n",
            toml_text(&self.name),
            toml_text(&self.controller)
        );
        self.broker.iter().for_each(|broker| text.push_str(&format!("broker = {}\n", toml_text(broker))));
        if let Some(launch) = &self.launch {
            let allow: Vec<String> = launch.allow.iter().map(|rule| toml_text(rule)).collect();
            text.push_str(&format!(
                "\n[launch]\nby = \"{}\"\nallow = [{}]\n",
                launch.by.name(),
                allow.join(", ")
            ));
            for (key, value) in [
                ("program", &launch.program),
                ("ssh_user", &launch.ssh_user),
                ("ssh_identity", &launch.ssh_identity),
                ("ssh_known_hosts", &launch.ssh_known_hosts),
            ] {
                value.iter().for_each(|value| text.push_str(&format!("{key} = {}\n", toml_text(value))));
            }
            launch.ssh_port.iter().for_each(|port| text.push_str(&format!("ssh_port = {port}\n")));
        }
        for agent in &self.agents {
            text.push_str(&format!("\n[[agent]]\nname = {}\n", toml_text(&agent.name)));
            if agent.role == Role::Probe {
                text.push_str("role = \"probe\"\n");
            }
            for (key, value) in [("host", &agent.host), ("cores", &agent.cores)] {
                value.iter().for_each(|value| text.push_str(&format!("{key} = {}\n", toml_text(value))));
            }
        }
        text
    }

    /// The directory of a fleet that is named on a command line: a path, or a name below `fleets/`.
    pub fn directory(word: &str) -> PathBuf {
        if word.contains('/') || Path::new(word).join(FLEET_FILE).exists() {
            return PathBuf::from(word);
        }
        Path::new("fleets").join(word)
    }
}

fn check_agents(agents: &[AgentEntry]) -> Result<(), String> {
    if agents.len() > MAXIMUM_AGENTS {
        return Err(format!("{} agents, but at most {MAXIMUM_AGENTS} are possible", agents.len()));
    }
    for (place, agent) in agents.iter().enumerate() {
        check_name(&agent.name)?;
        if agent.name == CONTROLLER || agents[..place].iter().any(|other| other.name == agent.name) {
            return Err(format!(
                "the agent {} is named twice, or has the name of the controller",
                agent.name
            ));
        }
    }
    Ok(())
}

/// Makes a fleet in a new directory. `host` is the controller's address or name as the agents reach it.
pub fn init(
    directory: &Path,
    name: &str,
    host: &str,
    port: u16,
    agents: Vec<AgentEntry>,
    launch: Option<Launch>,
) -> Result<FleetFile, String> {
    check_name(name)?;
    check_agents(&agents)?;
    if directory.join(FLEET_FILE).exists() {
        return Err(format!("{} already contains a fleet; use another directory", directory.display()));
    }
    let failed = |error: std::io::Error| format!("{} cannot be created: {error}", directory.display());
    fs::create_dir_all(directory).map_err(failed)?;
    let directory = fs::canonicalize(directory).map_err(failed)?;
    let authority = write_certificates(&directory, name, host)?;
    let mut users = Vec::new();
    for member in [CONTROLLER].into_iter().chain(agents.iter().map(|agent| agent.name.as_str())) {
        let key = KeyPair::new_user();
        let watch = (member == CONTROLLER).then(KeyPair::new_user);
        let seed = |key: &KeyPair| key.seed().map_err(|error| error.to_string());
        let credentials = Credentials {
            fleet: name.to_string(),
            member: member.to_string(),
            seed: seed(&key)?,
            watch_seed: watch.as_ref().map(seed).transpose()?,
            authority: authority.clone(),
        };
        credentials.write(&directory.join(format!("{member}.credentials")))?;
        users.push(User { member, key: key.public_key(), watch: watch.map(|key| key.public_key()) });
    }
    let broker = broker_configuration(&directory, name, port, &users)?;
    write_secret(&directory.join(BROKER_FILE), &broker)?;
    let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
    let controller = format!("tls://{bracketed}:{port}");
    let file = FleetFile { name: name.to_string(), controller, broker: None, launch, agents };
    fs::write(directory.join(FLEET_FILE), file.text()).map_err(failed)?;
    Ok(file)
}

/// A member in the broker's configuration.
struct User<'a> {
    member: &'a str,
    key: String,
    watch: Option<String>,
}

/// Makes an authority for the fleet, whose key is not kept, and a certificate of the broker signed by it.
fn write_certificates(directory: &Path, name: &str, host: &str) -> Result<String, String> {
    let make_certificates = || -> Result<(String, String, String), rcgen::Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, format!("Touchstone fleet {name}"));
        let authority_key = CertificateKey::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);
        let mut names = vec![host.to_string(), "localhost".to_string(), "127.0.0.1".to_string()];
        names.dedup();
        let mut broker = CertificateParams::new(names)?;
        broker.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        broker.distinguished_name.push(DnType::CommonName, format!("broker of {name}"));
        let key = CertificateKey::generate()?;
        let certificate = broker.signed_by(&key, &issuer)?;
        Ok((authority_certificate.pem(), certificate.pem(), key.serialize_pem()))
    };
    let (authority, certificate, key) = make_certificates()
        .map_err(|error| format!("no certificate for {host:?} can be created: {error}"))?;
    write_secret(&directory.join("broker.pem"), &certificate)?;
    write_secret(&directory.join("broker.key"), &key)?;
    Ok(authority)
}

/// The broker: TLS, a key for each member, and for an agent only the permissions it needs. A message that is
/// kept is on disk before the broker confirms it (`sync_interval: always`).
fn broker_configuration(
    directory: &Path,
    name: &str,
    port: u16,
    users: &[User<'_>],
) -> Result<String, String> {
    let place = directory.to_str().filter(|path| !path.contains(['"', '\\', '\n']));
    let place = place.ok_or_else(|| format!("{} cannot stand in a configuration", directory.display()))?;
    let mut text = format!(
        r#"# The broker of the fleet {name}, for nats-server 2.11 or later; made by touchstone fleet init.
server_name: "fleet-{name}"
listen: "0.0.0.0:{port}"
tls {{
  cert_file: "{place}/broker.pem"
  key_file: "{place}/broker.key"
  # A busy machine's handshakes take their time; two seconds, the default, are not always enough.
  timeout: 10
}}
jetstream {{
  store_dir: "{place}/broker"
  sync_interval: always
}}
# A member that is cut off is noticed soon.
ping_interval: "1s"
ping_max: 2
write_deadline: "2s"
accounts {{
  FLEET {{
    jetstream: enabled
    users: [
"#
    );
    for User { member, key, .. } in users {
        let line = if *member == CONTROLLER {
            format!("      {{ nkey: {key} }}\n")
        } else {
            agent_line(name, member, key)
        };
        text.push_str(&line);
    }
    text.push_str("    ]\n  }\n  SYS {\n    users: [\n");
    for key in users.iter().filter_map(|user| user.watch.as_ref()) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "      {{ nkey: {key}, permissions: {{ publish: {{ deny: \">\" }}, subscribe: \
             \"$SYS.SERVER.*.CLIENT.AUTH.ERR\" }} }}"
        );
    }
    text.push_str("    ]\n  }\n}\nsystem_account: SYS\n");
    Ok(text)
}

/// The permissions of an agent: receive orders, publish its own reports, store its own results, and fetch
/// plans.
fn agent_line(fleet: &str, agent: &str, key: &str) -> String {
    let bucket = format!("OBJ_{}", bucket(fleet));
    let publish = [
        format!("fleet.{fleet}.from.{agent}"),
        format!("fleet.{fleet}.result.{agent}"),
        format!("$JS.API.STREAM.INFO.{bucket}"),
        format!("$JS.API.STREAM.MSG.GET.{bucket}"),
        format!("$JS.API.DIRECT.GET.{bucket}"),
        format!("$JS.API.DIRECT.GET.{bucket}.>"),
        format!("$JS.API.CONSUMER.CREATE.{bucket}"),
        format!("$JS.API.CONSUMER.CREATE.{bucket}.>"),
        format!("$JS.API.CONSUMER.INFO.{bucket}.*"),
        format!("$JS.API.CONSUMER.DELETE.{bucket}.*"),
        format!("$JS.FC.{bucket}.>"),
    ];
    let subscribe = [
        format!("fleet.{fleet}.all"),
        format!("fleet.{fleet}.to.{agent}"),
        format!("{}.>", inbox_prefix(fleet, agent)),
    ];
    let list = |subjects: &[String]| {
        subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "      {{ nkey: {key}, permissions: {{ publish: [{}], subscribe: [{}] }} }}\n",
        list(&publish),
        list(&subscribe)
    )
}

/// The subjects on which the engine answers a member: no other member may listen there.
pub(crate) fn inbox_prefix(fleet: &str, member: &str) -> String {
    format!("_INBOX_{fleet}_{member}")
}

/// The bucket of a fleet's documents.
pub(crate) fn bucket(fleet: &str) -> String {
    format!("fleet-{fleet}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch_settings::Launcher;

    fn agent(name: &str) -> AgentEntry {
        AgentEntry::new(name, Role::Load)
    }

    #[test]
    fn a_fleet_has_keys_certificates_and_a_broker_that_knows_them() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("lab");
        let file = init(&directory, "lab", "10.0.0.1", 4222, vec![agent("load-1"), agent("load-2")], None)
            .expect("it is made");
        assert_eq!(FleetFile::read(&directory), Ok(file.clone()));
        assert_eq!(file.controller, "tls://10.0.0.1:4222");
        let broker = fs::read_to_string(directory.join(BROKER_FILE)).expect("the configuration");
        for member in ["controller", "load-1", "load-2"] {
            let path = directory.join(format!("{member}.credentials"));
            let credentials = Credentials::read(&path).expect("credentials");
            let key = KeyPair::from_seed(&credentials.seed).expect("a key").public_key();
            assert!(broker.contains(&key), "{member}");
            assert_eq!(credentials.watch_seed.is_some(), member == "controller");
            assert!(credentials.authority.starts_with("-----BEGIN CERTIFICATE"));
        }
        assert!(
            init(&directory, "lab", "10.0.0.1", 4222, Vec::new(), None).is_err(),
            "nothing is overwritten"
        );
    }

    #[test]
    fn the_file_in_the_documentation_is_one() {
        let page = fs::read_to_string("../../docs/fleet.md").expect("the page");
        let (_, rest) = page.split_once("```text\nname = ").expect("the file");
        let (text, _) = rest.split_once("```").expect("its end");
        let place = tempfile::tempdir().expect("a directory");
        fs::write(place.path().join(FLEET_FILE), format!("name = {text}")).expect("written");
        let file = FleetFile::read(place.path()).expect("a fleet's file");
        let launch = file.launch.expect("a launcher");
        assert_eq!((launch.by, launch.ssh_port), (Launcher::Ssh, Some(2222)));
        assert_eq!(file.agents.len(), 2);
    }

    #[test]
    fn launchers_come_back_as_they_were_written() {
        let place = tempfile::tempdir().expect("a directory");
        let launch = Launch {
            by: Launcher::Ssh,
            allow: vec!["10.0.0.0/24:80".into(), "[fd00::/8]".into()],
            program: Some("/opt/touchstone".into()),
            ssh_user: Some("load".into()),
            ssh_port: Some(2222),
            ssh_identity: Some("/a \"key\"".into()),
            ssh_known_hosts: Some("/hosts".into()),
            ..Launch::default()
        };
        let directory = place.path().join("lab");
        let agents = vec![AgentEntry { host: Some("node1".into()), ..agent("a") }];
        let file = init(&directory, "lab", "10.0.0.1", 4222, agents, Some(launch)).expect("it is made");
        assert_eq!(FleetFile::read(&directory), Ok(file));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let place = tempfile::tempdir().expect("a directory");
        for (name, agents) in [
            ("a.b", vec![]),
            ("lab", vec![agent("a"), agent("a")]),
            ("lab", vec![agent("controller")]),
            ("lab", vec![agent("a b")]),
        ] {
            assert!(init(&place.path().join("x"), name, "h", 1, agents, None).is_err());
            assert!(!place.path().join("x").exists());
        }
    }
}
