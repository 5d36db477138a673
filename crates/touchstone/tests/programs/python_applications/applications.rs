//! Applications of other authors, installed by pip, each served by us and by gunicorn, with the same
//! requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rival::Rival;
use super::visitor::{Visitor, compare, form_token};
use super::{Route, environment, programs, serve};
use crate::support::Tree;

/// Serves an application with both, and compares a visit.
fn compare_wsgi(name: &str, app: &str, [ours, theirs]: [&Path; 2], visit: impl Fn(&mut Visitor)) {
    let Some(environment) = environment() else { return };
    let tree = Tree::empty();
    let rival = Rival::gunicorn(app, theirs, environment);
    let server = serve(&tree, &[Route::new("/", app, ours, environment).with("workers = 1")], "");
    compare(name, server.address(), rival.address(), visit);
}

/// Runs a program of the environment, for example `django-admin`.
fn run(environment: &Path, program: &str, arguments: &[&str], directory: &Path) {
    let mut command = Command::new(environment.join("bin").join(program));
    command.args(arguments).current_dir(directory).env("DJANGO_SUPERUSER_PASSWORD", "a long pass phrase");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

/// A site that is made and set up by Django's own commands, and a copy of it with a database of its own.
pub(crate) fn site(environment: &Path, place: &Path, make: &str, settings: &str, more: &str) -> [PathBuf; 2] {
    let ours = place.join("ours");
    fs::create_dir(&ours).unwrap();
    match make {
        "django-admin" => run(environment, make, &["startproject", "trial", "."], &ours),
        make => run(environment, make, &["start", "trial", "."], &ours),
    }
    let path = ours.join(settings);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + more).unwrap();
    run(environment, "python3", &["manage.py", "migrate", "--verbosity", "0"], &ours);
    let user = ["manage.py", "createsuperuser", "--noinput", "--username", "ann", "--email", "a@example.org"];
    run(environment, "python3", &user, &ours);
    run(environment, "python3", &["manage.py", "collectstatic", "--noinput", "--verbosity", "0"], &ours);
    let theirs = place.join("theirs");
    let copied = Command::new("cp").arg("-a").args([&ours, &theirs]).status().unwrap();
    assert!(copied.success());
    [ours, theirs]
}

/// The settings of a site of Django beside those that its own command writes.
pub(crate) const SETTINGS: &str =
    "\nDEBUG = False\nALLOWED_HOSTS = [\"*\"]\nSTATIC_ROOT = BASE_DIR / \"static\"\n";

pub(crate) fn visit_admin(visitor: &mut Visitor) {
    assert_eq!(visitor.get("/").status, 404);
    assert_eq!(visitor.get("/admin/").field("location"), Some("/admin/login/?next=/admin/"));
    // Without its token a form is refused.
    assert_eq!(visitor.form("/admin/login/", &[("username", "ann")]).status, 403);
    let login = visitor.get("/admin/login/?next=/admin/");
    let wrong =
        [("csrfmiddlewaretoken", &form_token(&login)[..]), ("username", "ann"), ("password", "wrong")];
    assert_eq!(visitor.form("/admin/login/?next=/admin/", &wrong).status, 200);
    let right = [
        ("csrfmiddlewaretoken", &form_token(&login)[..]),
        ("username", "ann"),
        ("password", "a long pass phrase"),
        ("next", "/admin/"),
    ];
    let entered = visitor.form("/admin/login/?next=/admin/", &right);
    assert_eq!((entered.status, entered.field("location")), (302, Some("/admin/")));
    let front = visitor.get("/admin/");
    assert!(String::from_utf8_lossy(&front.body).contains("Site administration"));
    let add = visitor.get("/admin/auth/group/add/");
    let group = [
        ("csrfmiddlewaretoken", &form_token(&add)[..]),
        ("name", "caf\u{e9} & friends"),
        ("permissions", "1"),
        ("_save", "Save"),
    ];
    assert_eq!(visitor.form("/admin/auth/group/add/", &group).status, 302);
    let list = visitor.get("/admin/auth/group/?q=caf%C3%A9");
    assert!(String::from_utf8_lossy(&list.body).contains("caf\u{e9} &amp; friends"));
    assert_eq!(visitor.ask("HEAD", "/admin/auth/group/", "", b"").body, b"");
}

#[test]
fn django_with_its_admin() {
    let Some(environment) = environment() else { return };
    let place = tempfile::tempdir().unwrap();
    let [ours, theirs] = site(environment, place.path(), "django-admin", "trial/settings.py", SETTINGS);
    let app = "trial.wsgi:application";
    let tree = Tree::empty();
    let rival = Rival::gunicorn(app, &theirs, environment);
    // Its static files are a route of files, as its documents require from the web server.
    let files = format!("[[site.route]]\npath = \"/static/\"\nalias = {:?}\n", ours.join("static"));
    let server = serve(&tree, &[Route::new("/", app, &ours, environment)], &files);
    compare("django", server.address(), rival.address(), visit_admin);
    for name in ["admin/css/base.css", "admin/js/core.js", "admin/img/icon-yes.svg"] {
        let served = server.get(&format!("/static/{name}"));
        assert_eq!(
            (served.status, served.body),
            (200, fs::read(ours.join("static").join(name)).unwrap()),
            "{name}"
        );
    }
}

