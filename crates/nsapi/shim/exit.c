/*
 * exit and similar functions for plug-ins. A plug-in finds the program's functions before those of the C
 * library, so that src/ending.rs can report a plug-in that ends the server. Other calls are passed to the C
 * library. build.rs reads the names after EXPORT from this file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT(type, name, parameters) type name parameters
#define noreturn_void __attribute__((noreturn)) void

/* src/ending.rs; it does not return if the caller is a plug-in. */
extern void touchstone_nsapi_ends(const char *name, int status, const void *caller);

/* For install() in src/ending.rs: the linker leaves out functions without a reference. */
const int touchstone_nsapi_exit_is_here = 1;

static void end(const char *name, int status)
{
    void (*next)(int) = (void (*)(int))dlsym(RTLD_NEXT, name);
    if (next != NULL)
        next(status);
    /* Without another one, the kernel ends the process. */
    for (;;)
        syscall(SYS_exit_group, status);
}

EXPORT(noreturn_void, exit, (int status))
{
    touchstone_nsapi_ends("exit", status, __builtin_return_address(0));
    end("exit", status);
    __builtin_unreachable();
}

EXPORT(noreturn_void, _exit, (int status))
{
    touchstone_nsapi_ends("_exit", status, __builtin_return_address(0));
    end("_exit", status);
    __builtin_unreachable();
}

EXPORT(noreturn_void, _Exit, (int status))
{
    touchstone_nsapi_ends("_Exit", status, __builtin_return_address(0));
    end("_Exit", status);
    __builtin_unreachable();
}

EXPORT(noreturn_void, quick_exit, (int status))
{
    touchstone_nsapi_ends("quick_exit", status, __builtin_return_address(0));
    end("quick_exit", status);
    __builtin_unreachable();
}
