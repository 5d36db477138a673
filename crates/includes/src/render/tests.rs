//! Tests from a page's text to its output, with a host that keeps its files in memory.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::host::{FetchedContent, Problem, ResolvedTarget, Target, TargetFacts};
use crate::parse;
use crate::settings::Grammar;
use crate::template::{ShellCommand, Variable};

/// 2001-09-09 01:46:40 UTC.
const NOW: i64 = 1_000_000_000;

#[derive(Default)]
struct Memory {
    files: HashMap<String, String>,
    settings: Arc<Settings>,
    problems: RefCell<Vec<String>>,
    /// Fetches of `/slow*` that have started and wait.
    waiting: Cell<usize>,
    most_waiting: Cell<usize>,
    released: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Memory {
    fn source(&self, path: &str, query: Option<Vec<u8>>) -> Option<PageSource> {
        let text = self.files.get(path)?;
        let page = Arc::new(parse(&Bytes::copy_from_slice(text.as_bytes()), &self.settings));
        let path = path.as_bytes().to_vec();
        Some(PageSource { page, file_path: path.clone(), path, query, modified_seconds: NOW - 1, owner: 0 })
    }

    fn text<'a>(&'a self, target: &Target) -> Result<(&'a str, &'a str), String> {
        let path = String::from_utf8_lossy(&target.path).into_owned();
        let found = self.files.get_key_value(&path);
        found.map(|(path, text)| (path.as_str(), text.as_str())).ok_or(format!("{path}: not found"))
    }
}

impl Host for Memory {
    async fn resolve(&self, target: &Target) -> Result<ResolvedTarget, String> {
        let (path, _) = self.text(target)?;
        if !path.ends_with(".shtml") {
            return Ok(ResolvedTarget::Content);
        }
        let source = self.source(path, target.query.clone()).ok_or("gone")?;
        Ok(ResolvedTarget::Page(source, DependsOn::Nothing))
    }

