"""An nginx whose requests need slightly more processor time, for experiments with the laboratory."""

import subprocess

from common import TOP

# Uses processor time in each sendfile(), which nginx calls once for a file.
SLOWER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <time.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long nanoseconds;

// Before nginx empties its environment.
__attribute__((constructor)) static void begin(void) {
    const char *stated = getenv("SPEND_NANOSECONDS");
    nanoseconds = stated ? atol(stated) : 0;
}

static ssize_t spend(int out, int in, off_t *offset, size_t count, const char *name) {
    for (long end = now() + nanoseconds; now() < end;) { }
    ssize_t (*real)(int, int, off_t *, size_t) =
        (ssize_t(*)(int, int, off_t *, size_t))dlsym(RTLD_NEXT, name);
    return real(out, in, offset, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
    return spend(out, in, offset, count, "sendfile");
}

ssize_t sendfile64(int out, int in, off_t *offset, size_t count) {
    return spend(out, in, offset, count, "sendfile64");
}
"""


def definition(scratch, name, environment):
    """A copy of the definition of nginx with another name, and with an environment."""
    text = (TOP / "systems/nginx.toml").read_text().replace('name = "nginx"', f'name = "{name}"', 1)
    keys = "".join(f'{key} = "{value}"\n' for key, value in environment.items())
    path = scratch / f"{name}.toml"
    path.write_text(text + (f"\n[environment]\n{keys}" if keys else ""))
    return str(path)


def library(scratch):
    """Compiles the library; returns the environment of an nginx that loads it and uses no time."""
    source, made = scratch / "slower.c", scratch / "slower.so"
    source.write_text(SLOWER)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    # nginx changes to another user.
    scratch.chmod(0o755)
    return {"LD_PRELOAD": str(made)}
