//! `[java]` and `[site.route.servlet]`: Java servlets and JSP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, as_usize};
use touchstone_servlet::settings::{Convert, Isolation, JavaSettings, Names, RouteSettings};

const MINUTE: Duration = Duration::from_secs(60);

/// `[java]`
#[derive(Debug, Clone, PartialEq)]
pub struct JavaConfig {
    /// The settings for the virtual machine.
    pub settings: JavaSettings,
}

impl Default for JavaConfig {
    fn default() -> JavaConfig {
        JAVA.defaults()
    }
}

/// `[site.route.servlet]`
#[derive(Debug, Clone, PartialEq)]
pub struct ServletConfig {
    /// The applications. An empty context is the context of the route's path.
    pub settings: RouteSettings,
    /// The route's `ajp` answers instead: the applications are in separate containers.
    pub is_over_ajp: bool,
    /// `[java]`, which is the same for all.
    pub java: JavaConfig,
}

impl ServletConfig {
    /// The settings with the path of the context, for a route with this path.
    pub fn for_route(&self, route_path: &str) -> RouteSettings {
        let mut settings = self.settings.clone();
        if settings.context.is_empty() {
            let plain = route_path.split('*').next().unwrap_or_default();
            settings.context = plain.rsplit_once('/').map_or(String::new(), |(before, _)| before.to_string());
        }
        settings.context = settings.context.trim_end_matches('/').to_string();
        settings
    }
}

/// `[java]`
pub static JAVA: Section<JavaConfig> = Section {
    name: "java",
    repeated: false,
    documentation: "The Java virtual machine, for routes with `servlet`. A server has one, which starts when \
        a route first needs it. A later change of this section needs a restart. See [servlets](servlet.md).",
    blank: || JavaConfig {
        settings: JavaSettings {
            home: None,
            jar_directory: None,
            options: Vec::new(),
            heap_bytes: 0,
            work: None,
            class_path: Vec::new(),
        },
    },
    keys: &[
        Key {
            name: "home",
            default: Some("\"\""),
            example: "\"/usr/lib/jvm/java-17-openjdk-amd64\"",
            documentation: "Where Java is installed, version 17 or later. Empty: JAVA_HOME, the `java` on \
                the PATH, or the newest in `/usr/lib/jvm` and similar directories.",
            kind: Kind::File(|java, value| java.settings.home = value),
        },
        Key {
            name: "library",
            default: Some("\"\""),
            example: "\"/usr/share/touchstone/java\"",
            documentation: "The directory of the jars that `make java` makes, Tomcat's among them. \
                Empty: `target/java` beside a program in its build directory, `share/touchstone/java` beside \
                an installed one.",
            kind: Kind::File(|java, value| java.settings.jar_directory = value),
        },
        Key {
            name: "options",
            default: Some("[]"),
            example: "[\"-XX:+UseParallelGC\", \"-Duser.timezone=UTC\"]",
            documentation: "Options for the virtual machine, as the command `java` takes them. With a wrong \
                option Java does not start; this is logged, and requests for servlets are answered with 503.",
            kind: Kind::CheckedArray {
                what: "array of options",
                parse: option,
                set: |java, value| java.settings.options = value,
            },
        },
        Key {
            name: "heap",
            default: Some("0"),
            example: "\"512MiB\"",
            documentation: "The largest heap. 0: a quarter of the machine's memory, as Java chooses.",
            kind: Kind::Size { least: 0, most: 1 << 46, set: |java, value| java.settings.heap_bytes = value },
        },
        Key {
            name: "work_directory",
            default: Some("\"\""),
            example: "\"/var/lib/touchstone/java\"",
            documentation: "Where Tomcat keeps what must survive a restart: sessions, compiled JSP pages, \
                and the converted copies of WARs for `javax.servlet`. No other user but root may be able to \
                write there, or to a directory above it. Empty: a directory for temporary files, removed at \
                the end.",
            kind: Kind::File(|java, value| java.settings.work = value),
        },
        Key {
            name: "class_path",
            default: Some("[]"),
            example: "[\"/usr/share/java/postgresql.jar\"]",
            documentation: "Jars that all applications may use, such as database drivers, as absolute paths.",
            kind: Kind::CheckedArray {
                what: "array of absolute paths",
                parse: absolute_path,
                set: |java, value| java.settings.class_path = value.into_iter().map(PathBuf::from).collect(),
            },
        },
    ],
};

