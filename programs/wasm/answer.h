/* What the components have in common: answers, and bodies in pieces. */

#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define T(name) wasi_http_types_##name
#define PIECE 4096

static guest_string_t text(const char *chars) {
    guest_string_t string;
    guest_string_set(&string, chars);
    return string;
}

static bool write_all(T(own_output_stream_t) stream, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        size_t piece = length < PIECE ? length : PIECE;
        guest_list_u8_t list = { (uint8_t *)bytes, piece };
        wasi_io_streams_stream_error_t error;
        if (!wasi_io_streams_method_output_stream_blocking_write_and_flush(
                wasi_io_streams_borrow_output_stream(stream), &list, &error))
            return false;
        bytes += piece;
        length -= piece;
    }
    return true;
}

static bool add(T(own_fields_t) fields, const char *name, const char *value) {
    guest_string_t key = text(name);
    T(field_value_t) bytes = { (uint8_t *)value, strlen(value) };
    T(header_error_t) error;
    return T(method_fields_append)(T(borrow_fields)(fields), &key, &bytes, &error);
}

typedef struct {
    T(own_outgoing_body_t) body;
    T(own_output_stream_t) stream;
} answer_t;

/* Sends the head of an answer and opens its body. */
static answer_t begin(T(own_response_outparam_t) out, uint16_t status, T(own_fields_t) fields) {
    answer_t answer;
    T(own_outgoing_response_t) response = T(constructor_outgoing_response)(fields);
    T(method_outgoing_response_set_status_code)(T(borrow_outgoing_response)(response), status);
    T(method_outgoing_response_body)(T(borrow_outgoing_response)(response), &answer.body);
    T(method_outgoing_body_write)(T(borrow_outgoing_body)(answer.body), &answer.stream);
    T(result_own_outgoing_response_error_code_t) result = { .is_err = false, .val = { .ok = response } };
    T(static_response_outparam_set)(out, &result);
    return answer;
}

static void finish(answer_t answer, T(own_fields_t) *trailers) {
    wasi_io_streams_output_stream_drop_own(answer.stream);
    T(error_code_t) error;
    T(static_outgoing_body_finish)(answer.body, trailers, &error);
}

static void reply(T(own_response_outparam_t) out, uint16_t status, const uint8_t *bytes, size_t length) {
    T(own_fields_t) fields = T(constructor_fields)();
    add(fields, "content-type", "text/plain");
    answer_t answer = begin(out, status, fields);
    write_all(answer.stream, bytes, length);
    finish(answer, NULL);
}

static void reply_text(T(own_response_outparam_t) out, uint16_t status, const char *chars) {
    reply(out, status, (const uint8_t *)chars, strlen(chars));
}

/* Passes a body on in pieces. Takes its trailers, if there are some. */
static bool copy(T(own_incoming_body_t) body, T(own_output_stream_t) to, T(own_fields_t) *trailers) {
    T(own_input_stream_t) from;
    T(method_incoming_body_stream)(T(borrow_incoming_body)(body), &from);
    guest_list_u8_t piece;
    wasi_io_streams_stream_error_t error;
    while (wasi_io_streams_method_input_stream_blocking_read(
        wasi_io_streams_borrow_input_stream(from), 65536, &piece, &error)) {
        bool written = write_all(to, piece.ptr, piece.len);
        guest_list_u8_free(&piece);
        if (!written)
            break;
    }
    wasi_io_streams_input_stream_drop_own(from);
    T(own_future_trailers_t) future = T(static_incoming_body_finish)(body);
    T(own_pollable_t) ready = T(method_future_trailers_subscribe)(T(borrow_future_trailers)(future));
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    T(result_result_option_own_trailers_error_code_void_t) result;
    bool has = T(method_future_trailers_get)(T(borrow_future_trailers)(future), &result) && !result.is_err &&
               !result.val.ok.is_err && result.val.ok.val.ok.is_some;
    if (has)
        *trailers = result.val.ok.val.ok.val;
    return has;
}