#[test]
fn wagtail_with_its_editor() {
    let Some(environment) = environment() else { return };
    let place = tempfile::tempdir().unwrap();
    let sites = site(environment, place.path(), "wagtail", "trial/settings/dev.py", "\nDEBUG = False\n");
    compare_wsgi("wagtail", "trial.wsgi:application", [&sites[0], &sites[1]], |visitor| {
        let front = visitor.get("/");
        assert!(String::from_utf8_lossy(&front.body).contains("Welcome to your new Wagtail site!"));
        assert_eq!(visitor.get("/no-such-page/").status, 404);
        let login = visitor.get("/admin/login/");
        let right = [
            ("csrfmiddlewaretoken", &form_token(&login)[..]),
            ("username", "ann"),
            ("password", "a long pass phrase"),
            ("next", "/admin/"),
        ];
        assert_eq!(visitor.form("/admin/login/", &right).field("location"), Some("/admin/"));
        assert_eq!(visitor.get("/admin/").status, 200);
        assert_eq!(visitor.get("/admin/pages/3/edit/").status, 200);
        assert_eq!(visitor.get("/admin/api/main/pages/?fields=*").status, 200);
    });
}

#[test]
fn a_shop_in_flask() {
    let directory = programs();
    compare_wsgi("flask", "flask_shop:app", [&directory, &directory], |visitor| {
        visitor.get("/");
        let put = visitor.form("/cart", &[("name", "a caf\u{e9} & more"), ("count", "3")]);
        assert_eq!((put.status, put.field("location")), (303, Some("http://shop.example/")));
        let front = visitor.get("/");
        assert!(String::from_utf8_lossy(&front.body).contains("a caf\u{e9} &amp; more: 3"));
        visitor.get("/item/a%20b%C3%BC?x=1&x=2&y=%26");
        assert_eq!(visitor.form("/cart", &[]).status, 400);
        let upload = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\nhello\r\n--b\r\n\
            Content-Disposition: form-data; name=\"note\"\r\n\r\n\
            kept\r\n--b--\r\n";
        let uploaded = visitor.post("/upload", "multipart/form-data; boundary=b", upload);
        assert!(String::from_utf8_lossy(&uploaded.body).contains("\"bytes\":5"));
        visitor.ask("PUT", "/json", "Content-Type: application/json\r\n", b"{\"a\": [1, 2]}");
        visitor.ask("DELETE", "/json", "", b"");
        visitor.ask("OPTIONS", "/json", "", b"");
        visitor.ask("PATCH", "/json", "", b"");
        assert_eq!(visitor.get("/stream").body.len(), 8890);
        visitor.get("/cookies");
        visitor.get("/cookies");
        let cached = visitor.get("/cached");
        let tag = cached.field("etag").unwrap();
        assert_eq!(visitor.ask("GET", "/cached", &format!("If-None-Match: {tag}\r\n"), b"").status, 304);
        visitor.ask("HEAD", "/cached", "", b"");
        visitor.get("/teapot");
        let failed = visitor.get("/fails");
        assert!(failed.status == 500 && !String::from_utf8_lossy(&failed.body).contains("secret"));
        visitor.get("/none");
    });
}

#[test]
fn a_board_in_dash() {
    let directory = programs();
    compare_wsgi("dash", "dash_board:application", [&directory, &directory], |visitor| {
        let front = visitor.get("/");
        let text = String::from_utf8_lossy(&front.body).into_owned();
        visitor.get("/_dash-layout");
        visitor.get("/_dash-dependencies");
        let scripts: Vec<&str> = text
            .split("<script src=\"")
            .skip(1)
            .filter_map(|after| after.split('"').next())
            .filter(|source| source.starts_with('/'))
            .collect();
        assert!(scripts.len() > 3, "{text}");
        for source in scripts {
            assert_eq!(visitor.get(source).status, 200, "{source}");
        }
        let chosen = visitor.post(
            "/_dash-update-component",
            "application/json",
            b"{\"output\":\"chosen.children\",\"outputs\":{\"id\":\"chosen\",\"property\":\"children\"},\
              \"inputs\":[{\"id\":\"choice\",\"property\":\"value\",\"value\":\"green\"}],\
              \"changedPropIds\":[\"choice.value\"]}",
        );
        assert!(String::from_utf8_lossy(&chosen.body).contains("You chose green"));
    });
}