/// `[site.route.servlet]`
pub static SERVLET: Section<ServletConfig> = Section {
    name: "site.route.servlet",
    repeated: false,
    documentation: "Java web applications answer the requests: servlets, JSP, WebSocket, in an unmodified \
        Tomcat that runs inside the server, without sockets between the two. See [servlets](servlet.md).",
    blank: || ServletConfig {
        settings: RouteSettings {
            app: None,
            directory: None,
            site: String::new(),
            names: Names::default(),
            context: String::new(),
            isolation: Isolation::InProcess,
            standby: false,
            node: String::new(),
            users: None,
            reload: false,
            reload_classes: false,
            convert: Convert::Auto,
            error_text: false,
            https_port: 0,
            form_bytes: 0,
            threads: 0,
            has_virtual_threads: false,
            queue: 0,
            stack_bytes: 0,
            start_timeout: Duration::ZERO,
            answer_timeout: None,
            drain_timeout: Duration::ZERO,
        },
        is_over_ajp: false,
        java: JavaConfig::default(),
    },
    keys: &[
        Key {
            name: "app",
            default: Some(ABSENT),
            example: "\"shop.war\"",
            documentation: "One application: a WAR, or a directory of the same content. \
                Either this or `directory` must be given.",
            kind: Kind::File(|servlet, value| servlet.settings.app = value),
        },
        Key {
            name: "directory",
            default: Some("\"\""),
            example: "\"/srv/webapps\"",
            documentation: "A directory of applications, each a WAR or a directory, named as Tomcat names \
                them: `shop.war` is `/shop`, `ROOT.war` is `/`, `shop#new.war` is `/shop/new`, `shop##2.war` \
                a second version of `/shop`. An application that is added is started, one that is replaced \
                is restarted, one that is removed is stopped.",
            kind: Kind::File(|servlet, value| servlet.settings.directory = value),
        },
        Key {
            name: "context",
            default: Some("\"\""),
            example: "\"/shop\"",
            documentation: "The path of the application; with `directory`, the beginning of the paths of \
                all. `\"/\"`: the root. Empty: the beginning of the route's `path`.",
            kind: Kind::Checked {
                what: "path",
                parse: |text, _| context(text),
                set: |servlet, value| servlet.settings.context = value,
            },
        },
        Key {
            name: "isolation",
            default: Some("\"in-process\""),
            example: "\"isolated\"",
            documentation: "Where the applications run. One that ends Java, runs out of memory or crashes \
                Java also ends the server, or all other applications, unless it is isolated. \
                `[site.route.ajp]` of the same route names the containers for `\"ajp\"`, and has no effect \
                with the other values.",
            kind: Kind::Choice(&[
                Choice {
                    word: "in-process",
                    meaning: "in the server: fastest",
                    set: |servlet| servlet.settings.isolation = Isolation::InProcess,
                },
                Choice {
                    word: "isolated",
                    meaning: "in a separate process of the route, which is watched and restarted",
                    set: |servlet| servlet.settings.isolation = Isolation::Isolated,
                },
                Choice {
                    word: "ajp",
                    meaning: "in Tomcats that run on their own, over AJP13",
                    set: |servlet| servlet.is_over_ajp = true,
                },
            ]),
        },
        Key {
            name: "standby",
            default: Some("true"),
            example: "false",
            documentation: "Whether an isolated route has a second process, in which Java has started but no \
                application runs. It replaces the first process within a second after that has ended. It \
                needs the memory of an idle Java, about 60 MB.",
            kind: Kind::Boolean(|servlet, value| servlet.settings.standby = value),
        },
        Key {
            name: "node",
            default: Some("\"\""),
            example: "\"a\"",
            documentation: "The name of this server among several servers of a balancer (`jvmRoute`): the \
                identifier of a session ends with a dot and this name, by which the balancer selects the \
                server. Empty: none.",
            kind: Kind::Token(|servlet, value| servlet.settings.node = value),
        },
        Key {
            name: "users",
            default: Some("\"\""),
            example: "\"tomcat-users.xml\"",
            documentation: "Users with their passwords and roles, in a file like Tomcat's tomcat-users.xml, \
                for applications with their own login. Empty: no user can log in to these. The application \
                also receives the name of a user that the server has authenticated, without roles.",
            kind: Kind::File(|servlet, value| servlet.settings.users = value),
        },
        Key {
            name: "reload",
            default: Some("true"),
            example: "false",
            documentation: "Whether an application restarts when its WAR, its web.xml or its context.xml \
                changes. Its requests wait during the restart, its sessions are kept, and no other \
                application is affected.",
            kind: Kind::Boolean(|servlet, value| servlet.settings.reload = value),
        },
        Key {
            name: "reload_classes",
            default: Some("false"),
            example: "true",
            documentation: "Whether an application is also restarted when one of its classes or jars \
                changes. For development: Tomcat checks every class file every few seconds.",
            kind: Kind::Boolean(|servlet, value| servlet.settings.reload_classes = value),
        },
        Key {
            name: "convert",
            default: Some("\"auto\""),
            example: "\"no\"",
            documentation: "Whether applications from before Jakarta EE 9, written for `javax.servlet`, are \
                converted. A copy is converted.",
            kind: Kind::Choice(&[
                Choice {
                    word: "auto",
                    meaning: "those whose classes or pages use the old names",
                    set: |servlet| servlet.settings.convert = Convert::Auto,
                },
                Choice {
                    word: "yes",
                    meaning: "all",
                    set: |servlet| servlet.settings.convert = Convert::Yes,
                },
                Choice { word: "no", meaning: "none", set: |servlet| servlet.settings.convert = Convert::No },
            ]),
        },
        Key {
            name: "error_text",
            default: Some("true"),
            example: "false",
            documentation: "Whether the container's error pages show the text of `sendError(code, text)`. \
                Exceptions, their texts and stacks are only in the error log.",
            kind: Kind::Boolean(|servlet, value| servlet.settings.error_text = value),
        },
        Key {
            name: "https_port",
            default: Some("443"),
            example: "8443",
            documentation: "The port to which a client is redirected if an application requires HTTPS \
                (`transport-guarantee` CONFIDENTIAL), as Tomcat's redirectPort.",
            kind: Kind::Number {
                least: 1,
                most: 65_535,
                set: |servlet, value| servlet.settings.https_port = u16::try_from(value).unwrap_or(443),
            },
        },
        Key {
            name: "form_size",
            default: Some("\"2MiB\""),
            example: "\"256KiB\"",
            documentation: "The longest form that Tomcat reads into parameters; the parameters of a longer \
                one are missing, which is logged in the error log. Only `limits.body_bytes` limits uploads \
                that a servlet reads itself.",
            kind: Kind::Size {
                least: 0,
                most: 1 << 30,
                set: |servlet, value| servlet.settings.form_bytes = value,
            },
        },
        Key {
            name: "threads",
            default: Some("200"),
            example: "64",
            documentation: "Threads that answer requests of this route at a time, as Tomcat's maxThreads and \
                the iPlanet servers' RqThrottle. They are started when needed. `\"virtual\"`: each request \
                has a virtual thread of its own, without a limit; it needs Java 21 or later.",
            kind: Kind::NumberOrWord {
                word: "virtual",
                set_word: |servlet| servlet.settings.has_virtual_threads = true,
                least: 1,
                most: 4_096,
                set: |servlet, value| servlet.settings.threads = as_usize(value),
            },
        },
        Key {
            name: "queue",
            default: Some("1000"),
            example: "100",
            documentation: "Requests that may wait for a thread. More get 503 Service Unavailable.",
            kind: Kind::Number {
                least: 0,
                most: 100_000,
                set: |servlet, value| servlet.settings.queue = as_usize(value),
            },
        },
        Key {
            name: "stack_size",
            default: Some("\"1MiB\""),
            example: "\"4MiB\"",
            documentation: "The stack of each thread.",
            kind: Kind::Size {
                least: 256 << 10,
                most: 1 << 30,
                set: |servlet, value| servlet.settings.stack_bytes = as_usize(value),
            },
        },
        Key {
            name: "start_timeout",
            default: Some("\"20s\""),
            example: "\"2s\"",
            documentation: "How long a request waits while Java or the applications start. \
                After that it gets 503 Service Unavailable, with Retry-After.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(600),
                set: |servlet, value| servlet.settings.start_timeout = value,
            },
        },
        Key {
            name: "answer_timeout",
            default: Some("\"0s\""),
            example: "\"30s\"",
            documentation: "How long a servlet may take until its answer begins. After that the client gets \
                504 Gateway Timeout; the servlet's thread cannot be stopped, and continues. `\"0s\"`: no \
                limit.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(60 * MINUTE.as_secs()),
                set: |servlet, value| {
                    servlet.settings.answer_timeout = (value > Duration::ZERO).then_some(value);
                },
            },
        },
        Key {
            name: "drain_timeout",
            default: Some("\"30s\""),
            example: "\"5m\"",
            documentation: "How long running requests, including WebSockets, may continue in an application \
                that was replaced, and in those of a route that a reload has changed or removed. New \
                requests are sent to the new application at once.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(24 * 60 * MINUTE.as_secs()),
                set: |servlet, value| servlet.settings.drain_timeout = value,
            },
        },
    ],
};

