/* A component that does what the path asks for: what a good one does, and what a hostile one does.
 * It is built with the toolchain of the makefile beside it; the tests use the built component. */

#include "answer.h"

static uint32_t uses;

static void echo(T(own_incoming_request_t) request, T(own_response_outparam_t) out) {
    T(own_incoming_body_t) body;
    T(method_incoming_request_consume)(T(borrow_incoming_request)(request), &body);
    answer_t answer = begin(out, 200, T(constructor_fields)());
    T(own_fields_t) trailers;
    bool has = copy(body, answer.stream, &trailers);
    finish(answer, has ? &trailers : NULL);
}

static void environment(T(own_response_outparam_t) out) {
    guest_list_tuple2_string_string_t list;
    wasi_cli_environment_get_environment(&list);
    answer_t answer = begin(out, 200, T(constructor_fields)());
    for (size_t at = 0; at < list.len; at++) {
        write_all(answer.stream, list.ptr[at].f0.ptr, list.ptr[at].f0.len);
        write_all(answer.stream, (const uint8_t *)"=", 1);
        write_all(answer.stream, list.ptr[at].f1.ptr, list.ptr[at].f1.len);
        write_all(answer.stream, (const uint8_t *)"\n", 1);
    }
    finish(answer, NULL);
}

/* All fields of the request, with their values. */
static void fields_of(T(own_incoming_request_t) request, T(own_response_outparam_t) out) {
    T(own_fields_t) headers = T(method_incoming_request_headers)(T(borrow_incoming_request)(request));
    guest_list_tuple2_field_name_field_value_t list;
    T(method_fields_entries)(T(borrow_fields)(headers), &list);
    answer_t answer = begin(out, 200, T(constructor_fields)());
    for (size_t at = 0; at < list.len; at++) {
        write_all(answer.stream, list.ptr[at].f0.ptr, list.ptr[at].f0.len);
        write_all(answer.stream, (const uint8_t *)": ", 2);
        write_all(answer.stream, list.ptr[at].f1.ptr, list.ptr[at].f1.len);
        write_all(answer.stream, (const uint8_t *)"\n", 1);
    }
    finish(answer, NULL);
}

/* Asks another server: "/ask/http/127.0.0.1:8080/path". */
static void ask(T(own_response_outparam_t) out, char *what) {
    bool is_https = strncmp(what, "https/", 6) == 0;
    char *authority = strchr(what, '/') + 1;
    char *path = strchr(authority, '/');
    guest_string_t target = text(path);
    guest_string_t host = { (uint8_t *)authority, (size_t)(path - authority) };
    T(scheme_t) scheme = { .tag = is_https ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP };
    T(own_outgoing_request_t) request = T(constructor_outgoing_request)(T(constructor_fields)());
    T(method_outgoing_request_set_scheme)(T(borrow_outgoing_request)(request), &scheme);
    T(method_outgoing_request_set_authority)(T(borrow_outgoing_request)(request), &host);
    T(method_outgoing_request_set_path_with_query)(T(borrow_outgoing_request)(request), &target);
    T(own_future_incoming_response_t) future;
    T(error_code_t) error;
    if (!wasi_http_outgoing_handler_handle(request, NULL, &future, &error))
        return reply_text(out, 502, "refused\n");
    T(own_pollable_t) ready =
        T(method_future_incoming_response_subscribe)(T(borrow_future_incoming_response)(future));
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    T(result_result_own_incoming_response_error_code_void_t) result;
    if (!T(method_future_incoming_response_get)(T(borrow_future_incoming_response)(future), &result) ||
        result.is_err)
        return reply_text(out, 502, "nothing\n");
    if (result.val.ok.is_err) {
        bool denied = result.val.ok.val.err.tag == WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED;
        return reply_text(out, 502, denied ? "denied\n" : "failed\n");
    }
    T(own_incoming_response_t) response = result.val.ok.val.ok;
    T(own_incoming_body_t) body;
    T(method_incoming_response_consume)(T(borrow_incoming_response)(response), &body);
    uint16_t status = T(method_incoming_response_status)(T(borrow_incoming_response)(response));
    answer_t answer = begin(out, status, T(constructor_fields)());
    T(own_fields_t) trailers;
    bool has = copy(body, answer.stream, &trailers);
    finish(answer, has ? &trailers : NULL);
}

static volatile uint32_t sink;

static void compute(uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++)
        sink = sink * 1664525 + 1013904223;
}

/* Volatile, so that the compiler leaves the allocations in. */
static uint8_t *volatile newest;

static void memory(T(own_response_outparam_t) out) {
    size_t bytes = 0;
    for (;;) {
        uint8_t *piece = malloc(1 << 20);
        if (piece == NULL)
            __builtin_trap();
        memset(piece, 1, 1 << 20);
        newest = piece;
        bytes += 1 << 20;
        if (bytes > (size_t)3 << 30)
            return reply_text(out, 200, "no limit\n");
    }
}