    async fn fetch(&self, target: Target, variables: Vec<Variable>) -> Result<FetchedContent, String> {
        let (path, text) = self.text(&target)?;
        if path.starts_with("/slow") {
            self.waiting.set(self.waiting.get() + 1);
            self.most_waiting.set(self.most_waiting.get().max(self.waiting.get()));
            poll_fn(|context| {
                self.wakers.borrow_mut().push(context.waker().clone());
                if self.released.get() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.waiting.set(self.waiting.get() - 1);
        }
        let mut text = text.to_owned();
        if path.ends_with(".cgi") {
            for (name, value) in variables {
                text += &format!("{}={};", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value));
            }
        }
        let depends_on = if path.ends_with(".cgi") { DependsOn::Request } else { DependsOn::Nothing };
        Ok(FetchedContent { body: vec![Bytes::from(text)], depends_on, failure: None })
    }

    async fn run(&self, command: ShellCommand, _: Vec<Variable>) -> Result<Vec<Bytes>, String> {
        Ok(vec![Bytes::from([b"ran ", &command.text[..]].concat())])
    }

    fn facts(&self, target: &Target) -> Result<TargetFacts, String> {
        let (_, text) = self.text(target)?;
        Ok(TargetFacts { size: text.len() as u64, modified_seconds: NOW, depends_on: DependsOn::Nothing })
    }

    fn is_accessible(&self, target: &Target) -> bool {
        self.text(target).is_ok()
    }

    fn is_file(&self, path: &[u8]) -> bool {
        self.files.contains_key(String::from_utf8_lossy(path).as_ref())
    }

    fn variable(&self, name: &str) -> Option<Vec<u8>> {
        match name {
            "REMOTE_ADDR" => Some(b"127.0.0.1".to_vec()),
            "SERVER_SOFTWARE" => Some(b"touchstone".to_vec()),
            _ => None,
        }
    }

    fn may_define(&self, name: &str) -> bool {
        name == "REMOTE_ADDR" || name.starts_with("HTTP_")
    }

    fn variables(&self) -> Vec<Variable> {
        vec![(b"REMOTE_ADDR".to_vec(), b"127.0.0.1".to_vec())]
    }

    fn request_field(&self, name: &[u8]) -> Option<Vec<u8>> {
        (name == b"cookie").then(|| b"a=1; b=2".to_vec())
    }

    fn system_variable(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn user_name(&self, user: u32) -> Option<Vec<u8>> {
        (user == 0).then(|| b"root".to_vec())
    }

    fn report(&self, problem: Problem<'_>) {
        let path = String::from_utf8_lossy(problem.file_path);
        self.problems.borrow_mut().push(format!("{path}:{}: {}", problem.line, problem.message));
    }
}

struct Site {
    memory: Rc<Memory>,
}

impl Site {
    fn new(files: &[(&str, &str)]) -> Site {
        Site::with(Settings::default(), files)
    }

    fn with(settings: Settings, files: &[(&str, &str)]) -> Site {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        let memory = Memory { files, settings: Arc::new(settings), ..Memory::default() };
        Site { memory: Rc::new(memory) }
    }

    fn rendering(&self, path: &str, query: Option<&str>) -> Rendering<Memory> {
        let query = query.map(|query| query.as_bytes().to_vec());
        let source = self.memory.source(path, query).expect("the page is there");
        Rendering::new(self.memory.clone(), self.memory.settings.clone(), source, NOW)
    }

    fn render_with(&self, path: &str, query: Option<&str>) -> (String, DependsOn) {
        let future = self.rendering(path, query).whole();
        let mut future = std::pin::pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(rendered) => {
                (String::from_utf8_lossy(&rendered.pieces.concat()).into_owned(), rendered.depends_on)
            }
            Poll::Pending => panic!("the evaluation must not wait"),
        }
    }

    fn render(&self, path: &str) -> String {
        self.render_with(path, None).0
    }

    fn problems(&self) -> Vec<String> {
        self.memory.problems.take()
    }
}

use std::future::Future as _;

const ERROR: &str = "[an error occurred while processing this directive]";

fn render(text: &str) -> String {
    Site::new(&[("/page.shtml", text), ("/a.html", "A"), ("/sub/b.html", "B")]).render("/page.shtml")
}

#[test]
fn text_stays_as_it_is() {
    assert_eq!(render("<html>\n<!-- no directive --></html>"), "<html>\n<!-- no directive --></html>");
    assert_eq!(render(""), "");
}

#[test]
fn echo_and_set() {
    assert_eq!(render("<!--#set var='x' value='<1>' --><!--#echo var='x' -->"), "&lt;1&gt;");
    assert_eq!(render("<!--#set var='x' value='<1>' --><!--#echo encoding='none' var='X' -->"), "<1>");
    assert_eq!(
        render("<!--#set var='a' value='1' --><!--#set var='b' value='${a}2\\$' --><!--#echo var='b' -->"),
        "12$"
    );
    assert_eq!(render("<!--#echo var='nosuch' -->"), "(none)");
    assert_eq!(render("<!--#echo var='nosuch' default='x' -->"), "x");
    assert_eq!(render("<!--#config echomsg='?' --><!--#echo var='nosuch' -->"), "?");
    assert_eq!(render("<!--#set value='1' var='a' -->"), ERROR);
    assert_eq!(render("<!--#echo bogus='1' -->"), ERROR);
    assert_eq!(
        render(
            "<!--#echo encoding='bogus' var='nosuch' --><!--#echo encoding='bogus' var='DOCUMENT_URI' -->"
        ),
        format!("(none){ERROR}")
    );
    assert_eq!(render("<!--#echo decoding='base64' encoding='urlencoded' var='x' -->"), "(none)");
    assert_eq!(
        render("<!--#set var='x' decoding='base64' value='YSBi' --><!--#echo encoding='url' var='x' -->"),
        "a%20b"
    );
}

#[test]
fn a_variable_that_is_set_again_takes_no_more_room() {
    let name = "n".repeat(2000);
    let set = format!("<!--#set var='{name}' value='v' -->").repeat(1000);
    assert_eq!(render(&format!("{set}<!--#echo var='{name}' -->")), "v");
}

#[test]
fn a_thousand_variables_may_be_set_and_then_set_again() {
    let set = |value: &str| -> String {
        (0..1000).map(|index| format!("<!--#set var='v{index}' value='{value}' -->")).collect()
    };
    let page = set("first") + &set("last") + "<!--#echo var='v0' --> <!--#echo var='v999' -->";
    assert_eq!(render(&page), "last last");
}

#[test]
fn variables_of_the_page() {
    assert_eq!(render("<!--#config timefmt='%Y' --><!--#echo var='DATE_GMT' -->"), "2001");
    assert_eq!(
        render("<!--#config timefmt='%s' --><!--#echo var='DATE_LOCAL' var='LAST_MODIFIED' -->"),
        "1000000000999999999"
    );
    assert_eq!(
        render(
            "<!--#echo var='DOCUMENT_URI' --> <!--#echo var='DOCUMENT_NAME' --> <!--#echo var='USER_NAME' -->"
        ),
        "/page.shtml page.shtml root"
    );
    assert_eq!(render("<!--#set var='DATE_LOCAL' value='never' --><!--#echo var='DATE_LOCAL' -->"), "never");
    assert_eq!(render("<!--#echo var='DATE_GMT' -->"), "Sunday, 09-Sep-2001 01:46:40 GMT");
    let site = Site::new(&[("/q.shtml", "<!--#echo var='QUERY_STRING_UNESCAPED' encoding='none' -->")]);
    assert_eq!(site.render_with("/q.shtml", Some("a=%27b")).0, "a=\\'b");
    assert_eq!(site.render("/q.shtml"), "(none)");
}

#[test]
fn facts_of_files() {
    assert_eq!(render("<!--#fsize file='a.html' -->|<!--#fsize virtual='/sub/b.html' -->"), "  1 |  1 ");
    assert_eq!(render("<!--#config sizefmt='bytes' --><!--#fsize file='a.html' -->"), "1");
    assert_eq!(render("<!--#config timefmt='%s' --><!--#flastmod file='a.html' -->"), "1000000000");
    assert_eq!(render("<!--#fsize file='nosuch' -->"), ERROR);
    assert_eq!(render("<!--#fsize file='../a.html' -->"), ERROR);
    assert_eq!(render("<!--#config sizefmt='miles' -->"), ERROR);
}

#[test]
fn conditions() {
    let table = [
        ("<!--#if expr='true' -->1<!--#else -->2<!--#endif -->", "1"),
        ("<!--#if expr='false' -->1<!--#else -->2<!--#endif -->", "2"),
        (
            "<!--#if expr='false' -->1<!--#elif expr='true' -->2<!--#elif expr='true' -->3\
             <!--#else -->4<!--#endif -->5",
            "25",
        ),
        ("<!--#if expr='false' -->1<!--#if expr='true' -->2<!--#endif -->3<!--#endif -->4", "4"),
        (
            "<!--#if expr='true' -->1<!--#if expr='false' -->2<!--#else -->3<!--#endif -->4\
             <!--#else -->5<!--#endif -->6",
            "1346",
        ),
        (
            "<!--#set var='a' value='xyz' --><!--#if expr='v(\"a\") =~ /x(.)z/' -->\
             <!--#echo var='1' --><!--#endif -->",
            "y",
        ),
        ("<!--#if expr='false' --><!--#bogus -->x<!--#endif -->y", "y"),
        ("<!--#if expr='false' -->x", ""),
        ("<!--#if expr='true' -->1<!--#elif expr='a b' -->2<!--#endif -->3", "13"),
    ];
    for (text, expected) in table {
        assert_eq!(render(text), expected, "{text}");
    }
    for broken in [
        "<!--#if -->",
        "<!--#if expr='a b' -->",
        "<!--#if expr='true' more='x' -->",
        "<!--#if bogus='x' -->",
        "<!--#endif x -->",
        "<!--#else x -->",
    ] {
        assert_eq!(render(broken), ERROR, "{broken}");
    }
    // It is unclear which branch of an invalid condition is meant.
    for broken in ["<!--#if expr='a b' -->", "<!--#if -->", "<!--#if expr='true' more='x' -->"] {
        let text = format!("0{broken}1<!--#if expr='true' -->2<!--#endif -->3<!--#else -->4<!--#endif -->5");
        assert_eq!(render(&text), format!("0{ERROR}5"), "{broken}");
    }
    let legacy = Settings { grammar: Grammar::Legacy, ..Settings::default() };
    let text = "<!--#set var='a' value='x' --><!--#if expr='$a = x' -->1<!--#endif -->";
    assert_eq!(Site::with(legacy, &[("/l.shtml", text)]).render("/l.shtml"), "1");
}

#[test]
fn includes_in_order() {
    let site = Site::new(&[
        (
            "/page.shtml",
            "[<!--#include virtual='/a.html' -->|<!--#include file='sub/in.shtml' -->|<!--#echo var='x' -->]",
        ),
        ("/a.html", "A<!--#echo var='x' -->"),
        (
            "/sub/in.shtml",
            "<!--#set var='x' value='set within' --><!--#include virtual='../a.html' -->\
             <!--#echo var='DOCUMENT_URI' -->",
        ),
    ]);
    assert_eq!(
        site.render("/page.shtml"),
        "[A<!--#echo var='x' -->|A<!--#echo var='x' -->/page.shtml|set within]"
    );
    assert!(site.problems().is_empty());
}

#[test]
fn includes_that_fail() {
    let site = Site::new(&[
        ("/page.shtml", "\n<!--#include virtual='/nosuch' -->"),
        ("/onerror.shtml", "<!--#include virtual='/nosuch' onerror='/a.html' -->"),
        ("/both.shtml", "<!--#include virtual='/nosuch' onerror='/nosuch2' -->"),
        ("/two.shtml", "<!--#include virtual='/a.html' virtual='/nosuch' virtual='/a.html' -->"),
        ("/fine.shtml", "<!--#include virtual='/a.html' onerror='/nosuch' -->"),
        ("/none.shtml", "<!--#include -->"),
        ("/bogus.shtml", "<!--#include bogus='x' -->"),
        ("/up.shtml", "<!--#include file='../x' -->"),
        ("/a.html", "A"),
    ]);
    assert_eq!(site.render("/page.shtml"), format!("\n{ERROR}"));
    assert_eq!(site.problems(), ["/page.shtml:2: /nosuch: not found"]);
    assert_eq!(site.render("/onerror.shtml"), "A");
    assert_eq!(site.render("/both.shtml"), ERROR);
    assert_eq!(site.render("/two.shtml"), format!("A{ERROR}"));
    assert_eq!(site.render("/fine.shtml"), "A");
    for page in ["/none.shtml", "/bogus.shtml", "/up.shtml"] {
        assert_eq!(site.render(page), ERROR, "{page}");
    }
}

#[test]
fn nginx_forms() {
    let site = Site::new(&[
        (
            "/page.shtml",
            "<!--# block name='one' -->stub <!--# echo var='DOCUMENT_NAME' --><!--# endblock -->\
             <!--# include virtual='/nosuch' stub='one' -->|\
             <!--# include virtual='/empty.html' stub='one' -->|\
             <!--# include virtual='/a.html' stub='one' -->|\
             <!--# include virtual='/a.html' set='kept' --><!--# echo var='kept' -->",
        ),
        (
            "/wait.shtml",
            "<!--# include virtual='/a.html' wait='yes' --><!--# include virtual='/in.shtml' set='x' -->\
             [<!--# echo var='x' -->]",
        ),
        ("/nostub.shtml", "<!--# include virtual='/nosuch' stub='nosuch' -->"),
        ("/in.shtml", "<!--#include virtual='/a.html' -->!"),
        ("/empty.html", ""),
        ("/a.html", "A"),
    ]);
    assert_eq!(site.render("/page.shtml"), "stub page.shtml|stub page.shtml|A|A");
    assert_eq!(site.render("/wait.shtml"), "A[A!]");
    assert_eq!(site.render("/nostub.shtml"), ERROR);
}

#[test]
fn cycles_and_depth() {
    let site = Site::new(&[
        ("/self.shtml", "x<!--#include virtual='/self.shtml' -->"),
        ("/one.shtml", "1<!--#include file='two.shtml' -->"),
        ("/two.shtml", "2<!--#include file='one.shtml' -->"),
    ]);
    assert_eq!(site.render("/self.shtml"), format!("x{ERROR}"));
    assert_eq!(site.render("/one.shtml"), format!("12{ERROR}"));
    assert_eq!(site.problems().len(), 2);

    let settings = Settings { most_depth: 3, ..Settings::default() };
    let counting = "<!--#set var='n' value='${n}x' -->.<!--#include virtual='/deep.shtml?$n' -->";
    let site = Site::with(settings, &[("/deep.shtml", counting)]);
    assert_eq!(site.render("/deep.shtml"), format!("....{ERROR}"));
}

#[test]
fn inclusions_that_multiply_are_stopped() {
    let settings = Settings { most_includes: 50, ..Settings::default() };
    let files: Vec<(String, String)> = (0..12)
        .map(|level| {
            let next = format!("<!--#include virtual='/{}.shtml' -->", level + 1);
            (format!("/{level}.shtml"), next.repeat(3))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let site = Site::with(settings, &files);
    site.render("/0.shtml");
    assert!(site.problems().iter().any(|problem| problem.contains("more than 50 inclusions")));
}

#[test]
fn output_has_a_limit() {
    let settings = Settings { most_output_bytes: 10, ..Settings::default() };
    let site = Site::with(
        settings,
        &[("/page.shtml", "12345<!--#include virtual='/long.html' -->678"), ("/long.html", "123456")],
    );
    let output = site.render("/page.shtml");
    assert!(output.starts_with("12345") && output.contains(ERROR) && output.len() < 80, "{output}");
}

#[test]
fn the_language_of_nginx() {
    let table = [
        ("<!--#echo var='arg_x' -->,<!--#echo var='ARG_Y' -->,<!--#echo var='arg_z' -->", "1,,(none)"),
        ("<!--#echo var='args' --> <!--#echo var='is_args' -->", "x=1&amp;y= ?"),
        ("<!--#echo var='uri' --> <!--#echo var='document_uri' -->", "/page.shtml /page.shtml"),
        ("<!--#include virtual='/in.shtml?x=2' --> <!--#echo var='arg_x' -->", "/in.shtml x=2 2 1"),
        ("<!--#echo var='cookie_b' -->,<!--#echo var='cookie_c' default='' -->", "2,"),
        ("<!--#set value='<1>' var='v' --><!--#echo var='v' encoding='none' -->", "<1>"),
        ("<!--#set var='v' value='<' --><!--#echo var='v' encoding='url' -->", "%3C"),
        ("<!--#set var='arg_x' value='set' --><!--#echo var='arg_x' -->", "set"),
        ("<!--#if expr='$arg_x' -->T<!--#endif -->", "T"),
        ("<!--#if expr='$arg_y' -->T<!--#else -->F<!--#endif -->", "F"),
        ("<!--#if expr='$arg_x = 1' -->T<!--#endif -->", "T"),
        ("<!--#if expr='$arg_x != 1' -->T<!--#else -->F<!--#endif -->", "F"),
        ("<!--#if expr='$arg_x = /^(\\d)$arg_y/' --><!--#echo var='1' --><!--#endif -->", "1"),
        ("<!--#if expr='$arg_x = \\/1' -->T<!--#else -->F<!--#endif -->", "F"),
        ("<!--#if expr='$arg_x && $arg_y' -->T<!--#else -->F<!--#endif -->", ERROR),
    ];
    for (text, expected) in table {
        let inner = "<!--#echo var='uri' --> <!--#echo var='query_string' --> <!--#echo var='arg_x' -->";
        let settings = Settings { grammar: Grammar::Nginx, ..Settings::default() };
        let site = Site::with(settings, &[("/page.shtml", text), ("/in.shtml", inner)]);
        assert_eq!(site.render_with("/page.shtml", Some("x=1&y=")).0, expected, "{text}");
    }
    // Pages in the old grammar of Apache can use nginx's variables too.
    let legacy = Settings { grammar: Grammar::Legacy, ..Settings::default() };
    let text = "<!--#if expr='$arg_x = /^\\d$/' --><!--#echo var='uri' --><!--#endif -->";
    assert_eq!(Site::with(legacy, &[("/p.shtml", text)]).render_with("/p.shtml", Some("x=1")).0, "/p.shtml");
    assert_eq!(render("<!--#echo var='uri' -->"), "(none)");
}

#[test]
fn exec_only_where_it_is_allowed() {
    let text = "<!--#exec cmd='date $nosuch' -->|<!--#exec cgi='/x.cgi' -->";
    let files = [("/page.shtml", text), ("/x.cgi", "cgi ")];
    assert_eq!(Site::new(&files).render("/page.shtml"), format!("{ERROR}|{ERROR}"));
    let settings = Settings { exec: true, ..Settings::default() };
    assert_eq!(
        Site::with(settings, &files).render("/page.shtml"),
        "ran date $nosuch|cgi DOCUMENT_ARGS=;DOCUMENT_NAME=page.shtml;DOCUMENT_URI=/page.shtml;"
    );
}

#[test]
fn programs_get_the_variables() {
    let text = "<!--#set var='a' value='1' --><!--#include virtual='/x.cgi?q' -->";
    assert_eq!(
        Site::new(&[("/page.shtml", text), ("/x.cgi", "")]).render("/page.shtml"),
        "DOCUMENT_ARGS=;DOCUMENT_NAME=page.shtml;DOCUMENT_URI=/page.shtml;a=1;"
    );
}

#[test]
fn included_pages_have_their_own_query() {
    let site = Site::new(&[
        ("/page.shtml", "<!--#include virtual='/in.shtml?x=%31' -->"),
        ("/in.shtml", "<!--#echo var='QUERY_STRING' -->,<!--#echo var='QUERY_STRING_UNESCAPED' -->"),
    ]);
    assert_eq!(site.render_with("/page.shtml", Some("main")).0, "x=%31,x=1");
}

#[test]
fn printenv_shows_everything() {
    let text = "<!--#set var='mine' value='<' --><!--#printenv -->";
    let output = render(text);
    assert!(output.contains("REMOTE_ADDR=127.0.0.1\n"), "{output}");
    assert!(output.contains("mine=&lt;\n") && output.contains("DOCUMENT_NAME=page.shtml\n"), "{output}");
    assert_eq!(render("<!--#printenv x -->"), ERROR);
}

#[test]
fn what_an_output_depends_on() {
    let table = [
        ("text", DependsOn::Nothing),
        ("<!--#echo var='DOCUMENT_NAME' --><!--#fsize file='a.html' -->", DependsOn::Nothing),
        ("<!--#include virtual='/a.html' -->", DependsOn::Nothing),
        ("<!--#set var='x' value='$y' --><!--#echo var='x' -->", DependsOn::Nothing),
        ("<!--#echo var='SERVER_SOFTWARE' -->", DependsOn::Nothing),
        ("<!--#echo var='DATE_LOCAL' -->", DependsOn::Second),
        ("<!--#if expr='%{TIME_HOUR} -lt 12' --><!--#endif -->", DependsOn::Second),
        (
            "<!--#if expr='true' -->x<!--#else --><!--#echo var='REMOTE_ADDR' --><!--#endif -->",
            DependsOn::Nothing,
        ),
        ("<!--#echo var='REMOTE_ADDR' -->", DependsOn::Request),
        ("<!--#echo var='HTTP_COOKIE' -->", DependsOn::Request),
        ("<!--#set var='x' value='$HTTP_HOST' -->", DependsOn::Request),
        ("<!--#if expr='req(\"Host\") == \"\"' --><!--#endif -->", DependsOn::Request),
        ("<!--#echo var='QUERY_STRING_UNESCAPED' -->", DependsOn::Request),
        ("<!--#printenv -->", DependsOn::Request),
        ("<!--#include virtual='/x.cgi' -->", DependsOn::Request),
    ];
    for (text, expected) in table {
        let site = Site::new(&[("/page.shtml", text), ("/a.html", "A"), ("/x.cgi", "")]);
        assert_eq!(site.render_with("/page.shtml", None).1, expected, "{text}");
    }
}

/// Fetches run in parallel up to the limit; the output before them is already written.
#[test]
fn fetches_are_concurrent_and_their_order_is_kept() {
    let settings = Settings { concurrent_includes: 3, ..Settings::default() };
    let text = "head<!--#include virtual='/slow1' -->,<!--#include virtual='/a.html' -->,".to_owned()
        + &"<!--#include virtual='/slow2' -->".repeat(4);
    let files = [("/page.shtml", text.as_str()), ("/slow1", "one"), ("/slow2", "two"), ("/a.html", "A")];
    let site = Site::with(settings, &files);
    let mut rendering = site.rendering("/page.shtml", None);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(rendering.poll_next(&mut context), Poll::Ready(Some(Bytes::from("head"))));
    assert!(rendering.poll_next(&mut context).is_pending());
    assert_eq!(site.memory.most_waiting.get(), 3);
    site.memory.released.set(true);
    let mut output = Vec::new();
    while let Poll::Ready(Some(piece)) = rendering.poll_next(&mut context) {
        output.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8_lossy(&output), "one,A,twotwotwotwo");
    assert_eq!(site.memory.waiting.get(), 0);
}

/// A wait delays what follows it, not what runs in parallel.
#[test]
fn waiting_for_one_fetch() {
    let text = "<!--#include virtual='/slow1' --><!--#include virtual='/slow2' wait='yes' -->\
                <!--#include virtual='/slow1' -->";
    let site = Site::new(&[("/page.shtml", text), ("/slow1", "1"), ("/slow2", "2")]);
    let mut rendering = site.rendering("/page.shtml", None);
    let mut context = Context::from_waker(Waker::noop());
    assert!(rendering.poll_next(&mut context).is_pending());
    assert_eq!(site.memory.most_waiting.get(), 2);
}

#[test]
fn static_text_goes_out_uncopied() {
    let site = Site::new(&[("/page.shtml", "first<!--#set var='a' value='b' -->second")]);
    let source = site.memory.source("/page.shtml", None).unwrap();
    let page = source.page.clone();
    let mut rendering = Rendering::new(site.memory.clone(), site.memory.settings.clone(), source, NOW);
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(piece)) = rendering.poll_next(&mut context) else { panic!("text comes first") };
    let Some(crate::page::Node::Text(text)) = page.nodes.first() else { panic!("text is first") };
    assert_eq!(piece.as_ptr(), text.as_ptr());
}

fn fragments() -> impl Strategy<Value = String> {
    let fragments = [
        "text",
        "<!--#if expr='true' -->",
        "<!--#if expr='false' -->",
        "<!--#if expr='v(\"x\") =~ /(a)/' -->",
        "<!--#elif expr='true' -->",
        "<!--#else -->",
        "<!--#endif -->",
        "<!--#set var='x' value='${x}a' -->",
        "<!--#echo var='x' -->",
        "<!--#echo var='1' -->",
        "<!--#include virtual='/page.shtml' -->",
        "<!--#include virtual='/page.shtml?$x' -->",
        "<!--#include virtual='/in.shtml' -->",
        "<!--#include virtual='/a' stub='b' -->",
        "<!--#include virtual='/a' set='x' -->",
        "<!--#include file='$x' onerror='/a' -->",
        "<!--#block name='b' -->",
        "<!--#endblock -->",
        "<!--#config errmsg='$x' timefmt='%Y' -->",
        "<!--#bogus -->",
        "<!--#echo ",
        "-->",
        "<!--#exec cmd='a' -->",
        "<!--#include virtual='/a' wait='yes' -->",
        "<!--#printenv -->",
        "<!--#flastmod file='a' -->",
        "'",
        "\"",
    ];
    proptest::collection::vec(proptest::sample::select(fragments.to_vec()), 0..20)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every page ends within its limits, whatever it includes.
    #[test]
    fn every_page_ends(page in fragments(), included in fragments(), other in fragments()) {
        let settings = Settings {
            exec: true,
            most_includes: 60,
            most_depth: 5,
            most_output_bytes: 20_000,
            ..Settings::default()
        };
        let most = settings.most_output_bytes as usize + ERROR.len();
        let files: [(&str, &str); 4] =
            [("/page.shtml", &page), ("/in.shtml", &included), ("/b.shtml", &other), ("/a", &other)];
        let site = Site::with(settings, &files);
        let output = site.render("/page.shtml");
        prop_assert!(output.len() <= 3 * most, "{}", output.len());
    }
}