fn option(text: &str) -> Result<String, String> {
    if !text.starts_with('-') {
        return Err(format!("{text:?} is not an option: options begin with a hyphen"));
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err("an option holds no line break".to_string());
    }
    Ok(text.to_string())
}

fn absolute_path(text: &str) -> Result<String, String> {
    if Path::new(text).is_absolute() && !text.contains([':', '\0']) {
        Ok(text.to_string())
    } else {
        Err(format!("{text:?} is not an absolute path, or holds a colon"))
    }
}

fn context(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte));
    let is_path = text.is_empty() || text.starts_with('/');
    if !is_plain || !is_path || text.contains("//") || text.split('/').any(|part| part == "." || part == "..")
    {
        return Err(format!("{text:?} is not a path of a context, such as \"/shop\""));
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_that_of_the_path_where_none_is_given() {
        let servlet = SERVLET.defaults();
        for (path, context) in
            [("/shop/", "/shop"), ("/", ""), ("/a/b/*.jsp", "/a/b"), ("/shop/**", "/shop"), ("", "")]
        {
            assert_eq!(servlet.for_route(path).context, context, "{path}");
        }
        let mut servlet = servlet;
        servlet.settings.context = "/".to_string();
        assert_eq!(servlet.for_route("/shop/").context, "");
    }

    #[test]
    fn contexts_and_options_are_checked() {
        for text in ["", "/", "/shop", "/a/b-c_d.e~f"] {
            assert_eq!(context(text).as_deref(), Ok(text));
        }
        for text in ["shop", "/a//b", "/../a", "/a b", "/a;b", "/a#b"] {
            assert!(context(text).is_err(), "{text}");
        }
        assert!(option("-Xmx1m").is_ok() && option("Xmx1m").is_err() && option("-a\nb").is_err());
        assert!(absolute_path("/a.jar").is_ok() && absolute_path("a.jar").is_err());
    }
}
