//! The fabric on NATS with JetStream. The members' code blocks in threads; the client library runs on a
//! separate thread, which also stamps messages when they arrive.

use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::fabric::{
    Fabric, FabricError, Inbox, InboxSender, Message, Notice, StoredMessage, Traffic, inbox,
};
use crate::setup::{bucket, inbox_prefix};
use async_nats::connection::State;
use async_nats::jetstream::consumer::{self, AckPolicy, DeliverPolicy};
use async_nats::jetstream::kv::{self, CreateErrorKind};
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::{self, Context, stream};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use futures_util::StreamExt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt::Display;
use std::future::Future;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender as EndSender;
use touchstone_lab::machine::sha256;

/// How long the broker's machine may take to answer a connection attempt.
const REACH_TIME: Duration = Duration::from_millis(1500);
/// How long an attempt to connect may take, with all handshakes; on a busy machine they take seconds.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer of the broker may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How often a silent broker is pinged; after two pings without an answer it counts as away.
const PING_PERIOD: Duration = Duration::from_millis(500);
/// Between two attempts to connect again.
const RECONNECT_PERIOD: Duration = Duration::from_millis(100);
/// How long the broker keeps results and plans.
const KEEP_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long an unused taker of results is remembered.
const TAKER_TIME: Duration = Duration::from_secs(3600);
/// How long the broker itself recognises repeated parts; after that, the controller that assembles them does.
const DUPLICATE_TIME: Duration = Duration::from_secs(120);
/// How long a claim holds.
const CLAIM_TIME: Duration = Duration::from_secs(3);
/// The largest document that is fetched.
const MAXIMUM_DOCUMENT_BYTES: usize = 2 * 1024 * 1024 * 1024;
/// The most kept messages that the broker delivers before the first of them is acknowledged.
const MOST_UNACKNOWLEDGED: i64 = 128;
/// Messages that wait here for a member's thread.
const MESSAGES_WAITING: usize = 65_536;

/// One member's connection to the broker.
pub struct Nats {
    engine: Engine,
    client: Client,
    jetstream: Context,
    fleet: String,
    clock: Clock,
    notices: Mutex<Receiver<Notice>>,
    /// Receives the broker's refusals of members; only the controller's.
    _watch: Option<Client>,
}

/// The thread of the client library; several members in one process can share it. It ends with its last
/// member.
#[derive(Clone)]
pub(crate) struct Engine {
    handle: Handle,
    end: Arc<EndSender<()>>,
}

impl Engine {
    pub(crate) fn start() -> Result<Engine, FabricError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, mut ended) = tokio::sync::mpsc::channel(1);
        let drive = move || {
            runtime.block_on(ended.recv());
        };
        std::thread::Builder::new().name("fabric".to_string()).spawn(drive).map_err(failed)?;
        Ok(Engine { handle, end: Arc::new(end) })
    }

    /// Waits for work on the engine's thread.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.handle.spawn(work)
    }
}

impl Nats {
    /// Connects once; afterwards a lost connection is restored automatically.
    pub fn connect(url: &str, credentials: &Credentials, clock: Clock) -> Result<Nats, FabricError> {
        Nats::connect_on(Engine::start()?, url, credentials, clock)
    }

    /// The same for another member of this process, on the thread of this one's connection.
    pub fn connect_beside(
        &self,
        url: &str,
        credentials: &Credentials,
        clock: Clock,
    ) -> Result<Nats, FabricError> {
        Nats::connect_on(self.engine.clone(), url, credentials, clock)
    }

