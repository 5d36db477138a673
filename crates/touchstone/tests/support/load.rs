//! A load of clients of every kind; any failed request fails the test.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{AnswerTo, Client, wait_until};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

const REQUEST: &str = "GET /page.bin HTTP/1.1\r\nHost: a\r\n\r\n";

/// What the clients of a load have in common.
pub(crate) struct Load<'a> {
    address: SocketAddr,
    body: &'a [u8],
    pub(crate) answered: AtomicUsize,
    pub(crate) stop: AtomicBool,
    /// Whether the server is being stopped, so that a refused connection is not a failure.
    pub(crate) may_end: AtomicBool,
}

impl<'a> Load<'a> {
    pub(crate) fn new(address: SocketAddr, body: &'a [u8]) -> Load<'a> {
        let (stop, may_end) = (AtomicBool::new(false), AtomicBool::new(false));
        Load { address, body, answered: AtomicUsize::new(0), stop, may_end }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Waits until so many more requests have been answered.
    pub(crate) fn wait_for_answers(&self, more: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        wait_until("the load continues", PATIENCE, || self.answered.load(Ordering::Relaxed) >= before + more);
    }

    /// Sends a request and checks its answer; returns whether the connection continues.
    fn ask(&self, client: &mut Client, request: &str) -> Result<bool, String> {
        client.try_send(request.as_bytes()).map_err(|error| format!("a request was not taken: {error}"))?;
        let answer =
            client.try_answer(AnswerTo::Other).map_err(|broken| format!("a request was lost: {broken}"))?;
        if answer.status != 200 || answer.body != self.body {
            return Err(format!("status {} and {} bytes", answer.status, answer.body.len()));
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(!answer.says_close())
    }

    /// Request after request on kept connections. A connection ends where the answer announces it, or before
    /// a request was sent; no other end is allowed.
    fn on_kept_connections(&self) -> Result<(), String> {
        while self.goes_on() {
            let Some(mut client) = self.connect()? else { return Ok(()) };
            while self.goes_on() && !client.is_ended() {
                if !self.ask(&mut client, REQUEST)? {
                    client.try_end().map_err(|broken| format!("after Connection: close: {broken}"))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// A new connection for every request, of both versions.
    fn on_new_connections(&self) -> Result<(), String> {
        let requests = [
            "GET /page.bin HTTP/1.0\r\n\r\n",
            "GET /page.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ];
        for request in requests.into_iter().cycle() {
            if !self.goes_on() {
                break;
            }
            let Some(mut client) = self.connect()? else { return Ok(()) };
            self.ask(&mut client, request)?;
            client.try_end().map_err(|broken| format!("after the only answer: {broken}"))?;
        }
        Ok(())
    }

    /// Eight requests at a time.
    fn pipelined(&self) -> Result<(), String> {
        let batch = REQUEST.repeat(8);
        while self.goes_on() {
            let Some(mut client) = self.connect()? else { return Ok(()) };
            while self.goes_on() && !client.is_ended() {
                if !self.ask(&mut client, &batch)? {
                    // The rest of the batch may have no answer: the close announced it.
                    break;
                }
                let mut kept = true;
                for _ in 1..8 {
                    kept = kept && self.ask(&mut client, "")?;
                }
                if !kept {
                    break;
                }
            }
        }
        Ok(())
    }

    /// `None` once the server has stopped and no longer listens.
    fn connect(&self) -> Result<Option<Client>, String> {
        match Client::try_connect(self.address) {
            Ok(client) => Ok(Some(client)),
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && self.may_end.load(Ordering::Relaxed) =>
            {
                Ok(None)
            }
            Err(error) => Err(format!("connect: {error}")),
        }
    }
}

/// Runs clients of every kind, and `meanwhile` beside them; fails with all their failures.
pub(crate) fn under_load(load: &Load<'_>, meanwhile: impl FnOnce()) {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(scope.spawn(|| load.on_kept_connections()));
            clients.push(scope.spawn(|| load.on_new_connections()));
        }
        clients.push(scope.spawn(|| load.pipelined()));
        // If this fails, the clients must still end, or the scope would wait for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
        if outcome.is_err() {
            load.stop.store(true, Ordering::Relaxed);
        }
        let results: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("no client panics")).collect();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        results.into_iter().filter_map(Result::err).collect()
    });
    assert!(failures.is_empty(), "failed requests:\n{}", failures.join("\n"));
}
