use super::*;
use crate::launch::Launch;
use crate::setup::init;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSpec, Secret, Service};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An object as its type defines it, which loses the fields that the type does not have.
fn of_schema<T: DeserializeOwned + Serialize>(document: &Value) -> T {
    let object: T =
        serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document:#}"));
    let known = serde_json::to_value(&object).expect("JSON");
    assert_eq!(without_kind(&known), without_kind(document), "a key that the schema does not know");
    object
}

fn without_kind(document: &Value) -> Value {
    let mut document = document.clone();
    let map = document.as_object_mut().expect("a map");
    assert!(map.remove("apiVersion").is_some() && map.remove("kind").is_some());
    document
}

fn documents_in(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn fleet(host: &str) -> (tempfile::TempDir, FleetFile) {
    let place = tempfile::tempdir().expect("a directory");
    let mut agents = vec![AgentEntry::new("load-1", Role::Load), AgentEntry::new("load-2", Role::Load)];
    agents.push(AgentEntry::new("watch", Role::Probe));
    let launch = Launch { allow: vec!["10.0.0.5:80".to_string()], ..Launch::default() };
    let file = init(&place.path().join("lab"), "lab", host, 4222, agents, Some(launch)).expect("a fleet");
    (place, file)
}

fn options() -> ManifestOptions {
    ManifestOptions {
        image: "registry.example/touchstone:1".to_string(),
        namespace: Some("load".to_string()),
        processors: Some(2),
        ..ManifestOptions::default()
    }
}

#[test]
fn a_fleet_s_manifests_are_of_kubernetes_schema() {
    let (place, file) = fleet("touchstone-lab.load.svc");
    let text = manifests(&place.path().join("lab"), &file, &options()).expect("manifests");
    let documents = documents_in(&text);
    let [secret, job, service] = documents.as_slice() else { panic!("{text}") };
    assert_eq!([&secret["kind"], &job["kind"], &service["kind"]], ["Secret", "Job", "Service"]);
    let secret: Secret = of_schema(secret);
    let credentials = secret.string_data.expect("credentials");
    assert_eq!(credentials.keys().collect::<Vec<_>>(), ["0.credentials", "1.credentials"]);
    let own = fs::read_to_string(place.path().join("lab/load-2.credentials")).expect("credentials");
    assert_eq!(credentials["1.credentials"], own);
    assert!(!text.contains("watch"), "a probe watches a server's machine, which is not a pod's");

    let job: Job = of_schema(job);
    let spec = job.spec.expect("a specification");
    assert_eq!((spec.completions, spec.parallelism), (Some(2), Some(2)));
    assert_eq!(spec.completion_mode.as_deref(), Some("Indexed"));
    let pod = spec.template.spec.expect("a pod");
    let words = pod.containers[0].args.clone().expect("words");
    assert!(words.contains(&"tls://touchstone-lab.load.svc:4222".to_string()), "{words:?}");
    assert!(words.contains(&"/credentials/agent.credentials".to_string()), "{words:?}");
    let mounts = pod.containers[0].volume_mounts.clone().expect("mounts");
    assert_eq!(mounts[0].sub_path_expr.as_deref(), Some("$(JOB_COMPLETION_INDEX).credentials"));
    assert_restricted(&pod);
    assert_eq!(words[words.len() - 2..], ["--allow", "10.0.0.5:80"]);

    let service: Service = of_schema(service);
    assert_eq!(service.metadata.name.as_deref(), Some("touchstone-lab"));
    let ports = service.spec.and_then(|spec| spec.ports).expect("ports");
    assert_eq!(ports[0].port, 4222);
}

/// What the Pod Security Standard "restricted" requires.
fn assert_restricted(pod: &PodSpec) {
    let security = pod.security_context.as_ref().expect("a security context");
    assert_eq!(security.run_as_non_root, Some(true));
    assert!(security.run_as_user.is_some_and(|user| user > 0));
    let profile = security.seccomp_profile.as_ref().expect("a profile");
    assert_eq!(profile.type_, "RuntimeDefault");
    assert!(pod.host_network.is_none() && pod.host_pid.is_none() && pod.host_ipc.is_none());
    for container in &pod.containers {
        let own = container.security_context.as_ref().expect("a security context");
        assert_eq!((own.allow_privilege_escalation, own.privileged), (Some(false), None));
        let capabilities = own.capabilities.as_ref().expect("capabilities");
        assert_eq!(
            (capabilities.drop.as_deref(), &capabilities.add),
            (Some(&["ALL".to_string()][..]), &None)
        );
    }
    let volumes = pod.volumes.as_ref().expect("volumes");
    assert!(volumes.iter().all(|volume| volume.secret.is_some() || volume.empty_dir.is_some()));
}

#[test]
fn a_controller_outside_of_the_cluster_has_no_service() {
    for (host, expected) in [
        ("10.0.0.1", false),
        ("fd00::1", false),
        ("lab.example.com", false),
        ("lab", true),
        ("lab.load.svc.cluster.local", true),
    ] {
        let (place, file) = fleet(host);
        let text = manifests(&place.path().join("lab"), &file, &options()).expect("manifests");
        assert_eq!(text.contains("kind: \"Service\""), expected, "{host}");
    }
}

#[test]
fn names_that_kubernetes_does_not_take_are_refused() {
    let (place, file) = fleet("lab");
    for name in ["Lab", "lab_1", "lab-", &"l".repeat(41)] {
        let file = FleetFile { name: name.to_string(), ..file.clone() };
        let refused = manifests(&place.path().join("lab"), &file, &options()).expect_err(name);
        assert!(refused.contains("lower-case letters"), "{refused}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let text = "[ -~\n\tä]{0,12}";
    let leaf = prop_oneof![
        text.prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn yaml_says_what_was_written(document in values()) {
        let text = yaml::text(&document);
        let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(read, document, "{}", text);
    }
}
