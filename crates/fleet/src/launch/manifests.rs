//! Manifests for Kubernetes: an Indexed Job with a pod for each agent, each on a node of its own, and the credentials as a Secret.
//! They are checked against the schema of the API; on a cluster they have not been run.

use super::Launch;
use super::agent_words;
use crate::message::Role;
use crate::setup::{AgentEntry, FleetFile};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What a fleet's file does not say.
#[derive(Debug, Clone)]
pub struct ManifestOptions {
    /// The image with `touchstone` on its search path.
    pub image: String,
    /// The namespace.
    pub namespace: String,
    /// Where the agents may send load.
    pub allow: Vec<String>,
    /// Processors that each agent asks for, whole ones.
    pub cpus: u32,
}

/// Where the credentials are in a pod.
const CREDENTIALS: &str = "/credentials";

/// A list with the Secret and the Job, as JSON, which `kubectl apply -f -` takes. It holds secrets.
pub fn manifests(directory: &Path, file: &FleetFile, options: &ManifestOptions) -> Result<Value, String> {
    let agents: Vec<&AgentEntry> = file.agents.iter().filter(|agent| agent.role == Role::Load).collect();
    let mut secrets = serde_json::Map::new();
    for (index, agent) in agents.iter().enumerate() {
        let path = directory.join(format!("{}.credentials", agent.name));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // The pod knows its index, not its name.
        secrets.insert(format!("{index}.credentials"), Value::String(text));
    }
    let name = format!("touchstone-{}", file.name.to_ascii_lowercase().replace('_', "-"));
    let labels = json!({ "app.kubernetes.io/name": "touchstone-agent", "app.kubernetes.io/instance": name });
    let metadata = json!({ "name": name, "namespace": options.namespace, "labels": labels });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "stringData": secrets,
    });
    let count = agents.len();
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            // An agent that has ended is lost to its run: another pod in its place would be another load machine.
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": labels },
                "spec": pod(&name, &labels, options, file),
            },
        },
    });
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": [secret, job] }))
}

fn pod(name: &str, labels: &Value, options: &ManifestOptions, file: &FleetFile) -> Value {
    let credentials = format!("{CREDENTIALS}/$(JOB_COMPLETION_INDEX).credentials");
    let launch = Launch { allow: options.allow.clone(), ..Launch::default() };
    let any = AgentEntry::new("agent", Role::Load);
    let mut words = agent_words(&launch, file, &any);
    for (option, value) in [("--credentials", credentials.as_str()), ("--spool", "/spool")] {
        if let Some(place) = words.iter().position(|word| word == option) {
            words[place + 1] = value.to_string();
        }
    }
    let resources = json!({ "cpu": options.cpus.to_string(), "memory": "1Gi" });
    json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        // One agent a node: two would measure each other.
        "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels } },
        ] } },
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534, "fsGroup": 65534,
            "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "agent",
            "image": options.image,
            "command": ["touchstone"],
            "args": words,
            "env": [{ "name": "JOB_COMPLETION_INDEX", "valueFrom": { "fieldRef": {
                "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']" } } }],
            // Whole processors, as many as are the limit: the kubelet can then give them to nobody else.
            "resources": { "requests": resources, "limits": resources },
            "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [
                { "name": "credentials", "mountPath": CREDENTIALS, "readOnly": true },
                { "name": "spool", "mountPath": "/spool" },
            ],
        }],
        "volumes": [
            { "name": "credentials", "secret": { "secretName": name, "defaultMode": 0o400 } },
            { "name": "spool", "emptyDir": {} },
        ],
    })
}
