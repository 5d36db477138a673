//! Plug-ins that end the process, or crash in threads of their own: the server never ends without a word, and
//! never with status 0.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use crate::nsapi::{compile_text, text};
use crate::support::{Server, Tree, wait_until};

const PLUGIN: &str = r#"
#include "base/pblock.h"
#include "frame/protocol.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *crash(void *nothing)
{
    *(volatile int *)8 = 1;
    return nothing;
}

static void *leave(void *nothing)
{
    exit(0);
    return nothing;
}

/* Overwrites its stack, with the address that it returns to. */
static __attribute__((noinline)) void smash(volatile char *from, long bytes)
{
    while (bytes-- > 0)
        *from++ = 0x41;
}

static __attribute__((noinline)) void smashed(void)
{
    volatile char small[16];
    smash(small, 256);
}

NSAPI_PUBLIC int ends_service(pblock *pb, Session *sn, Request *rq)
{
    char *how = pblock_findval("how", pb);
    pthread_t thread;
    int status;

    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "exit-3"))
        exit(3);
    if (!strcmp(how, "thread-exit"))
        pthread_create(&thread, NULL, leave, NULL);
    if (!strcmp(how, "thread-crash"))
        pthread_create(&thread, NULL, crash, NULL);
    if (!strncmp(how, "thread-", 7))
        pthread_join(thread, NULL);
    if (!strcmp(how, "smash"))
        smashed();
    if (!strcmp(how, "abort"))
        abort();
    /* A process of its own may end as it likes. */
    if (fork() == 0)
        _exit(0);
    wait(&status);
    if (fork() == 0)
        exit(0);
    wait(&status);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    net_write(sn->csd, "ok", 2);
    return REQ_PROCEED;
}
"#;

fn start(tree: &Tree, how: &str, host: &str) -> Option<Server> {
    let root = tree.root();
    compile_text(&root, "ends", PLUGIN)?;
    let config = format!(
        "[error_log]\npath = \"stderr\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n[[site.route]]\n\
         [site.route.nsapi]\n{host}init = [\"fn=load-modules shlib=ends.so funcs=ends-service\"]\n\
         directives = [\"Service fn=ends-service how={how}\"]\n",
    );
    Some(Server::configured(&root, &config))
}

#[test]
fn a_plugin_does_not_end_the_server_without_a_word() {
    for (how, words, signal) in [
        ("exit", "the function ends-service of the plug-in ends.so has called exit(0)", None),
        ("_exit", "the function ends-service of the plug-in ends.so has called _exit(0)", None),
        ("exit-3", "the function ends-service of the plug-in ends.so has called exit(3)", None),
        ("thread-exit", "a thread of the plug-in ends.so has called exit(0)", None),
        ("thread-crash", "a thread of the plug-in ends.so has crashed with SIGSEGV", Some(libc_signal::SEGV)),
        ("smash", "the function ends-service of the plug-in ends.so has crashed with SIG", None),
        (
            "abort",
            "the function ends-service of the plug-in ends.so has crashed with SIGABRT",
            Some(libc_signal::ABRT),
        ),
    ] {
        let tree = Tree::empty();
        let Some(mut server) = start(&tree, how, "") else { return };
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        server.wait_for_error_line(words, |line| line.contains(words));
        let status = server.wait();
        assert!(!status.success(), "{how}: {status}");
        // A compiler may check the stack itself, so that the signal differs.
        assert!(status.signal() == signal || how == "smash", "{how}: {status}");
        if how == "exit-3" {
            assert_eq!(status.code(), Some(3));
        }
    }
}

mod libc_signal {
    pub(super) const ABRT: i32 = 6;
    pub(super) const SEGV: i32 = 11;
}

#[test]
fn what_a_plugin_forks_may_end_as_it_likes() {
    for host in ["", "host = \"process\"\n"] {
        let tree = Tree::empty();
        let Some(server) = start(&tree, "fork", host) else { return };
        for _ in 0..2 {
            assert_eq!(text(&server.get("/").body), "ok", "{host}");
        }
        assert!(!server.error_text().contains("has called"), "{}", server.error_text());
    }
}

/// In a separate process, the other side reports how it ended, and continues.
#[test]
fn a_plugin_that_ends_its_own_process_is_named() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "exit", "host = \"process\"\n") else { return };
    assert_eq!(server.get("/").status, 502);
    for words in ["of the plug-in ends.so has called exit(0)", "ended (with exit code 70)"] {
        // The output of the other process is written when a request arrives.
        wait_until(words, Duration::from_secs(60), || {
            server.get("/");
            server.error_text().contains(words)
        });
    }
}
