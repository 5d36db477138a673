/*
 * The functions of the tables that take "..." or a va_list: stable Rust can call such functions, but not
 * define them. Each formats its text here and passes it on.
 */
#define INTNSAPI
#include "nsapi.h"

#define EXPORT(type, name, parameters) type name parameters

/* src/api/log.rs */
extern int touchstone_nsapi_log(int degree, const char *function, Session *sn, Request *rq, const char *text);

EXPORT(int, log_error_v,
       (int degree, const char *function, Session *sn, Request *rq, const char *format, va_list arguments))
{
    char text[MAX_ERROR_LEN];
    vsnprintf(text, sizeof text, format, arguments);
    return touchstone_nsapi_log(degree, function, sn, rq, text);
}

EXPORT(int, log_error, (int degree, const char *function, Session *sn, Request *rq, const char *format, ...))
{
    va_list arguments;
    int answer;
    va_start(arguments, format);
    answer = log_error_v(degree, function, sn, rq, format, arguments);
    va_end(arguments);
    return answer;
}

EXPORT(int, ereport_v, (int degree, const char *format, va_list arguments))
{
    return log_error_v(degree, NULL, NULL, NULL, format, arguments);
}

EXPORT(int, ereport, (int degree, const char *format, ...))
{
    va_list arguments;
    int answer;
    va_start(arguments, format);
    answer = ereport_v(degree, format, arguments);
    va_end(arguments);
    return answer;
}

EXPORT(int, log_ereport, (int degree, const char *format, ...))
{
    va_list arguments;
    int answer;
    va_start(arguments, format);
    answer = ereport_v(degree, format, arguments);
    va_end(arguments);
    return answer;
}

EXPORT(int, util_vsnprintf, (char *str, int size, const char *format, va_list arguments))
{
    /* Returns the number of bytes written, not the number needed, which vsnprintf returns. */
    int length;
    if (size <= 0)
        return 0;
    length = vsnprintf(str, (size_t)size, format, arguments);
    if (length < 0)
        return -1;
    return length < size ? length : size - 1;
}

EXPORT(int, util_snprintf, (char *str, int size, const char *format, ...))
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = util_vsnprintf(str, size, format, arguments);
    va_end(arguments);
    return length;
}

EXPORT(int, util_vsprintf, (char *str, const char *format, va_list arguments))
{
    return vsprintf(str, format, arguments);
}

EXPORT(int, util_sprintf, (char *str, const char *format, ...))
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsprintf(str, format, arguments);
    va_end(arguments);
    return length;
}
