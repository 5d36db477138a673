//! The functions of the server for a page, for one request.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_config::LogLevel;
use touchstone_files::root::{FileKind, Root};
use touchstone_handler::answer::{Answer, BodyPart, cached_bytes};
use touchstone_handler::request::Request;
use touchstone_includes::{
    DependsOn, FetchedContent, Host, PageSource, Problem, ResolvedTarget, ShellCommand, Target, TargetFacts,
    TargetKind, Variable,
};
use touchstone_sites::includes::SiteIncludes;
use touchstone_sites::site::Snapshot;

use super::command::{self, Limits};
use super::resolve::{IncludeTarget, ResolvedInclude, resolve, resolve_at_once};
use super::variables::{self, Variables};
use super::{kept, load};
use crate::core::Core;
use crate::files::site_files;

/// The functions of the server for the page of one request.
pub struct PageHost {
    /// The core that it is evaluated on.
    pub core: Rc<Core>,
    /// The configuration that it is answered under.
    pub snapshot: Arc<Snapshot>,
    /// The request, without its body.
    pub request: Request,
    /// The site whose file the page is.
    pub site: usize,
    /// The page's file, below the site's root.
    pub file_path: Vec<u8>,
}

impl PageHost {
    fn root(&self) -> &Root {
        &self.snapshot.sites[self.site].root
    }

    fn variables(&self) -> Variables<'_> {
        Variables { request: &self.request, root: self.root(), file_path: &self.file_path }
    }

    fn includes(&self) -> Option<&SiteIncludes> {
        self.snapshot.sites[self.site].includes.as_ref()
    }

    /// The page that a path of a site's files names; `None`: the path names something else, or nothing.
    async fn page(&self, site: usize, request: &Request) -> Result<Option<PageSource>, String> {
        let Some(includes) = &self.snapshot.sites[site].includes else { return Ok(None) };
        for file_path in site_files::candidates(&self.snapshot.sites[site], &request.path) {
            let page = match kept(&self.core, &self.snapshot, site, &file_path) {
                Some(page) => page,
                None => {
                    let Ok(opened) = self.snapshot.sites[site].root.open(&file_path) else { continue };
                    let content_type = self.snapshot.sites[site].content_types.content_type(&file_path);
                    let is_file = opened.facts.kind == FileKind::Regular;
                    if !is_file || !includes.is_page(&file_path, &opened.facts, &content_type) {
                        return Ok(None);
                    }
                    let loaded = load(&self.core, &self.snapshot, site, includes, &file_path, opened).await;
                    loaded.map_err(|_| format!("{} cannot be read", String::from_utf8_lossy(&file_path)))?
                }
            };
            return Ok(Some(PageSource {
                page: page.page.clone(),
                path: file_path.clone(),
                query: request.query.as_deref().map(<[u8]>::to_vec),
                file_path,
                modified_seconds: page.facts.modified_seconds,
                owner: page.facts.owner,
            }));
        }
        Ok(None)
    }

    async fn answer(&self, include: ResolvedInclude) -> Answer {
        let (core, snapshot) = (self.core.clone(), self.snapshot.clone());
        match include.to {
            IncludeTarget::Files { site } => {
                (core.own_requests.answer_file)(core, snapshot, site, include.request).await
            }
            _ => (core.own_requests.answer)(core, snapshot, include.request).await,
        }
    }
}

impl Host for PageHost {
    async fn resolve(&self, target: &Target) -> Result<ResolvedTarget, String> {
        let include = resolve(&self.snapshot, &self.request, self.site, target).await?;
        let IncludeTarget::Files { site } = include.to else { return Ok(ResolvedTarget::Content) };
        // Pages with another site's settings are evaluated separately.
        match self.page(site, &include.request).await? {
            Some(mut source) => {
                source.query = target.query.clone();
                Ok(ResolvedTarget::Page(source, depends_on(&include)))
            }
            None => Ok(ResolvedTarget::Content),
        }
    }

    async fn fetch(&self, target: Target, variables: Vec<Variable>) -> Result<FetchedContent, String> {
        let shown = String::from_utf8_lossy(&target.path).into_owned();
        let mut include = resolve(&self.snapshot, &self.request, self.site, &target).await?;
        include.request.page_variables = Some(variables.into());
        if target.kind == TargetKind::Cgi && include.to != IncludeTarget::Handler {
            return Err(format!("{shown} is not a program"));
        }
        let mut depends_on = depends_on(&include);
        let most_bytes = self.includes().map_or(0, |includes| includes.settings.most_output_bytes);
        let answer = Box::pin(self.answer(include)).await;
        let is_success = (200..300).contains(&answer.status);
        let failure = (!is_success).then(|| format!("{shown} answers {}", answer.status));
        if has_field(&answer.fields, b"content-encoding") {
            return Err(format!("{shown} answers in a content coding that was not requested"));
        }
        if has_field(&answer.fields, b"vary") && !is_static(&answer) {
            depends_on = DependsOn::Request;
        }
        let body = collect(answer.body, most_bytes).await.map_err(|error| format!("{shown}: {error}"))?;
        Ok(FetchedContent { body, depends_on, failure })
    }