static void endless(T(own_response_outparam_t) out) {
    static uint8_t piece[PIECE];
    memset(piece, 'x', sizeof piece);
    answer_t answer = begin(out, 200, T(constructor_fields)());
    while (write_all(answer.stream, piece, sizeof piece))
        ;
    finish(answer, NULL);
}

/* Fields that would end the head early, or frame the body otherwise. 0 of them may be taken. */
static void inject(T(own_response_outparam_t) out) {
    T(own_fields_t) fields = T(constructor_fields)();
    int taken = 0;
    taken += add(fields, "x-a", "b\r\nSet-Cookie: stolen=1");
    taken += add(fields, "x-a\r\nset-cookie", "stolen=1");
    taken += add(fields, "x a", "b");
    taken += add(fields, "transfer-encoding", "chunked");
    taken += add(fields, "connection", "close");
    answer_t answer = begin(out, 200, fields);
    char digit[] = { (char)('0' + taken), '\n' };
    write_all(answer.stream, (const uint8_t *)digit, sizeof digit);
    finish(answer, NULL);
}

static void short_length(T(own_response_outparam_t) out) {
    T(own_fields_t) fields = T(constructor_fields)();
    add(fields, "content-length", "100");
    answer_t answer = begin(out, 200, fields);
    write_all(answer.stream, (const uint8_t *)"short\n", 6);
    finish(answer, NULL);
}

static void resources(void) {
    for (;;)
        T(constructor_fields)();
}

static void recurse(volatile uint8_t *above) {
    volatile uint8_t here[256];
    here[0] = above[0] + 1;
    recurse(here);
    sink += here[0];
}

static void with_trailers(T(own_response_outparam_t) out) {
    answer_t answer = begin(out, 200, T(constructor_fields)());
    write_all(answer.stream, (const uint8_t *)"body\n", 5);
    T(own_fields_t) trailers = T(constructor_fields)();
    add(trailers, "x-checksum", "abc");
    finish(answer, &trailers);
}

static void page(T(own_response_outparam_t) out) {
    static uint8_t bytes[6250];
    memset(bytes, 'x', sizeof bytes);
    reply(out, 200, bytes, sizeof bytes);
}

static void count(T(own_response_outparam_t) out) {
    char digits[] = { (char)('0' + uses / 100 % 10), (char)('0' + uses / 10 % 10),
                      (char)('0' + uses % 10), '\n' };
    reply(out, 200, (const uint8_t *)digits, sizeof digits);
}

static void trap_in_body(T(own_response_outparam_t) out, size_t bytes) {
    static uint8_t piece[PIECE];
    answer_t answer = begin(out, 200, T(constructor_fields)());
    while (bytes >= PIECE && write_all(answer.stream, piece, sizeof piece))
        bytes -= PIECE;
    write_all(answer.stream, piece, bytes);
    __builtin_trap();
}

void exports_wasi_http_incoming_handler_handle(T(own_incoming_request_t) request,
                                               T(own_response_outparam_t) out) {
    guest_string_t target = { NULL, 0 };
    T(method_incoming_request_path_with_query)(T(borrow_incoming_request)(request), &target);
    char *path = malloc(target.len + 1);
    memcpy(path, target.ptr, target.len);
    path[target.len] = 0;
    uses += 1;
    if (strcmp(path, "/page") == 0)
        page(out);
    else if (strcmp(path, "/echo") == 0)
        echo(request, out);
    else if (strcmp(path, "/environment") == 0)
        environment(out);
    else if (strcmp(path, "/fields") == 0)
        fields_of(request, out);
    else if (strncmp(path, "/ask/", 5) == 0)
        ask(out, path + 5);
    else if (strcmp(path, "/trailers") == 0)
        with_trailers(out);
    else if (strcmp(path, "/count") == 0)
        count(out);
    else if (strcmp(path, "/compute") == 0)
        compute(50 * 1000 * 1000), reply_text(out, 200, "computed\n");
    else if (strcmp(path, "/loop") == 0)
        for (;;)
            compute(1000);
    else if (strcmp(path, "/memory") == 0)
        memory(out);
    else if (strcmp(path, "/endless") == 0)
        endless(out);
    else if (strcmp(path, "/trap") == 0)
        __builtin_trap();
    else if (strcmp(path, "/trap-in-body") == 0)
        trap_in_body(out, 10);
    else if (strcmp(path, "/trap-in-long-body") == 0)
        trap_in_body(out, 1 << 20);
    else if (strcmp(path, "/inject") == 0)
        inject(out);
    else if (strcmp(path, "/short") == 0)
        short_length(out);
    else if (strcmp(path, "/resources") == 0)
        resources();
    else if (strcmp(path, "/recurse") == 0) {
        uint8_t first = 0;
        recurse(&first);
    } else if (strcmp(path, "/silent") == 0)
        ;
    else
        reply_text(out, 200, "hello\n");
    free(path);
}
