//! A fleet's agents as Kubernetes runs them: an Indexed Job with a pod for each agent that makes load, the
//! Secret with their credentials, and the Service by which they find the broker if it runs in the cluster
//! too. Only manifests are made here; the operator of the cluster applies them.

mod yaml;

use crate::message::Role;
use crate::setup::{AgentEntry, FleetFile};
use serde_json::{Value, json};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Where a pod finds its credentials and keeps its results.
const CREDENTIALS_PLACE: &str = "/credentials/agent.credentials";
const SPOOL_PLACE: &str = "/spool";
/// The longest name of an object that pods are named after (RFC 1123, section 2.1), less the part that the
/// Job adds.
const MAXIMUM_NAME_BYTES: usize = 40;
/// The most bytes that a Secret holds.
const MAXIMUM_SECRET_BYTES: usize = 1024 * 1024;
/// The user and the group of a pod's process, which no image needs to define: the highest of the numbers that
/// are commonly free.
const USER: u32 = 65_532;
/// The memory of a pod with its own processors: an agent's results are some hundred bytes a client.
const MEMORY: &str = "1Gi";

/// Facts about the cluster that the fleet's file does not state.
#[derive(Debug, Clone, Default)]
pub struct ManifestOptions {
    /// The image with the program in it.
    pub image: String,
    /// The namespace of all objects; absent: the default namespace of the user that applies them.
    pub namespace: Option<String>,
    /// Where the agents may send load.
    pub allow: Vec<String>,
    /// Processors that are reserved for a pod; absent: none, the pod shares those of its machine.
    pub processors: Option<u32>,
}

/// The manifests of a fleet, as one text of YAML documents. It holds the agents' credentials.
pub fn manifests(directory: &Path, file: &FleetFile, options: &ManifestOptions) -> Result<String, String> {
    let documents = documents(directory, file, options)?;
    let documents: Vec<String> =
        documents.iter().map(|document| format!("---\n{}", yaml::text(document))).collect();
    let name = &file.name;
    Ok(format!(
        "# The agents of the fleet {name}, made by touchstone fleet manifests. The Secret holds their \
         credentials.\n{}",
        documents.concat()
    ))
}

fn documents(directory: &Path, file: &FleetFile, options: &ManifestOptions) -> Result<Vec<Value>, String> {
    let name = format!("touchstone-{}", file.name);
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if file.name.len() > MAXIMUM_NAME_BYTES || !file.name.bytes().all(is_part) || file.name.ends_with('-') {
        return Err(format!(
            "Kubernetes does not allow the name {name}: name the fleet with lower-case letters, digits \
             and hyphens"
        ));
    }
    let agents: Vec<&AgentEntry> = file.agents.iter().filter(|agent| agent.role == Role::Load).collect();
    if agents.is_empty() {
        return Err("the fleet has no agents that make load: name them in fleet.toml".to_string());
    }
    let objects = Objects { name, file, options };
    let mut documents = vec![objects.secret(directory, &agents)?, objects.job(agents.len())];
    documents.extend(objects.service()?);
    Ok(documents)
}

/// The common parts of all objects.
struct Objects<'a> {
    name: String,
    file: &'a FleetFile,
    options: &'a ManifestOptions,
}

