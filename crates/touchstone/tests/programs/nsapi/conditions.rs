//! `<If>`, `<ElseIf>` and `<Else>` of version 7, and variables in the parameters of lines.

use super::*;

const OBJ_CONF: &str = r#"
<Object name="default">
AuthTrans fn="set-variable" $area="shop" $headers{'X-Area'}="in-$uri" noaction="true"
<If not $internal
    and $uri =~ "^/old/(.*)$">
NameTrans fn="redirect" url="http://new.test/$1?from=$(uc($method))&area=${area}"
</If>
NameTrans fn="redirect" from="/price" url="http://new.test/$$5?$headers{'x-area'}"
NameTrans fn="redirect" from="/strange" url="http://new.test/$$5?$nothing&$uri$"
<If $uri = "/table/*">
NameTrans fn="redirect" url="http://new.test$(lookup('moved.conf', $uri, '/'))"
</If>
<If $path eq "/">
  <If $browser =~ "MSIE">
  NameTrans fn="rewrite" path="/msie.html"
  </If>
  <ElseIf $browser =~ "(?i)mozilla/([0-9]+)">
  NameTrans fn="rewrite" path="/mozilla$1.html"
  </ElseIf>
  <Else>
  NameTrans fn="rewrite" path="/other.html"
  </Else>
</If>
PathCheck fn="find-index" index-names="index.html"
<If $uri = "/closed/*" and not $cookie{'key'} eq 'open'>
PathCheck fn="deny-existence"
</If>
<If $uri = "/broken/*" and $uri =~ "($query">
PathCheck fn="deny-existence"
</If>
<If $headers{'x-type'} and -f $path>
ObjectType fn="force-type" type="$headers{'x-type'}"
</If>
ObjectType fn="set-variable" $srvhdrs{'X-Copy'}="$(unescape($query))" noaction="true"
ObjectType fn="type-by-extension"
Service fn="send-file" method="(GET|HEAD)"
</Object>
"#;

const CONFIG: &str = "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n\
    nsapi = { obj_conf = \"obj.conf\" }\n";

#[test]
fn conditions_choose_lines_and_fill_their_parameters() {
    let tree = Tree::empty();
    let root = tree.root();
    tree.write("obj.conf", OBJ_CONF.as_bytes());
    for name in ["msie.html", "mozilla5.html", "other.html", "closed/a.html", "broken/a.html", "plain.html"] {
        tree.write(name, name.as_bytes());
    }
    let server = Server::configured(&root, CONFIG);
    let ask = |path: &str, fields: &str| {
        server.connect().ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let answer = ask("/old/a/b", "");
    assert_eq!(
        (answer.status, answer.field("location")),
        (302, Some("http://new.test/a/b?from=GET&area=shop"))
    );
    tree.write("moved.conf", b"# from to\n/table/a /there\n");
    for (path, location) in [
        ("/price", "http://new.test/$5?in-/price"),
        ("/strange", "http://new.test/$$5?$nothing&$uri$"),
        ("/table/a", "http://new.test/there"),
        ("/table/b", "http://new.test/"),
    ] {
        let answer = ask(path, "");
        assert_eq!((answer.status, answer.field("location")), (302, Some(location)), "{path}");
    }
    for (browser, file) in [("MSIE 6", "msie.html"), ("mozilla/5.0", "mozilla5.html"), ("x", "other.html")] {
        assert_eq!(text(&ask("/", &format!("User-Agent: {browser}\r\n")).body), file);
    }
    assert_eq!(ask("/closed/a.html", "").status, 404);
    assert_eq!(ask("/closed/a.html", "Cookie: other=1; key=open\r\n").status, 200);
    assert_eq!(ask("/plain.html", "X-Type: text/own\r\n").field("content-type"), Some("text/own"));
    assert_eq!(ask("/plain.html", "").field("content-type"), Some("text/html"));
    // Nothing of the request becomes another field.
    for (query, copy) in [("a%20b", Some("a b")), ("a%0d%0aX-New:%201", None)] {
        let answer = ask(&format!("/plain.html?{query}"), "");
        assert_eq!(
            (answer.status, answer.field("x-copy"), answer.field("x-new")),
            (200, copy, None),
            "{query}"
        );
    }
    // What cannot be judged is not let through.
    assert_eq!(ask("/broken/a.html?a", "").status, 500);
}

#[test]
fn conditions_that_cannot_be_are_named_before_the_start() {
    let tree = Tree::empty();
    let root = tree.root();
    tree.write("touchstone.toml", CONFIG.as_bytes());
    let path = root.join("touchstone.toml");
    for (lines, expected) in [
        ("<If $nothing eq 'a'>\nPathCheck fn=find-index\n</If>", "there is no variable $nothing"),
        ("<If $uri>\nNameTrans fn=redirect url=/$nowhere\n</If>", "there is no variable $nowhere"),
        (
            "<If $uri>\n</If>\n<Else>\nNameTrans fn=redirect url=/$1\n</Else>",
            "are defined within <If> and <ElseIf>",
        ),
        (
            "<If $uri>\nService fn=send-file method=\"$method\"\n</If>",
            "it selects the line, and cannot contain variables",
        ),
        ("PathCheck fn=set-variable $uri=/a", "$uri cannot be set"),
        ("PathCheck fn=set-variable $cookie{'a'}=b", "cannot be set"),
        ("<If $uri != '/a'>\nPathCheck fn=find-index\n</If>", "compare numbers"),
        ("<If -U $uri>\nPathCheck fn=find-index\n</If>", "-U is not supported"),
        ("<If $uri =~ '(?=a)'>\nPathCheck fn=find-index\n</If>", "is not valid: "),
    ] {
        tree.write("obj.conf", format!("<Object name=default>\n{lines}\n</Object>\n").as_bytes());
        let output = run(["check", "--config", path.to_str().expect("the path is text")]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{lines}: {said}");
    }
}
