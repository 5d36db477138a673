/* Components that stand before others. The variable MODE of the environment says what this one does:
 *
 *   auth     answers 403 unless the request has the field X-Token; else passes it on, with X-User
 *   tag      passes the request on, and adds a field to the answer, whose body goes past it
 *   upper    passes the request on, and the answer in capitals
 *   prefix   passes the request on with "seen: " before its body
 *   stray    asks for another path than that of the request
 */

#include "answer.h"

static bool is_mode(const char *name) {
    guest_list_tuple2_string_string_t list;
    wasi_cli_environment_get_environment(&list);
    for (size_t at = 0; at < list.len; at++)
        if (list.ptr[at].f1.len == strlen(name) && memcmp(list.ptr[at].f1.ptr, name, strlen(name)) == 0)
            return true;
    return false;
}

/* The request as it came, to the authority "next". */
static T(own_outgoing_request_t) onward(T(own_incoming_request_t) request, T(own_fields_t) fields,
                                        const char *path) {
    T(own_outgoing_request_t) next = T(constructor_outgoing_request)(fields);
    T(borrow_outgoing_request_t) to = T(borrow_outgoing_request)(next);
    T(scheme_t) scheme = { .tag = WASI_HTTP_TYPES_SCHEME_HTTP };
    guest_string_t authority = text("next");
    guest_string_t target;
    T(method_t) method;
    T(method_incoming_request_method)(T(borrow_incoming_request)(request), &method);
    if (path != NULL)
        target = text(path);
    else
        T(method_incoming_request_path_with_query)(T(borrow_incoming_request)(request), &target);
    T(method_outgoing_request_set_method)(to, &method);
    T(method_outgoing_request_set_scheme)(to, &scheme);
    T(method_outgoing_request_set_authority)(to, &authority);
    T(method_outgoing_request_set_path_with_query)(to, &target);
    return next;
}

static bool pass_on(T(own_outgoing_request_t) next, T(own_future_incoming_response_t) *future) {
    T(error_code_t) error;
    return wasi_http_outgoing_handler_handle(next, NULL, future, &error);
}

static bool await(T(own_future_incoming_response_t) future, T(own_incoming_response_t) *response) {
    T(own_pollable_t) ready =
        T(method_future_incoming_response_subscribe)(T(borrow_future_incoming_response)(future));
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    T(result_result_own_incoming_response_error_code_void_t) result;
    if (!T(method_future_incoming_response_get)(T(borrow_future_incoming_response)(future), &result) ||
        result.is_err || result.val.ok.is_err)
        return false;
    *response = result.val.ok.val.ok;
    return true;
}

static T(own_fields_t) fields_of(T(own_incoming_response_t) response) {
    T(own_headers_t) headers = T(method_incoming_response_headers)(T(borrow_incoming_response)(response));
    return T(method_fields_clone)(T(borrow_fields)(headers));
}

/* The answer as it came, with its body untouched. */
static void give_untouched(T(own_response_outparam_t) out, T(own_incoming_response_t) response,
                           const char *name) {
    T(own_fields_t) fields = fields_of(response);
    add(fields, "touchstone-body", "next");
    if (name != NULL)
        add(fields, name, "1");
    T(own_outgoing_response_t) answer = T(constructor_outgoing_response)(fields);
    T(method_outgoing_response_set_status_code)(
        T(borrow_outgoing_response)(answer),
        T(method_incoming_response_status)(T(borrow_incoming_response)(response)));
    T(result_own_outgoing_response_error_code_t) result = { .is_err = false, .val = { .ok = answer } };
    T(static_response_outparam_set)(out, &result);
}

static void give_upper(T(own_response_outparam_t) out, T(own_incoming_response_t) response) {
    T(own_incoming_body_t) body;
    T(own_input_stream_t) from;
    answer_t answer = begin(out, T(method_incoming_response_status)(T(borrow_incoming_response)(response)),
                            fields_of(response));
    T(method_incoming_response_consume)(T(borrow_incoming_response)(response), &body);
    T(method_incoming_body_stream)(T(borrow_incoming_body)(body), &from);
    guest_list_u8_t piece;
    wasi_io_streams_stream_error_t error;
    while (wasi_io_streams_method_input_stream_blocking_read(
        wasi_io_streams_borrow_input_stream(from), 65536, &piece, &error)) {
        for (size_t at = 0; at < piece.len; at++)
            if (piece.ptr[at] >= 'a' && piece.ptr[at] <= 'z')
                piece.ptr[at] -= 32;
        write_all(answer.stream, piece.ptr, piece.len);
    }
    wasi_io_streams_input_stream_drop_own(from);
    finish(answer, NULL);
}

static void write_prefixed(T(own_incoming_request_t) request, T(own_outgoing_body_t) to) {
    T(own_output_stream_t) stream;
    T(method_outgoing_body_write)(T(borrow_outgoing_body)(to), &stream);
    write_all(stream, (const uint8_t *)"seen: ", 6);
    T(own_incoming_body_t) body;
    T(method_incoming_request_consume)(T(borrow_incoming_request)(request), &body);
    T(own_fields_t) trailers;
    copy(body, stream, &trailers);
    wasi_io_streams_output_stream_drop_own(stream);
    T(error_code_t) error;
    T(static_outgoing_body_finish)(to, NULL, &error);
}

void exports_wasi_http_incoming_handler_handle(T(own_incoming_request_t) request,
                                               T(own_response_outparam_t) out) {
    T(own_headers_t) headers = T(method_incoming_request_headers)(T(borrow_incoming_request)(request));
    T(own_fields_t) fields = T(method_fields_clone)(T(borrow_fields)(headers));
    guest_string_t token = text("x-token");
    if (is_mode("auth")) {
        if (!T(method_fields_has)(T(borrow_fields)(headers), &token))
            return reply_text(out, 403, "no token\n");
        add(fields, "x-user", "ada");
    }
    bool prefixes = is_mode("prefix");
    if (prefixes) {
        guest_string_t length = text("content-length");
        T(header_error_t) error;
        T(method_fields_delete)(T(borrow_fields)(fields), &length, &error);
    }
    T(own_outgoing_request_t) next = onward(request, fields, is_mode("stray") ? "/files/secret.txt" : NULL);
    T(own_outgoing_body_t) body;
    if (prefixes)
        T(method_outgoing_request_body)(T(borrow_outgoing_request)(next), &body);
    T(own_future_incoming_response_t) future;
    T(own_incoming_response_t) response;
    if (!pass_on(next, &future))
        return reply_text(out, 502, "refused\n");
    if (prefixes)
        write_prefixed(request, body);
    if (!await(future, &response))
        return reply_text(out, 502, "refused\n");
    if (is_mode("upper"))
        give_upper(out, response);
    else
        give_untouched(out, response, is_mode("tag") ? "x-tag" : NULL);
}