impl Objects<'_> {
    fn labels(&self, component: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "touchstone",
            "app.kubernetes.io/instance": self.file.name,
            "app.kubernetes.io/component": component,
        })
    }

    fn metadata(&self, name: &str, component: &str) -> Value {
        let mut metadata = json!({ "name": name, "labels": self.labels(component) });
        if let Some(namespace) = &self.options.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    /// Every agent's credentials, under its index in the Job.
    fn secret(&self, directory: &Path, agents: &[&AgentEntry]) -> Result<Value, String> {
        let mut credentials = serde_json::Map::new();
        let mut bytes = 0;
        for (index, agent) in agents.iter().enumerate() {
            let path = directory.join(format!("{}.credentials", agent.name));
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            bytes += text.len();
            credentials.insert(format!("{index}.credentials"), Value::from(text));
        }
        if bytes > MAXIMUM_SECRET_BYTES {
            return Err(format!(
                "the credentials of {} agents have {bytes} bytes, but a Secret holds at most \
                 {MAXIMUM_SECRET_BYTES}: use several fleets",
                agents.len()
            ));
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(&self.name, "agent"),
            "type": "Opaque",
            "immutable": true,
            "stringData": credentials,
        }))
    }

    fn job(&self, agents: usize) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(&self.name, "agent"),
            "spec": {
                "completionMode": "Indexed",
                "completions": agents,
                "parallelism": agents,
                "template": { "metadata": { "labels": self.labels("agent") }, "spec": self.pod() },
            },
        })
    }

    fn pod(&self) -> Value {
        let selector = json!({ "matchLabels": self.labels("agent") });
        json!({
            "restartPolicy": "OnFailure",
            // The agent does not use the cluster's API.
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            // With the container's, what the Pod Security Standard "restricted" requires.
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            // Two agents on one machine would load each other.
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname", "labelSelector": selector },
            ] } },
            "containers": [self.container()],
            "volumes": [
                // The agent refuses credentials that anyone but their owner, here root, and its own group
                // could read: mode 440.
                { "name": "credentials", "secret": { "secretName": self.name, "defaultMode": 0o440 } },
                { "name": "spool", "emptyDir": {} },
            ],
        })
    }

    fn container(&self) -> Value {
        let launch = self.file.launch.as_ref();
        let program = launch.and_then(|launch| launch.program.as_deref()).unwrap_or("touchstone");
        let controller = &self.file.controller;
        let mut words = vec!["agent", "--controller", controller, "--credentials", CREDENTIALS_PLACE];
        words.extend(["--spool", SPOOL_PLACE]);
        let allow = match (self.options.allow.as_slice(), launch) {
            ([], Some(launch)) => launch.allow.join(","),
            (allow, _) => allow.join(","),
        };
        if !allow.is_empty() {
            words.extend(["--allow", &allow]);
        }
        let mut container = json!({
            "name": "agent",
            "image": self.options.image,
            "command": [program],
            "args": words,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
            "volumeMounts": [
                // The cluster replaces the variable, which it sets in every pod of an Indexed Job: a pod gets
                // the credentials of its own agent and no others.
                {
                    "name": "credentials",
                    "mountPath": CREDENTIALS_PLACE,
                    "subPathExpr": "$(JOB_COMPLETION_INDEX).credentials",
                    "readOnly": true,
                },
                { "name": "spool", "mountPath": SPOOL_PLACE },
            ],
        });
        if let Some(processors) = self.options.processors {
            // Whole processors, with equal requests and limits: the kubelet's static policy assigns such a
            // pod exclusive processors.
            let resources = json!({ "cpu": processors.to_string(), "memory": MEMORY });
            container["resources"] = json!({ "requests": resources, "limits": resources });
        }
        container
    }

    /// The Service that `controller` in the fleet's file names, if it names one.
    fn service(&self) -> Result<Option<Value>, String> {
        let unusable = || {
            format!("controller = {:?} in fleet.toml is not a tls://HOST:PORT address", self.file.controller)
        };
        let place = self.file.controller.strip_prefix("tls://").ok_or_else(unusable)?;
        let (host, port) = place.rsplit_once(':').ok_or_else(unusable)?;
        let port: u16 = port.parse().map_err(|_| unusable())?;
        let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
        let mut labels = host.split('.');
        let (name, namespace, kind) = (labels.next().unwrap_or_default(), labels.next(), labels.next());
        if is_address || (namespace.is_some() && kind != Some("svc")) {
            return Ok(None);
        }
        let mut metadata = self.metadata(name, "controller");
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        Ok(Some(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": self.labels("controller"),
                "ports": [{ "name": "broker", "port": port, "targetPort": port }],
            },
        })))
    }
}

#[cfg(test)]
mod tests;