    async fn run(&self, command: ShellCommand, variables: Vec<Variable>) -> Result<Vec<Bytes>, String> {
        let Some(includes) = self.includes() else { return Err("exec is not allowed".to_owned()) };
        let limits =
            Limits { timeout: includes.exec_timeout(), most_bytes: includes.settings.most_output_bytes };
        let end = self.file_path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let directory = self.root().place_of(&self.file_path[..end]);
        let mut environment = self.variables().all();
        environment.extend(variables.into_iter().filter(|(name, _)| command::may_be_set(name)));
        let output = command::run(command, directory, environment, limits).await?;
        Ok(vec![Bytes::from(output)])
    }

    fn facts(&self, target: &Target) -> Result<TargetFacts, String> {
        let include = resolve_at_once(&self.snapshot, &self.request, self.site, target)?;
        let shown = || String::from_utf8_lossy(&target.path).into_owned();
        let IncludeTarget::Files { site } = include.to else {
            return Err(format!("{} is not a file", shown()));
        };
        let site = &self.snapshot.sites[site];
        for file_path in site_files::candidates(site, &include.request.path) {
            if let Ok(facts) = site.root.facts(&file_path) {
                return Ok(TargetFacts {
                    size: facts.size,
                    modified_seconds: facts.modified_seconds,
                    depends_on: depends_on(&include),
                });
            }
        }
        Err(format!("{} is not found", shown()))
    }

    fn is_accessible(&self, target: &Target) -> bool {
        let Ok(include) = resolve_at_once(&self.snapshot, &self.request, self.site, target) else {
            return false;
        };
        match include.to {
            IncludeTarget::Handler | IncludeTarget::Files { .. } => true,
            IncludeTarget::Answer { status } => status < 400,
        }
    }

    fn is_file(&self, path: &[u8]) -> bool {
        let Some(path) = self.root().path_of(path) else { return false };
        let target = Target { path, query: None, kind: TargetKind::File };
        self.facts(&target).is_ok()
    }

    fn variable(&self, name: &str) -> Option<Vec<u8>> {
        self.variables().get(name)
    }

    fn may_define(&self, name: &str) -> bool {
        variables::may_vary(name)
    }

    fn variables(&self) -> Vec<Variable> {
        self.variables().all()
    }

    fn request_field(&self, name: &[u8]) -> Option<Vec<u8>> {
        let name = std::str::from_utf8(name).ok()?;
        let mut values = self.request.received.values(name);
        let first = values.next()?.to_vec();
        Some(values.fold(first, |joined, value| [&joined[..], b", ", value].concat()))
    }

    fn system_variable(&self, _name: &[u8]) -> Option<Vec<u8>> {
        // The server's environment may contain secrets, and no page needs it.
        None
    }

    fn user_name(&self, user: u32) -> Option<Vec<u8>> {
        variables::user_name(user)
    }

    fn report(&self, problem: Problem<'_>) {
        let Problem { file_path, line, message } = problem;
        let place = self.root().place_of(file_path);
        let text = format_args!("{}:{line}: {message}", place.as_os_str().as_bytes().escape_ascii());
        self.core.error_log.limited(LogLevel::Warning, "pages with directives", text);
    }
}

fn depends_on(include: &ResolvedInclude) -> DependsOn {
    match include.to {
        IncludeTarget::Files { .. } if !include.rules_applied => DependsOn::Nothing,
        _ => DependsOn::Request,
    }
}

/// An answer that consists only of files: it can vary only by the coding, and none was requested.
fn is_static(answer: &Answer) -> bool {
    answer.body.iter().all(|part| matches!(part, BodyPart::Cached(..) | BodyPart::File { .. }))
}

fn has_field(fields: &[u8], name: &[u8]) -> bool {
    fields.split(|&byte| byte == b'\n').any(|line| {
        let field = line.split(|&byte| byte == b':').next().unwrap_or_default();
        field.eq_ignore_ascii_case(name)
    })
}

/// A whole body, if it is not longer than this. Bytes in memory are shared.
pub async fn collect(parts: Vec<BodyPart>, most_bytes: u64) -> Result<Vec<Bytes>, String> {
    let mut body = Vec::new();
    let mut left = most_bytes;
    let too_long = || format!("its answer is longer than {most_bytes} bytes");
    for part in parts {
        left = left.checked_sub(part.length().unwrap_or(0)).ok_or_else(too_long)?;
        match part {
            BodyPart::Bytes(bytes) => body.push(bytes),
            BodyPart::Cached(prepared, range) => body.push(cached_bytes(prepared, range)),
            BodyPart::File { file, offset, length } => body.push(read_file(file, offset, length).await?),
            BodyPart::Stream { body: mut stream, .. } => {
                while let Some(piece) = stream.next().await {
                    let piece = piece.map_err(|error| error.to_string())?;
                    left = left.checked_sub(piece.len() as u64).ok_or_else(too_long)?;
                    body.push(piece);
                }
            }
        }
    }
    Ok(body)
}

/// Reads a part of a file, on a thread that may wait for the disk.
async fn read_file(file: Arc<OwnedFd>, offset: u64, length: u64) -> Result<Bytes, String> {
    use std::os::unix::fs::FileExt as _;
    let task = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
        std::fs::File::from(file.try_clone()?).read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    });
    let read = task.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    read.map(Bytes::from).map_err(|error| error.to_string())
}
