//! The same fleet under Slurm: a controller, munge, and two nodes in network namespaces, all started here,
//! and agents that `srun` starts on them.

use crate::rig::{Fleet, PATIENCE, program, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{free_port, skipped, wait_until};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const NETWORK: u8 = 174;
const NODES: [&str; 2] = ["node1", "node2"];

/// A small cluster; it ends when this is dropped.
struct Cluster {
    place: TempDir,
    daemons: Vec<Child>,
}

fn sbin(program: &str) -> PathBuf {
    ["/usr/sbin", "/usr/bin"]
        .iter()
        .map(|place| Path::new(place).join(program))
        .find(|path| path.exists())
        .unwrap_or_default()
}

fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().expect("ip");
    assert!(done.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn address(place: usize) -> String {
    format!("10.213.{NETWORK}.{}", 11 + place)
}

impl Cluster {
    fn start() -> Option<Cluster> {
        let needed = ["slurmctld", "slurmd", "srun", "munged", "mungekey"];
        if !geteuid().is_root() || needed.iter().any(|program| sbin(program).as_os_str().is_empty()) {
            skipped("a fleet under Slurm (needs root; install slurm-wlm, munge and iproute2)");
            return None;
        }
        let place = TempDir::with_prefix("touchstone-slurm-").expect("a directory");
        // munge requires that no other user can write here.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut cluster = Cluster { place, daemons: Vec::new() };
        cluster.make_network();
        cluster.start_munge();
        cluster.configure();
        let mut controller = Command::new(sbin("slurmctld"));
        cluster.spawn("slurmctld", controller.args(["-D", "-i", "-f"]).arg(cluster.path("slurm.conf")));
        for node in NODES {
            let mut daemon = Command::new("nsenter");
            daemon.arg(format!("--net=/var/run/netns/tsslurm-{node}")).arg(sbin("slurmd"));
            daemon.args(["-D", "-N", node, "-f"]).arg(cluster.path("slurm.conf"));
            cluster.spawn(node, &mut daemon);
        }
        let config = cluster.path("slurm.conf");
        let both_idle = || {
            let asked = Command::new(sbin("sinfo"))
                .args(["-h", "-N", "-o", "%T"])
                .env("SLURM_CONF", &config)
                .output();
            asked.is_ok_and(|asked| {
                String::from_utf8_lossy(&asked.stdout).lines().filter(|line| *line == "idle").count() == 2
            })
        };
        wait_until("both nodes are idle", PATIENCE, both_idle);
        Some(cluster)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn spawn(&mut self, name: &str, command: &mut Command) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("a log");
        let log_too = log.try_clone().expect("a log");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(log_too).spawn();
        self.daemons.push(child.unwrap_or_else(|error| panic!("{name}: {error}")));
    }

    fn make_network(&self) {
        clear_network();
        let bridge = format!("tsf{NETWORK}");
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["address", "add", &format!("10.213.{NETWORK}.1/24"), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        for (place, node) in NODES.iter().enumerate() {
            let (name, link) = (format!("tsslurm-{node}"), format!("tsf{NETWORK}-{place}"));
            ip(&["netns", "add", &name]);
            ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name]);
            ip(&["link", "set", &link, "master", &bridge, "up"]);
            ip(&["-n", &name, "address", "add", &format!("{}/24", address(place)), "dev", "eth0"]);
            ip(&["-n", &name, "link", "set", "eth0", "up"]);
            ip(&["-n", &name, "link", "set", "lo", "up"]);
        }
    }

    fn start_munge(&mut self) {
        let key = self.path("munge.key");
        assert!(
            Command::new(sbin("mungekey"))
                .args(["-c", "-k"])
                .arg(&key)
                .status()
                .is_ok_and(|status| status.success())
        );
        let argument = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let words = [
            argument("socket", "munge.socket"),
            argument("key-file", "munge.key"),
            argument("pid-file", "munge.pid"),
            argument("seed-file", "munge.seed"),
            argument("log-file", "munge.log"),
        ];
        let mut daemon = Command::new(sbin("munged"));
        self.spawn("munged", daemon.args(["--foreground", "--force"]).args(words));
        wait_until("munge listens", PATIENCE, || self.path("munge.socket").exists());
    }

    fn configure(&self) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
        let host = host.trim();
        let place = self.place.path().display();
        let (controller_port, node_port) = (free_port(), free_port());
        let mut text = format!(
            "ClusterName=touchstone\nSlurmctldHost={host}(10.213.{NETWORK}.1)\nSlurmctldPort={controller_port}\n\
             SlurmdPort={node_port}\nSlurmUser=root\nAuthType=auth/munge\nAuthInfo=socket={place}/munge.socket\n\
             CredType=cred/munge\nMpiDefault=none\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
             SwitchType=switch/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/spool-%n\nSlurmctldPidFile={place}/slurmctld.pid\n\
             SlurmdPidFile={place}/slurmd-%n.pid\nReturnToService=2\nSlurmdTimeout=30\n"
        );
        for (place, node) in NODES.iter().enumerate() {
            text.push_str(&format!(
                "NodeName={node} NodeHostname={host} NodeAddr={} CPUs=1\n",
                address(place)
            ));
        }
        text.push_str("PartitionName=all Nodes=node1,node2 Default=YES State=UP MaxTime=INFINITE\n");
        fs::write(self.path("slurm.conf"), text).expect("a configuration");
        fs::create_dir(self.path("state")).expect("a directory");
    }
}

fn clear_network() {
    for node in NODES {
        let _ = Command::new("ip").args(["netns", "delete", &format!("tsslurm-{node}")]).output();
    }
    let _ = Command::new("ip").args(["link", "delete", &format!("tsf{NETWORK}")]).output();
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        clear_network();
    }
}

#[test]
fn slurm_starts_the_agents_of_a_fleet_on_two_nodes() {
    let Some(cluster) = Cluster::start() else { return };
    let host = format!("10.213.{NETWORK}.1");
    let launch = ["--launch", "slurm", "--hosts", "node1,node2", "--allow", &host];
    let Some(fleet) = Fleet::made("labslurm", &host, &["a", "b"], &launch) else { return };
    let root = fleet.path("www");
    crate::target::write_tree(&root);
    let listen = format!("{host}:0");
    let words = ["--root", root.to_str().expect("text"), "--listen", &listen, "--access-log", "off"];
    let server = crate::support::Server::start(words);
    let program = program().to_str().expect("text");
    fleet.change_file(|text| {
        text.replace("by = \"slurm\"", &format!("by = \"slurm\"\nprogram = {program:?}"))
    });
    let url = format!("http://{}/", server.address());
    let more =
        ["--sut", &url, "--clients", "4", "--length", "3s", "--ramp-up", "500ms", "--ramp-down", "500ms"];
    let config = cluster.path("slurm.conf");
    let variables = [("SLURM_CONF", config.to_str().expect("text"))];
    let ended = until_together(|| fleet.bench_in(&variables, &more).wait());
    let log =
        |name: &str| fs::read_to_string(fleet.directory().join(format!("{name}.log"))).unwrap_or_default();
    assert_eq!(ended.code, Some(0), "{} {}\n{}\n{}", ended.error, ended.incomplete(), log("a"), log("b"));
    whole_is_sum(ended.mix());
    assert!(of_agents(ended.mix(), "requests").iter().all(|requests| *requests > 0.0));
}