    fn connect_on(
        engine: Engine,
        url: &str,
        credentials: &Credentials,
        clock: Clock,
    ) -> Result<Nats, FabricError> {
        reach(url, REACH_TIME).map_err(|error| {
            FabricError::Unreachable(format!("the broker at {url} cannot be reached: {error}"))
        })?;
        let (sender, notices) = channel();
        let member = &credentials.member;
        let client = engine.wait(open(url, credentials, &credentials.seed, member, sender.clone()))?;
        let watch = match &credentials.watch_seed {
            Some(seed) => Some(engine.wait(watch(url, credentials, seed, sender))?),
            None => None,
        };
        // This starts a task, which must run on the engine's thread.
        let mut jetstream = engine.wait(async { jetstream::new(client.clone()) });
        jetstream.set_timeout(ANSWER_TIME);
        let fleet = credentials.fleet.clone();
        Ok(Nats { engine, client, jetstream, fleet, clock, notices: Mutex::new(notices), _watch: watch })
    }

    /// Creates the fleet's stores at the broker, for results and for documents, if they do not exist.
    pub fn prepare_store(&self) -> Result<(), FabricError> {
        self.wait(async {
            let results = stream::Config {
                name: self.results_stream(),
                subjects: vec![format!("fleet.{}.result.*", self.fleet)],
                max_age: KEEP_TIME,
                duplicate_window: DUPLICATE_TIME,
                storage: stream::StorageType::File,
                ..Default::default()
            };
            self.jetstream.get_or_create_stream(results).await.map_err(failed)?;
            let documents = object_store::Config {
                bucket: bucket(&self.fleet),
                max_age: KEEP_TIME,
                ..Default::default()
            };
            self.jetstream.create_object_store(documents).await.map_err(failed)?;
            let claims = kv::Config { bucket: self.claims(), max_age: CLAIM_TIME, ..Default::default() };
            self.jetstream.create_key_value(claims).await.map_err(failed)?;
            Ok(())
        })
    }

    fn results_stream(&self) -> String {
        format!("fleet-{}-results", self.fleet)
    }

    fn claims(&self) -> String {
        format!("fleet-{}-claims", self.fleet)
    }

    /// Waits for the engine, for a bounded time.
    fn wait<T>(&self, work: impl Future<Output = Result<T, FabricError>>) -> Result<T, FabricError> {
        let limited = async { tokio::time::timeout(2 * ANSWER_TIME, work).await };
        match self.engine.wait(limited) {
            Ok(result) => result,
            Err(_) => Err(FabricError::Unreachable(format!(
                "the broker did not answer within {:?}",
                2 * ANSWER_TIME
            ))),
        }
    }

    async fn documents(&self) -> Result<ObjectStore, FabricError> {
        self.jetstream.get_object_store(bucket(&self.fleet)).await.map_err(failed)
    }
}

fn failed(error: impl Display) -> FabricError {
    FabricError::Failed(error.to_string())
}

/// Whether a server listens at a URL of the form `tls://host:port`; otherwise the error of its last address.
pub(crate) fn reach(url: &str, time: Duration) -> std::io::Result<()> {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let mut reached = Err(std::io::Error::other("its host name has no address"));
    for address in place.to_socket_addrs()? {
        reached = TcpStream::connect_timeout(&address, time).map(drop);
        if reached.is_ok() {
            break;
        }
    }
    reached
}

/// Opens a connection as this member.
pub(crate) async fn open(
    url: &str,
    credentials: &Credentials,
    seed: &str,
    name: &str,
    notices: Sender<Notice>,
) -> Result<Client, FabricError> {
    // An invalid key would make the client library panic.
    nkeys::KeyPair::from_seed(seed)
        .map_err(|error| FabricError::Failed(format!("the credentials of {name} hold no key: {error}")))?;
    let options = ConnectOptions::new()
        .nkey(seed.to_string())
        .name(name)
        .require_tls(true)
        .tls_client_config(tls(&credentials.authority)?)
        .custom_inbox_prefix(inbox_prefix(&credentials.fleet, &credentials.member))
        .connection_timeout(CONNECT_TIME)
        .request_timeout(Some(ANSWER_TIME))
        .ping_interval(PING_PERIOD)
        .subscription_capacity(MESSAGES_WAITING)
        .reconnect_delay_callback(|_| RECONNECT_PERIOD)
        .event_callback(move |event| {
            let notice = match event {
                Event::Connected => Some(Notice::Connected),
                Event::Disconnected | Event::Closed => Some(Notice::Disconnected),
                Event::ServerError(error) => Some(Notice::Refused(error.to_string())),
                Event::ClientError(error) => Some(Notice::Refused(error.to_string())),
                Event::SlowConsumer(_) => {
                    Some(Notice::Refused("messages were lost on this machine".to_string()))
                }
                Event::LameDuckMode | Event::Draining => None,
            };
            // The receiver may have ended already.
            let _ = notice.map(|notice| notices.send(notice));
            std::future::ready(())
        });
    options.connect(url).await.map_err(|error| match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            FabricError::Unauthorised(format!(
                "the broker at {url} refuses the credentials of {name}: they belong to another fleet, or \
                 were replaced"
            ))
        }
        ConnectErrorKind::Tls => FabricError::Failed(format!(
            "{url} is not the broker that the credentials of {name} are for: {error}"
        )),
        _ => FabricError::Unreachable(format!("the broker at {url} cannot be reached: {error}")),
    })
}

