//! Certificates at the first handshake of a name, from a real authority, with a server that decides.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::pebble::Pebble;
use super::{PATIENCE, Scene};
use crate::support::{Server, curl, wait_until};

/// A server that allows names that end with a text, and records its requests.
struct Asked {
    port: u16,
    questions: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    fn start(allowed: &'static str) -> Asked {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let questions: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = questions.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut line = String::new();
                let mut reader = BufReader::new(&stream);
                reader.read_line(&mut line).expect("a request");
                let mut field = String::new();
                while reader.read_line(&mut field).is_ok_and(|count| count > 2) {
                    field.clear();
                }
                let target = line.split(' ').nth(1).expect("a target").to_string();
                let status = if target.ends_with(allowed) { "200 OK" } else { "404 Not Found" };
                noted.lock().expect("no panic").push(target);
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                // A client that has disconnected needs no answer.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Asked { port, questions }
    }

    fn rules(&self, more: &str) -> String {
        format!("on_demand = {{ ask = \"http://127.0.0.1:{}/may?key=1\"{more} }}", self.port)
    }

    fn questions(&self) -> Vec<String> {
        self.questions.lock().expect("no panic").clone()
    }
}

fn site(scene: &Scene, hosts: &str) -> String {
    let (root, port) = (scene.tree.root(), scene.settings.tls_port);
    format!(
        "[[site]]\n{hosts}\nlisten = [\"127.0.0.1:{port}\"]\nroot = {root:?}\ncertificate = \"acme\"\n\
         certificate_on_demand = true\n"
    )
}

/// The result of curl for a name: whether it received a file, and its error.
fn fetch(scene: &Scene, name: &str, root: &std::path::Path) -> (bool, String) {
    let port = scene.settings.tls_port;
    let (resolve, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/alphabet.txt"));
    let root = root.to_str().expect("the path is text");
    let output = curl(["--cacert", root, "--resolve", &resolve, "--fail", &url]).expect("curl was there");
    let came = output.status.success() && output.stdout == crate::support::ALPHABET.as_bytes();
    (came, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn orders_of(server: &Server) -> usize {
    server.error_text().matches("is requested from").count()
}

#[test]
fn a_name_gets_its_certificate_at_its_first_handshake() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let asked = Asked::start("good.test");
    // A wait as long as an order on a busy machine takes.
    let acme = scene.acme(Some(&pebble), &asked.rules(", wait = \"90s\""));
    let text = format!("[limits]\nheader_timeout = \"90s\"\n{acme}") + &site(&scene, "");
    let mut server = scene.start(&text);
    let root = pebble.root();
    // Several handshakes at a time make one order.
    let results: Vec<(bool, String)> = std::thread::scope(|scope| {
        let fetches: Vec<_> =
            (0..4).map(|_| scope.spawn(|| fetch(&scene, "shop.good.test", &root))).collect();
        fetches.into_iter().map(|fetch| fetch.join().expect("no panic")).collect()
    });
    assert!(results.iter().all(|(came, _)| *came), "{results:?}\n{}", server.error_text());
    assert_eq!(asked.questions(), ["/may?key=1&domain=shop.good.test"]);
    assert_eq!(orders_of(&server), 1);

    // A refused name costs one question, and no order; an invalid name costs no question.
    for _ in 0..3 {
        assert!(!fetch(&scene, "bad.test", &root).0);
    }
    assert!(!fetch(&scene, "localhost", &root).0);
    assert_eq!(asked.questions()[1..], ["/may?key=1&domain=bad.test"]);
    assert_eq!(orders_of(&server), 1);
    server.wait_for_error_line("says that it is refused", |line| {
        line.contains("bad.test gets no certificate: the server of acme.on_demand.ask refuses")
    });
    server.stop();

    // After a restart the stored certificate is used, without a question.
    let server = scene.start(&text);
    assert!(fetch(&scene, "shop.good.test", &root).0, "{}", server.error_text());
    assert_eq!((asked.questions().len(), orders_of(&server)), (2, 0));
}

#[test]
fn a_wildcard_site_on_demand_leaves_other_names_alone() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let asked = Asked::start(".test");
    let text = scene.acme(Some(&pebble), &asked.rules(", wait = \"90s\""))
        + &scene.secure_site(&["fixed.test"])
        + &site(&scene, "hosts = [\"*.customers.test\"]");
    let text = format!("[limits]\nheader_timeout = \"90s\"\n{text}");
    let server = scene.start(&text);
    let root = pebble.root();
    scene.wait_until_served("fixed.test", &root);
    assert!(fetch(&scene, "one.customers.test", &root).0, "{}", server.error_text());
    assert!(!fetch(&scene, "elsewhere.test", &root).0);
    assert_eq!(asked.questions(), ["/may?key=1&domain=one.customers.test"]);
}

#[test]
fn a_flood_of_invented_names_is_bounded() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    // The server that decides is unreachable.
    let port = crate::support::free_port();
    let rules =
        format!("on_demand = {{ ask = \"http://127.0.0.1:{port}/\", waiting = 4, orders_per_minute = 1 }}");
    let text = scene.acme(Some(&pebble), &rules) + &site(&scene, "");
    let server = scene.start(&text);
    let root = pebble.root();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (scene, root) = (&scene, &root);
            scope.spawn(move || {
                for number in 0..20 {
                    assert!(!fetch(scene, &format!("n{thread}-{number}.test"), root).0);
                }
            });
        }
    });
    server.wait_for_error_line("says that there is no answer", |line| line.contains("acme.on_demand.ask"));
    let lines = server.error_text().lines().filter(|line| line.contains("on_demand")).count();
    assert!(lines < 10, "{}", server.error_text());
    assert_eq!(pebble.orders(), 0);
    assert!(TcpStream::connect(server.address()).is_ok());
}

#[test]
fn the_number_of_orders_is_limited() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let asked = Asked::start(".test");
    let rules = asked.rules(", wait = \"90s\", orders_per_minute = 1");
    let text = format!("[limits]\nheader_timeout = \"90s\"\n{}", scene.acme(Some(&pebble), &rules))
        + &site(&scene, "");
    let server = scene.start(&text);
    let root = pebble.root();
    assert!(fetch(&scene, "one.test", &root).0, "{}", server.error_text());
    assert!(!fetch(&scene, "two.test", &root).0);
    server.wait_for_error_line("names the limit", |line| {
        line.contains("two.test gets no certificate now") && line.contains("acme.on_demand.orders_per_minute")
    });
    assert_eq!(orders_of(&server), 1);
    // The certificate on demand has a directory of its own.
    let file = scene.certificate_file("on-demand/one.test");
    wait_until("it is stored", PATIENCE, || file.exists());
    assert!(fs::read_to_string(file).expect("the file").contains("PRIVATE KEY"));
}
