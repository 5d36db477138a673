//! `rewrite`: a route that changes the path, or a change to the answer of its block.
//!
//! Here the routes are tested again with the new path, from the first. In Caddy the request stays in its
//! block, and the directives after the rewrite see the new path. So a rewrite in a block for some paths
//! becomes a part of the answer: another beginning of the path for an origin, or another file.

use super::context::Context;
use super::matcher::Matcher;
use super::placeholder::{names, resolved, template};
use super::routing::{Change, ChangeKind, Level};
use super::steps::Step;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// A new path whose form an answer can express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The same path below this one.
    Below(String),
    /// This path.
    Path(String),
}

/// Writes the route that changes the path.
///
/// # Errors
/// The path has no counterpart.
pub fn write(step: &Step<'_>, context: &Context, route: &mut Section) -> Result<(), String> {
    let to = step.argument(0);
    let to = if to.starts_with('?') { format!("{{path}}{to}") } else { to.to_string() };
    if !to.starts_with(['/', '{']) {
        return Err("a path is rewritten as a whole: it begins with '/'".to_string());
    }
    let to = template(&to, context, true)?;
    if !to.starts_with(['/', '$']) {
        return Err("a path is rewritten as a whole: it begins with '/'".to_string());
    }
    route.key("rewrite", format!("{{ to = {} }}", toml_string(&to)));
    Ok(())
}

/// Whether the rewrite is a part of its block's answers: its new path would not come back to the block.
pub fn is_change(step: &Step<'_>, level: &Level<'_>) -> bool {
    if step.directive.name != "rewrite" || !level.outer.has_path() && level.stripped.is_empty() {
        return false;
    }
    let stays =
        path_of(step, &level.context).is_some_and(|path| level.outer.matches_path(&path) == Some(true));
    !stays || !level.stripped.is_empty()
}

/// The new path of a rewrite, if it is the same for all requests.
pub fn path_of(step: &Step<'_>, context: &Context) -> Option<String> {
    let to = resolved(step.argument(0), context);
    let path = to.split('?').next().unwrap_or_default();
    (path.starts_with('/') && names(path).is_empty()).then(|| path.to_string())
}

