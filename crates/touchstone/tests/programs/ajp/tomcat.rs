//! A Tomcat for a test: the one of `scripts/setup-tomcat.sh`, with a configuration below a directory of the
//! test.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{free_port, skipped, wait_until};

/// Far longer than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The secret that server and container share in these tests.
pub(crate) const SECRET: &str = "a secret of the tests";

/// A running Tomcat whose application `/shop` is the probe.
pub(crate) struct Tomcat {
    child: Child,
    base: tempfile::TempDir,
    pub(crate) port: u16,
}

/// The differences between containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// Its jvmRoute; empty: none.
    pub(crate) route: &'static str,
    /// More attributes of the connector.
    pub(crate) connector: String,
    /// A port that another container had before; 0: any.
    pub(crate) port: u16,
    /// It listens at this unix socket instead.
    pub(crate) socket: Option<PathBuf>,
}

impl Tomcat {
    /// Starts one; `None`, with a visible message, if Tomcat or Java is missing.
    pub(crate) fn start(options: &Options) -> Option<Tomcat> {
        let home = home()?;
        let base = tempfile::tempdir().unwrap();
        let port = if options.port == 0 { free_port() } else { options.port };
        prepare(base.path(), &home, options, port);
        let log = File::create(base.path().join("logs/console")).unwrap();
        let class_path = format!("{0}/bin/bootstrap.jar:{0}/bin/tomcat-juli.jar", home.display());
        let child = Command::new("java")
            // It starts in half the time, and has little to do.
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xshare:auto"])
            .arg(format!("-Dcatalina.home={}", home.display()))
            .arg(format!("-Dcatalina.base={}", base.path().display()))
            .arg(format!("-Djava.io.tmpdir={}", base.path().join("temp").display()))
            .args(["-cp", &class_path, "org.apache.catalina.startup.Bootstrap", "start"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut tomcat = Tomcat { child, base, port };
        wait_until("Tomcat listens", PATIENCE, || {
            let is_running = tomcat.child.try_wait().unwrap().is_none();
            assert!(is_running, "Tomcat has ended:\n{}", tomcat.log());
            let is_open = match &options.socket {
                Some(socket) => UnixStream::connect(socket).is_ok(),
                None => TcpStream::connect(("127.0.0.1", port)).is_ok(),
            };
            is_open && tomcat.log().contains("Server startup in")
        });
        Some(tomcat)
    }

    /// A container that all simultaneous tests without special needs share.
    pub(crate) fn shared() -> Option<Arc<Tomcat>> {
        static SHARED: Mutex<Weak<Tomcat>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let connector = "allowedRequestAttributesPattern='org\\.example\\..*' tomcatAuthentication='false' \
             maxHeaderCount='500'"
            .to_string();
        let tomcat = Arc::new(Tomcat::start(&Options { connector, ..Options::default() })?);
        *shared = Arc::downgrade(&tomcat);
        Some(tomcat)
    }

    /// `127.0.0.1:PORT`
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its output so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.base.path().join("logs/console")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Suspends all its threads. A thread on another processor may continue for a moment after the signal is
    /// sent.
    pub(crate) fn halt(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        // proc(5): the state follows the name, which may hold any character but this.
        let stands_still = |task: &Path| {
            fs::read_to_string(task.join("stat"))
                .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')))
        };
        wait_until("every thread of it stands still", PATIENCE, || {
            fs::read_dir(&tasks).expect("its threads").flatten().all(|task| stands_still(&task.path()))
        });
    }

    /// The path of a file that one of its pages checks.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }
}

impl Drop for Tomcat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn home() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let found = fs::read_dir(cache.join("touchstone")).ok().and_then(|entries| {
        let homes = entries.flatten().map(|entry| entry.path());
        homes.filter(|path| path.join("bin/bootstrap.jar").is_file()).max()
    });
    let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok();
    if found.is_none() || !has_java {
        skipped("servlet containers (install default-jre-headless, and run scripts/setup-tomcat.sh)");
        return None;
    }
    found
}

fn prepare(base: &Path, home: &Path, options: &Options, port: u16) {
    for directory in ["conf", "logs", "temp", "work", "webapps/shop"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    fs::copy(home.join("conf/web.xml"), base.join("conf/web.xml")).unwrap();
    let route = match options.route {
        "" => String::new(),
        route => format!("jvmRoute='{route}'"),
    };
    let place = match &options.socket {
        Some(socket) => format!("unixDomainSocketPath='{}'", socket.display()),
        None => format!("address='127.0.0.1' port='{port}'"),
    };
    let server = format!(
        "<Server port='-1'><Service name='Catalina'>\n\
         <Connector protocol='AJP/1.3' {place} secret='{SECRET}' maxPostSize='-1' \
         maxParameterCount='1000' {}/>\n\
         <Engine name='Catalina' defaultHost='localhost' {route}>\n\
         <Host name='localhost' appBase='webapps' autoDeploy='false'/></Engine></Service></Server>\n",
        options.connector
    );
    fs::write(base.join("conf/server.xml"), server).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ajp/probe.jsp");
    fs::copy(&page, base.join("webapps/shop/probe.jsp")).unwrap();
    // Compiled before it reports that it has started: on a busy machine that takes longer than a client
    // waits.
    let servlet = |name: &str, path: &str| {
        format!(
            "<servlet><servlet-name>{name}</servlet-name><jsp-file>{path}</jsp-file>\
             <load-on-startup>9</load-on-startup></servlet>\
             <servlet-mapping><servlet-name>{name}</servlet-name><url-pattern>{path}</url-pattern>\
             </servlet-mapping>"
        )
    };
    let servlets = servlet("probe", "/probe.jsp") + &servlet("private", "/private/probe.jsp");
    let application =
        format!("<web-app xmlns='https://jakarta.ee/xml/ns/jakartaee' version='6.1'>{servlets}</web-app>");
    fs::create_dir_all(base.join("webapps/shop/WEB-INF")).unwrap();
    fs::write(base.join("webapps/shop/WEB-INF/web.xml"), application).unwrap();
    // A second application, without a route of a test.
    fs::create_dir_all(base.join("webapps/inner")).unwrap();
    fs::write(base.join("webapps/inner/index.html"), "for nobody").unwrap();
    fs::create_dir_all(base.join("webapps/shop/private")).unwrap();
    fs::copy(&page, base.join("webapps/shop/private/probe.jsp")).unwrap();
    fs::write(base.join("webapps/shop/private/page.html"), "private").unwrap();
    fs::write(base.join("webapps/shop/page.html"), "a page").unwrap();
}
