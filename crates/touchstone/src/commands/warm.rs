//! `touchstone warm`: requests a list of URLs, or those of a sitemap, from an accelerator, so that they are
//! stored before clients ask for them.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use touchstone_client::blocking::read_answer;

use super::print::print;
use crate::exit::Exit;

/// The maximum size of a sitemap (its own protocol allows 50 MiB), and the maximum number of sitemaps.
const LONGEST_SITEMAP_BYTES: u64 = 50 << 20;
const MOST_SITEMAPS: usize = 1000;

/// The maximum time without progress of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which accelerator, and which URLs.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct Arguments {
    /// The address of the accelerator, in plain HTTP
    #[arg(long, value_name = "ADDR:PORT")]
    server: SocketAddr,

    /// A file with one URL or path on each line; "-" is standard input
    #[arg(long, value_name = "FILE", group = "what")]
    list: Option<PathBuf>,

    /// A sitemap, or an index of sitemaps, requested like the other URLs: http://example.org/sitemap.xml or
    /// /sitemap.xml
    #[arg(long, value_name = "URL", group = "what")]
    sitemap: Option<String>,

    /// The value of Host for a path without a host [default: the server's address]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,

    /// The number of simultaneous requests
    #[arg(
        long,
        value_name = "N",
        default_value = "8",
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    parallel: u16,
}

/// The outcome.
#[derive(Default)]
struct Tally {
    requested: AtomicUsize,
    failed: AtomicUsize,
    stored: AtomicUsize,
}

/// Warms the cache, and prints the numbers of answers.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let host = arguments.host.clone().unwrap_or_else(|| arguments.server.to_string());
    let mut wanted = VecDeque::new();
    if let Some(list) = &arguments.list {
        match read_list(list) {
            Ok(lines) => wanted.extend(lines),
            Err(error) => {
                eprintln!("touchstone warm: {}: {error}", list.display());
                return Exit::Usage;
            }
        }
    }
    if let Some(sitemap) = &arguments.sitemap {
        match read_sitemaps(arguments.server, &host, sitemap) {
            Ok(urls) => wanted.extend(urls),
            Err(problem) => {
                eprintln!("touchstone warm: {problem}");
                return Exit::Failed;
            }
        }
    }
    let tally = Tally::default();
    let queue = Mutex::new(wanted);
    thread::scope(|scope| {
        for _ in 0..arguments.parallel {
            scope.spawn(|| ask_all(arguments.server, &host, &queue, &tally));
        }
    });
    let (requested, failed) = (tally.requested.into_inner(), tally.failed.into_inner());
    let stored = tally.stored.into_inner();
    print(&format!("{requested} requested, {stored} of them stored now, {failed} failed"));
    if failed == 0 { Exit::Done } else { Exit::Failed }
}

/// Requests the remaining URLs until none is left.
fn ask_all(server: SocketAddr, host: &str, queue: &Mutex<VecDeque<String>>, tally: &Tally) {
    loop {
        let next = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
        let Some(url) = next else { return };
        tally.requested.fetch_add(1, Ordering::Relaxed);
        match ask(server, host, &url, u64::MAX, &mut io::sink()) {
            Ok(answer) if answer.status < 400 => {
                tally.stored.fetch_add(usize::from(answer.is_stored), Ordering::Relaxed);
            }
            Ok(answer) => {
                eprintln!("touchstone warm: {url}: {}", answer.status);
                tally.failed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                eprintln!("touchstone warm: {url}: {error}");
                tally.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn read_list(path: &PathBuf) -> io::Result<Vec<String>> {
    let reader: Box<dyn BufRead> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(io::BufReader::new(std::fs::File::open(path)?)),
    };
    let lines = reader.lines().collect::<io::Result<Vec<String>>>()?;
    let lines = lines.into_iter().map(|line| line.trim().to_string());
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
}

/// The URLs of a sitemap, and of the sitemaps that it names.
fn read_sitemaps(server: SocketAddr, host: &str, first: &str) -> Result<Vec<String>, String> {
    let (mut urls, mut seen) = (Vec::new(), HashSet::new());
    let mut open = VecDeque::from([first.to_string()]);
    while let Some(sitemap) = open.pop_front() {
        if !seen.insert(sitemap.clone()) || seen.len() > MOST_SITEMAPS {
            continue;
        }
        let mut text = Vec::new();
        let answer = ask(server, host, &sitemap, LONGEST_SITEMAP_BYTES, &mut text)
            .map_err(|error| format!("{sitemap}: {error}"))?;
        if answer.status != 200 {
            return Err(format!("{sitemap}: {}", answer.status));
        }
        let text = String::from_utf8_lossy(&text);
        let locations = locations(&text);
        match text.contains("<sitemapindex") {
            true => open.extend(locations),
            false => urls.extend(locations),
        }
    }
    Ok(urls)
}

/// The text of `loc` elements (sitemaps.org): the rest of the XML does not matter here.
fn locations(text: &str) -> Vec<String> {
    text.split("<loc>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</loc>"))
        .map(|(location, _)| {
            unescaped(location.trim().trim_start_matches("<![CDATA[").trim_end_matches("]]>"))
        })
        .filter(|location| !location.is_empty())
        .collect()
}

fn unescaped(text: &str) -> String {
    // The ampersand is decoded last, so that its result is not taken for another entity.
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_string(), |text, (entity, character)| text.replace(entity, character))
}

/// An answer.
struct WarmAnswer {
    status: u16,
    /// Whether the accelerator has it in its cache now.
    is_stored: bool,
}

/// Requests one URL on a new connection, and reads the whole answer.
fn ask(
    server: SocketAddr,
    host: &str,
    url: &str,
    most_bytes: u64,
    body: &mut impl Write,
) -> io::Result<WarmAnswer> {
    let other = |problem: &str| io::Error::other(problem.to_string());
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let (host, target) = match rest {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => (host, url),
    };
    let slash = if target.starts_with('/') { "" } else { "/" };
    let is_good = |text: &str| text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    if !is_good(host) || !is_good(target) || (rest.is_none() && !slash.is_empty()) {
        return Err(other("neither a URL nor a path"));
    }
    let target = target.split('#').next().unwrap_or_default();
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!(
        "GET {slash}{target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: touchstone-warm\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let head = read_answer(&mut stream, most_bytes, body)?;
    let status = head.field(b"cache-status").map(String::from_utf8_lossy).unwrap_or_default();
    Ok(WarmAnswer { status: head.status, is_stored: status.contains("; stored") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_of_a_sitemap() {
        let text = "<urlset><url><loc> http://a/b?c=1&amp;d=2 </loc><x/></url><url><loc><![CDATA[/e]]>\
                    </loc></url>\
                    <loc></loc><loc>unfinished";
        assert_eq!(locations(text), ["http://a/b?c=1&d=2", "/e"]);
        assert_eq!(unescaped("&amp;lt;"), "&lt;");
    }
}