/// Only the fleet's own authority is trusted.
fn tls(authority: &str) -> Result<rustls::ClientConfig, FabricError> {
    let unreadable = |error: String| FabricError::Failed(format!("the fleet's certificate: {error}"));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| unreadable(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Receives the broker's refusals of members.
async fn watch(
    url: &str,
    credentials: &Credentials,
    seed: &str,
    notices: Sender<Notice>,
) -> Result<Client, FabricError> {
    let (unheard, _) = channel();
    let client = open(url, credentials, seed, "controller's watch", unheard).await?;
    let mut refusals = client.subscribe("$SYS.SERVER.*.CLIENT.AUTH.ERR").await.map_err(failed)?;
    tokio::spawn(async move {
        while let Some(message) = refusals.next().await {
            let name = serde_json::from_slice::<serde_json::Value>(&message.payload)
                .ok()
                .and_then(|event| Some(event.get("client")?.get("name")?.as_str()?.to_string()));
            let name = name.unwrap_or_else(|| "a member without a name".to_string());
            if notices.send(Notice::Unauthorised(name)).is_err() {
                return;
            }
        }
    });
    Ok(client)
}

impl Fabric for Nats {
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError> {
        if !self.is_connected() {
            return Err(FabricError::Unreachable("the connection to the broker is lost".to_string()));
        }
        self.wait(async { self.client.publish(subject.to_string(), body.into()).await.map_err(failed) })
    }

    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError> {
        let mut subscription = self.wait(async {
            let subscription = self.client.subscribe(pattern.to_string()).await.map_err(failed)?;
            // The broker must have the subscription before the first request.
            self.client.flush().await.map_err(failed)?;
            Ok(subscription)
        })?;
        let (sender, inbox) = inbox();
        let clock = self.clock.clone();
        self.engine.spawn(async move {
            while let Some(message) = subscription.next().await {
                let received = clock.now();
                let subject = message.subject.to_string();
                let bytes = message.payload.len();
                if !sender.send(bytes, Message { subject, body: message.payload.into(), received }) {
                    return;
                }
            }
        });
        Ok(inbox)
    }

    fn store_document(&self, document: &[u8]) -> Result<String, FabricError> {
        let sha256 = sha256(document);
        self.wait(async {
            let documents = self.documents().await?;
            if documents.info(&sha256).await.is_err() {
                documents.put(sha256.as_str(), &mut &document[..]).await.map_err(failed)?;
            }
            Ok(())
        })?;
        Ok(sha256)
    }

    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError> {
        let document = self.wait(async {
            let mut object = self.documents().await?.get(sha256).await.map_err(failed)?;
            if object.info().size > MAXIMUM_DOCUMENT_BYTES {
                return Err(FabricError::Failed(format!("the document has {} bytes", object.info().size)));
            }
            let mut document = Vec::with_capacity(object.info().size);
            object.read_to_end(&mut document).await.map_err(failed)?;
            Ok(document)
        })?;
        if touchstone_lab::machine::sha256(&document) != sha256 {
            return Err(FabricError::Failed(format!("the document {sha256} was changed")));
        }
        Ok(document)
    }

    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.wait(async {
            let message = jetstream::message::PublishMessage::build().payload(body.into()).message_id(id);
            let kept = self.jetstream.send_publish(subject.to_string(), message).await.map_err(failed)?;
            kept.await.map_err(failed)?;
            Ok(())
        })
    }

    fn kept(&self, pattern: &str, name: &str) -> Result<Inbox<StoredMessage>, FabricError> {
        let configuration = consumer::pull::Config {
            durable_name: Some(name.to_string()),
            filter_subject: pattern.to_string(),
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ANSWER_TIME,
            inactive_threshold: TAKER_TIME,
            max_ack_pending: MOST_UNACKNOWLEDGED,
            ..Default::default()
        };
        let consumer = self.wait(async {
            let stream = self.jetstream.get_stream(self.results_stream()).await.map_err(failed)?;
            stream.get_or_create_consumer(name, configuration).await.map_err(failed)
        })?;
        let (sender, inbox) = inbox();
        let end = Arc::downgrade(&self.engine.end);
        self.engine.spawn(take_kept(consumer, sender, self.engine.handle.clone(), end));
        Ok(inbox)
    }

    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.wait(async {
            let claims = self.jetstream.get_key_value(self.claims()).await.map_err(failed)?;
            let value = bytes::Bytes::from(owner.to_string());
            // Only one of two claims at the same time succeeds: the broker compares before it sets.
            match claims.create(key, value.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
            match claims.entry(key).await.map_err(failed)? {
                Some(entry) if entry.value == value => {
                    claims.update(key, value, entry.revision).await.map_err(failed)?;
                    Ok(())
                }
                Some(entry) => Err(FabricError::Held(String::from_utf8_lossy(&entry.value).into_owned())),
                None => Err(FabricError::Held("another controller, until a moment ago".to_string())),
            }
        })
    }

    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.wait(async {
            let claims = self.jetstream.get_key_value(self.claims()).await.map_err(failed)?;
            match claims.entry(key).await.map_err(failed)? {
                Some(entry) if entry.value == owner.as_bytes() => {
                    claims.delete_expect_revision(key, Some(entry.revision)).await.map_err(failed)
                }
                _ => Ok(()),
            }
        })
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    fn traffic(&self) -> Traffic {
        let statistics = self.client.statistics();
        Traffic {
            sent_bytes: statistics.out_bytes.load(Ordering::Relaxed),
            received_bytes: statistics.in_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Receives kept messages until the inbox is dropped; repeats the request after the broker was away.
async fn take_kept(
    consumer: consumer::PullConsumer,
    sender: InboxSender<StoredMessage>,
    handle: Handle,
    end: Weak<EndSender<()>>,
) {
    loop {
        let batch = consumer.batch().max_messages(64).expires(Duration::from_secs(1)).messages().await;
        let Ok(mut batch) = batch else {
            tokio::time::sleep(RECONNECT_PERIOD).await;
            continue;
        };
        while let Some(message) = batch.next().await {
            let Ok(message) = message else { break };
            // The engine's thread runs until every message is acknowledged.
            let Some(engine) = end.upgrade().map(|end| Engine { handle: handle.clone(), end }) else {
                return;
            };
            let (message, acknowledgement) = message.split();
            let acknowledge = Box::new(move || {
                let acked = async { tokio::time::timeout(ANSWER_TIME, acknowledgement.double_ack()).await };
                match engine.wait(acked) {
                    Ok(acked) => acked.map_err(failed),
                    Err(_) => Err(FabricError::Unreachable("the broker sent no confirmation".to_string())),
                }
            });
            let (subject, bytes) = (message.subject.to_string(), message.payload.len());
            if !sender.send(bytes, StoredMessage { subject, body: message.payload.into(), acknowledge }) {
                return;
            }
        }
    }
}
