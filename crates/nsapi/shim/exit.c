/*
 * exit and its like, as plug-ins find them: the program stands before the C library where a plug-in looks
 * for a name, so that a plug-in does not end the server without a word. Calls of others go to the C library.
 * build.rs reads the names behind EXPORT from here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT(type, name, parameters) type name parameters
#define noreturn_void __attribute__((noreturn)) void

/* src/ending.rs; it does not return where a plug-in has called. */
extern void touchstone_nsapi_ends(const char *name, int status, const void *caller);

/* For install() in src/ending.rs: a linker leaves out what nothing asks for. */
const int touchstone_nsapi_exit_is_here = 1;

static void end(const char *name, int status)
{
    void (*next)(int) = (void (*)(int))dlsym(RTLD_NEXT, name);
    if (next != NULL)
        next(status);
    for (;;)
        __builtin_trap();
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
