//! The provider: a thread keeps its metadata and keys current, and makes the requests of the cores, which
//! must not wait for name servers and handshakes.
//!
//! The metadata is fetched at the start and at every `refresh`. While the provider fails, what was fetched
//! last stays in use. Providers with the same settings are one, and a reload keeps them.

use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use touchstone_access::{KeyLocation, KeySource, Report};
use touchstone_client::{HttpClient, Settings};

use crate::logout_table::LogoutTable;
use crate::metadata::{LARGEST, Metadata};
use crate::renewal_table::RenewalTable;

/// The wait after a failed fetch; it is doubled each time up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The most requests to a provider that wait or run; further logins are answered with 503.
const MOST_WAITING: usize = 256;

/// The most requests at a time.
const MOST_AT_A_TIME: usize = 32;

/// The metadata and keys of a provider.
pub struct DiscoveredProvider {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its keys.
    pub keys: Arc<KeySource>,
}

/// A job of a core: requests to the provider, and the use of the answers. It runs even if the client that
/// caused it has left.
type Job = Box<dyn FnOnce(HttpClient) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A provider. Its thread ends with it.
pub struct Provider {
    discovered: watch::Receiver<Option<Arc<DiscoveredProvider>>>,
    jobs: mpsc::Sender<Job>,
    /// The questions about sessions of this issuer. Providers with other settings have the same.
    pub renewals: Arc<RenewalTable>,
    /// The sessions that this issuer has ended; the same is true of them.
    pub logouts: Arc<LogoutTable>,
}

/// What makes two providers the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderSettings {
    /// The issuer.
    pub issuer: String,
    /// The authorities that its certificate may be from; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
    /// How often its metadata and keys are fetched.
    pub refresh: Duration,
}

impl Provider {
    /// A provider with these settings, and the tables of its issuer. The error describes their problem.
    pub fn start(
        settings: ProviderSettings,
        renewals: Arc<RenewalTable>,
        logouts: Arc<LogoutTable>,
        report: Report,
    ) -> Result<Provider, String> {
        let client = HttpClient::new(Settings {
            ca_certificate: settings.ca_certificate.as_deref(),
            ca_key: "login.ca_certificate",
            user_agent: concat!("touchstone/", env!("CARGO_PKG_VERSION")),
            most_answer_bytes: LARGEST,
        })?;
        let (publish, discovered) = watch::channel(None);
        let (jobs, queue) = mpsc::channel(MOST_WAITING);
        let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let work = work(&settings, client, &publish, queue, &report);
                let jobs = tokio::task::LocalSet::new();
                runtime.block_on(jobs.run_until(work));
                // After a reload another provider may replace this one. The thread waits for the answers to
                // its requests: a refresh token that was used must not get lost with its answer.
                runtime.block_on(jobs);
            }
            Err(_) => report(&format!("{}: no event loop for logins", settings.issuer)),
        };
        std::thread::Builder::new()
            .name("login".to_string())
            .spawn(run)
            .map_err(|error| format!("no thread for logins: {error}"))?;
        Ok(Provider { discovered, jobs, renewals, logouts })
    }

    /// The metadata and keys; `None`: they have not been fetched yet.
    pub fn discovered(&self) -> Option<Arc<DiscoveredProvider>> {
        self.discovered.borrow().clone()
    }

    /// The same, after a short wait if it is being fetched.
    pub async fn wait_until_discovered(&self, patience: Duration) -> Option<Arc<DiscoveredProvider>> {
        let mut discovered = self.discovered.clone();
        let found = tokio::time::timeout(patience, discovered.wait_for(Option::is_some)).await;
        found.ok()?.ok()?.clone()
    }

    /// Has a job done on the thread of the provider; `None`: too many wait.
    pub fn run<T, F>(
        &self,
        job: impl FnOnce(HttpClient) -> F + Send + 'static,
    ) -> Option<oneshot::Receiver<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (result, received) = oneshot::channel();
        let job: Job = Box::new(move |client| {
            let work = job(client);
            Box::pin(async move {
                // The client that caused it may have left.
                _ = result.send(work.await);
            })
        });
        self.jobs.try_send(job).ok().map(|()| received)
    }
}

/// What the thread does, until the provider is not used any more.
async fn work(
    settings: &ProviderSettings,
    client: HttpClient,
    publish: &watch::Sender<Option<Arc<DiscoveredProvider>>>,
    mut queue: mpsc::Receiver<Job>,
    report: &Report,
) {
    let turns = Rc::new(Semaphore::new(MOST_AT_A_TIME));
    let mut retry = FIRST_RETRY;
    let mut keys: Option<(String, Arc<KeySource>)> = None;
    loop {
        let fetch = fetch(settings, &client, &mut keys, report);
        let wait = match serve_until(fetch, &mut queue, &client, &turns).await {
            None => return,
            Some(Ok(discovered)) => {
                publish.send_replace(Some(Arc::new(discovered)));
                retry = FIRST_RETRY;
                settings.refresh
            }
            Some(Err(problem)) => {
                report(&format!("login with {}: {problem}", settings.issuer));
                let wait = retry;
                retry = (retry * 2).min(LONGEST_RETRY);
                wait
            }
        };
        if serve_until(tokio::time::sleep(wait), &mut queue, &client, &turns).await.is_none() {
            return;
        }
    }
}

/// Runs jobs until `end` is done; `None`: there will be no more.
async fn serve_until<T>(
    end: impl Future<Output = T>,
    queue: &mut mpsc::Receiver<Job>,
    client: &HttpClient,
    turns: &Rc<Semaphore>,
) -> Option<T> {
    tokio::pin!(end);
    loop {
        tokio::select! {
            done = &mut end => return Some(done),
            job = queue.recv() => {
                let (job, client, turns) = (job?, client.clone(), turns.clone());
                tokio::task::spawn_local(async move {
                    if let Ok(_turn) = turns.acquire().await {
                        job(client).await;
                    }
                });
            }
        }
    }
}

/// Fetches the metadata, and opens the keys that it names.
async fn fetch(
    settings: &ProviderSettings,
    client: &HttpClient,
    keys: &mut Option<(String, Arc<KeySource>)>,
    report: &Report,
) -> Result<DiscoveredProvider, String> {
    let address = Metadata::address(&settings.issuer);
    let text = client.get(&address).await.map_err(|problem| match problem.starts_with(&address) {
        true => problem,
        false => format!("{address}: {problem}"),
    })?;
    let metadata =
        Metadata::read(&text, &settings.issuer).map_err(|problem| format!("{address}: {problem}"))?;
    let source = match keys {
        Some((address, source)) if *address == metadata.jwks_uri => source.clone(),
        _ => {
            let location = KeyLocation::Url(metadata.jwks_uri.clone(), settings.ca_certificate.clone());
            let source = Arc::new(KeySource::open(location, settings.refresh, report.clone())?);
            *keys = Some((metadata.jwks_uri.clone(), source.clone()));
            source
        }
    };
    Ok(DiscoveredProvider { metadata, keys: source })
}