/// The new path that the changes give to an answer. As in Caddy, the first rewrite counts.
///
/// # Errors
/// The path has a form that only a route can express.
pub fn target(
    changes: &[&Change<'_>],
    level: &Level<'_>,
    context: &Context,
) -> Result<Option<Target>, String> {
    let applied = level.applied(changes);
    let to = applied.filter_map(|change| match &change.what {
        ChangeKind::Rewrite(to) => Some(to),
        _ => None,
    });
    let Some(to) = to.map(|to| resolved(to, context)).next() else { return Ok(None) };
    let end = ["{path}?{query}", "{uri}", "{path}", "{http.request.uri}", "{http.request.uri.path}"];
    let below = end.iter().find_map(|end| to.strip_suffix(end));
    match below {
        Some(below) if names(below).is_empty() && !below.contains('?') => {
            Ok(Some(Target::Below(below.trim_end_matches('/').to_string())))
        }
        None if names(&to).is_empty() && to.starts_with('/') && !to.contains('?') => {
            Ok(Some(Target::Path(to)))
        }
        _ => {
            Err("in a block for some paths, a path is rewritten to one path, or to '/BEGINNING{uri}'"
                .to_string())
        }
    }
}

/// The only path of the requests of a step, if there is one.
pub fn only_path(step: &Step<'_>, level: &Level<'_>) -> Option<String> {
    let matcher = step.matcher.as_ref().ok().and_then(|matcher| level.outer.and(matcher).ok().flatten())?;
    match matcher.paths.as_slice() {
        [path] if !path.contains('*') => Some(path.clone()),
        _ => None,
    }
}

/// The beginnings of two paths that have the same end: that of the first is removed, and that of the second
/// is put before the rest.
pub fn beginnings(from: &str, to: &str) -> Option<(String, String)> {
    let is_end = |at: &usize| from[*at..].starts_with('/') && to.ends_with(&from[*at..]);
    // Without a rest an origin gets a slash.
    let at = from.match_indices('/').map(|(at, _)| at).find(is_end);
    match (at, to.strip_suffix('/')) {
        (Some(at), _) => Some((from[..at].to_string(), to[..to.len() - (from.len() - at)].to_string())),
        (None, Some(to)) => Some((from.to_string(), to.to_string())),
        (None, None) => None,
    }
}

/// A rewrite or redirect that was written as a route.
pub struct EarlierRewrite {
    matcher: Matcher,
    /// The new path of a rewrite.
    path: Option<String>,
    is_rewrite: bool,
}

/// In Caddy only one rewrite of a block is made, and redirects come before it. Here both are looked at again
/// with the new path. Excludes the new paths of earlier rewrites from this one.
///
/// # Errors
/// The new path would be changed again, and no condition prevents it.
pub fn exclude(
    step: &Step<'_>,
    inner: &mut Matcher,
    context: &Context,
    earlier: &mut Vec<EarlierRewrite>,
) -> Result<(), String> {
    let is_rewrite = step.directive.name == "rewrite";
    let path = if is_rewrite { path_of(step, context) } else { None };
    let again = "here the new path is looked at again, and";
    if is_rewrite {
        for other in earlier.iter().filter(|other| other.is_rewrite) {
            let Some(reached) = other.path.as_ref() else { continue };
            match (inner.matches_path(reached), other.matcher.matches_path(reached)) {
                (Some(false), _) => {}
                // A client that requests this path is answered in the same way.
                (_, Some(true)) => {
                    _ = inner
                        .whens
                        .insert(format!("$path != {}", touchstone_import_base::expression::quoted(reached)?))
                }
                _ => {
                    return Err(format!(
                        "{again} this rewrite changes the '{reached}' of an earlier one: \
                                         write routes that do not match it"
                    ));
                }
            }
        }
    }
    let own = inner.clone();
    let meets = |other: &EarlierRewrite| {
        path.as_ref().is_some_and(|path| other.matcher.matches_path(path) != Some(false))
            && other.matcher != own
    };
    let is_met = earlier.iter().any(meets);
    earlier.push(EarlierRewrite { matcher: own.clone(), path: path.clone(), is_rewrite });
    match is_met {
        true => {
            Err(format!("{again} an earlier redirect or rewrite applies to '{}'", path.unwrap_or_default()))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn of(site: &str) -> (String, Vec<String>) {
        let imported = translate(&parse("Caddyfile", &format!("http://a.org {{\n{site}\n}}\n")).unwrap());
        (imported.text, imported.problems.into_iter().map(|problem| problem.advice).collect())
    }

    #[test]
    fn queries_stay_unless_the_target_has_one() {
        for (line, expected) in [
            ("rewrite /x /y", "{ to = \"/y\" }"),
            ("rewrite /x /y?a=b", "{ to = \"/y?a=b\" }"),
            ("rewrite /x /y?", "{ to = \"/y?\" }"),
            ("rewrite /x ?a=b", "{ to = \"${path}?a=b\" }"),
            ("rewrite /x/* {path}.html", "{ to = \"${path}.html\" }"),
            ("rewrite /x/* /y{uri}", "{ to = \"/y$path\" }"),
        ] {
            let (text, problems) = of(line);
            assert!(problems.is_empty() && text.contains(&format!("rewrite = {expected}")), "{line}\n{text}");
        }
        assert_eq!(of("rewrite /x y").1.len(), 1);
    }

    #[test]
    fn a_rewrite_stays_in_its_block() {
        for (block, expected) in [
            (
                "handle /in/ok {\nrewrite * /ok\nreverse_proxy b:1\n}",
                "strip_prefix = \"/in\"\nto = \"http://b:1\"",
            ),
            ("handle /in/* {\nrewrite * /v1{uri}\nreverse_proxy b:1\n}", "to = \"http://b:1/v1\""),
            (
                "handle_path /in/* {\nrewrite * /v1{path}\nreverse_proxy b:1\n}",
                "strip_prefix = \"/in\"\nto = \"http://b:1/v1\"",
            ),
            ("handle /in/* {\nrewrite * /i.html\nfile_server\n}", "try_files = [\"/i.html\"]"),
        ] {
            let (text, problems) = of(block);
            let text = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
            assert!(problems.is_empty() && text.contains(expected), "{block}\n{text}");
        }
        let (_, problems) = of("handle /in/* {\nrewrite * /one\nreverse_proxy b:1\n}");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn ends_of_paths() {
        let beginnings = |from: &str, to: &str| super::beginnings(from, to);
        let both = |one: &str, other: &str| Some((one.to_string(), other.to_string()));
        assert_eq!(beginnings("/in/ok", "/ok"), both("/in", ""));
        assert_eq!(beginnings("/in/a/ok", "/b/a/ok"), both("/in", "/b"));
        assert_eq!(beginnings("/ok", "/v1/ok"), both("", "/v1"));
        assert_eq!((beginnings("/in", "/b/"), beginnings("/in", "/b")), (both("/in", "/b"), None));
    }

    #[test]
    fn one_rewrite_of_several_is_made() {
        let (text, problems) =
            of("rewrite /d/json/* /d/json/index.html\nrewrite /d/* /d/index.html\nfile_server");
        assert!(problems.is_empty() && text.contains("when = \"$path != '/d/json/index.html'\""), "{text}");
        let (_, problems) = of("rewrite /old /d/x\nrewrite /d/* /d/index.html\nfile_server");
        assert_eq!(problems.len(), 1);
        let (_, problems) = of("redir /d/* /e\nrewrite /old /d/x\nfile_server");
        assert_eq!(problems.len(), 1);
    }
}
