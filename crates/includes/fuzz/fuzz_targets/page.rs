//! Reads any bytes as two pages that may include each other and themselves: evaluation ends within its
//! limits, and text outside directives is unchanged.
#![no_main]

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use touchstone_includes::{
    DependsOn, FetchedContent, Grammar, Host, Page, PageSource, Problem, Rendering, ResolvedTarget, Settings,
    ShellCommand, Target, TargetFacts, Variable, parse,
};

struct Site {
    pages: [Arc<Page>; 2],
}

impl Site {
    fn source(&self, path: &[u8], query: Option<Vec<u8>>) -> PageSource {
        let page = self.pages[path.len() % 2].clone();
        let path = path.to_vec();
        PageSource { page, file_path: path.clone(), path, query, modified_seconds: 0, owner: 0 }
    }
}

impl Host for Site {
    async fn resolve(&self, target: &Target) -> Result<ResolvedTarget, String> {
        Ok(match target.path.last() {
            Some(b'x') => ResolvedTarget::Content,
            _ => ResolvedTarget::Page(self.source(&target.path, target.query.clone()), DependsOn::Nothing),
        })
    }

    async fn fetch(&self, target: Target, _: Vec<Variable>) -> Result<FetchedContent, String> {
        match target.path.len() % 3 {
            0 => Err("it fails".to_owned()),
            _ => {
                let body = vec![Bytes::from(target.path)];
                Ok(FetchedContent { body, depends_on: DependsOn::Nothing, failure: None })
            }
        }
    }

    async fn run(&self, command: ShellCommand, _: Vec<Variable>) -> Result<Vec<Bytes>, String> {
        Ok(vec![Bytes::from(command.text)])
    }

    fn facts(&self, target: &Target) -> Result<TargetFacts, String> {
        let size = target.path.len() as u64;
        Ok(TargetFacts { size, modified_seconds: 0, depends_on: DependsOn::Nothing })
    }

    fn is_accessible(&self, _: &Target) -> bool {
        true
    }

    fn is_file(&self, _: &[u8]) -> bool {
        false
    }

    fn variable(&self, name: &str) -> Option<Vec<u8>> {
        name.len().is_multiple_of(2).then(|| name.into())
    }

    fn may_define(&self, name: &str) -> bool {
        name.len().is_multiple_of(2)
    }

    fn variables(&self) -> Vec<Variable> {
        Vec::new()
    }

    fn request_field(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn system_variable(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn user_name(&self, _: u32) -> Option<Vec<u8>> {
        None
    }

    fn report(&self, _: Problem<'_>) {}
}

fuzz_target!(|bytes: &[u8]| {
    let settings = Settings {
        exec: true,
        grammar: match bytes.first().copied().unwrap_or(0) % 3 {
            0 => Grammar::Apache24,
            1 => Grammar::Legacy,
            _ => Grammar::Nginx,
        },
        most_depth: 5,
        most_includes: 50,
        most_output_bytes: 100_000,
        ..Settings::default()
    };
    let middle = bytes.len() / 2;
    let pages = [&bytes[..middle], &bytes[middle..]]
        .map(|bytes| Arc::new(parse(&Bytes::copy_from_slice(bytes), &settings)));
    let plain = !pages[0].has_directives();
    let site = Rc::new(Site { pages });
    let document = site.source(b"", None);
    let mut rendering = Rendering::new(site, Arc::new(settings), document, 1_000_000_000);
    let mut output = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match rendering.poll_next(&mut context) {
            Poll::Ready(Some(piece)) => output.extend_from_slice(&piece),
            Poll::Ready(None) => break,
            Poll::Pending => panic!("nothing here waits"),
        }
    }
    if plain {
        assert_eq!(output, &bytes[..middle]);
        assert_eq!(rendering.depends_on(), DependsOn::Nothing);
    }
});
