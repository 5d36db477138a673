//! A statically linked program cannot load the shared libraries of Java, of Python and of plug-ins.
//!
//! `make static` links everything into one file that needs no library of the machine. Such a program has no
//! dynamic linker, so a route that needs one is refused when the configuration is checked.

use touchstone_config::RouteConfig;

/// This program is linked statically.
pub const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// The key of a route that needs shared libraries, and why this program cannot serve it.
pub fn problem(route: &RouteConfig) -> Option<(&'static str, String)> {
    if IS_STATIC { needed(route) } else { None }
}

/// The key of a route that needs shared libraries, and what to do in a program that cannot load them.
fn needed(route: &RouteConfig) -> Option<(&'static str, String)> {
    let is_in_process = route.servlet.as_ref().is_some_and(|servlet| !servlet.is_over_ajp);
    let (key, library, instead) = if is_in_process {
        (
            "servlet",
            "Java",
            "run Tomcat beside it and pass requests on with isolation = \"ajp\" (docs/ajp.md)",
        )
    } else if route.python.is_some() {
        ("python", "Python", "run the application in gunicorn or uvicorn and pass requests on with 'proxy'")
    } else if route.nsapi.is_some() {
        ("nsapi", "plug-ins", "run a server that can load them and pass requests on with 'proxy'")
    } else {
        return None;
    };
    Some((
        key,
        format!(
            "'{key}': this program is linked statically and cannot load {library}: install the package \
             (make package) or build with 'make build', or {instead}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use touchstone_config::load_text;

    fn key_of(route: &str) -> Option<&'static str> {
        let text = format!("[[site]]\nlisten = ['127.0.0.1:0']\nroot = '.'\n[[site.route]]\n{route}\n");
        let loaded = load_text(&text, Path::new("site.toml")).unwrap();
        let (key, message) = needed(&loaded.config.sites[0].routes[0])?;
        assert!(message.starts_with(&format!("'{key}': this program is linked statically")), "{message}");
        Some(key)
    }

    #[test]
    fn routes_that_need_a_dynamic_linker() {
        assert_eq!(key_of("servlet = { app = 'a.war' }"), Some("servlet"));
        assert_eq!(key_of("python = { app = 'app:application' }"), Some("python"));
        assert_eq!(key_of("nsapi = { obj_conf = 'obj.conf' }"), Some("nsapi"));
        assert_eq!(key_of("proxy = { to = 'http://127.0.0.1:1' }"), None);
        let over_ajp =
            "servlet = { app = 'a.war', isolation = 'ajp' }\najp = { backends = ['127.0.0.1:8009'] }";
        assert_eq!(key_of(over_ajp), None);
    }
}
