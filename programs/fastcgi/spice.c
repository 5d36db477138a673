/* The SPICE program for FastCGI: the least that a C program can do to answer with 6,250 bytes of HTML.
 *
 * What a request to it costs beyond a file of the same size is the price of the interface: two writes and two reads on a
 * socket, and two processes that wake each other. So it does nothing by itself: the records of the answer are made before
 * the first request and leave in one write; of a request it looks at no more than where it ends.
 *
 * It accepts connections at descriptor 0, as every FastCGI program does, and serves one at a time. Run several of it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEN(text) text text text text text text text text text text
#define BEGINNING "<!DOCTYPE html>\n<html lang=\"en\"><head><title>SPICE</title></head><body>\n"
#define ENDING "</body></html>\n"
#define LINE "The least program that answers with 6,250 bytes\n"
#define HEAD "Content-Type: text/html\r\nContent-Length: 6250\r\n\r\n"

/* 72 of the beginning, 128 lines of 48, 15 of the ending, and what is missing to 6,250. */
static const char answer[] =
    HEAD BEGINNING TEN(TEN(LINE)) TEN(LINE) TEN(LINE) LINE LINE LINE LINE LINE LINE LINE LINE
    "<p>That is all</p>\n" ENDING;

enum { BODY_BYTES = sizeof(answer) - sizeof(HEAD), ANSWER_BYTES = sizeof(answer) - 1 };
_Static_assert(BODY_BYTES == 6250, "the body is 6,250 bytes");

/* FastCGI Specification 1.0, section 8. */
enum { VERSION = 1, BEGIN_REQUEST = 1, END_REQUEST = 3, STDIN = 5, STDOUT = 6, KEEP_CONNECTION = 1 };
enum { HEADER_BYTES = 8, RECORDS_BYTES = HEADER_BYTES + ANSWER_BYTES + 2 * HEADER_BYTES };

static unsigned char records[RECORDS_BYTES];

static void make_header(unsigned char *at, int type, unsigned length) {
  unsigned char header[HEADER_BYTES] = {VERSION, type, 0, 0, length >> 8, length & 0xff, 0, 0};
  memcpy(at, header, HEADER_BYTES);
}

/* A STDOUT record with the answer, and END_REQUEST, whose body is all zeros: done, and the request complete. */
static void make_records(void) {
  make_header(records, STDOUT, ANSWER_BYTES);
  memcpy(records + HEADER_BYTES, answer, ANSWER_BYTES);
  make_header(records + HEADER_BYTES + ANSWER_BYTES, END_REQUEST, HEADER_BYTES);
}

static int write_records(int connection, unsigned id_high, unsigned id_low) {
  records[2] = records[HEADER_BYTES + ANSWER_BYTES + 2] = id_high;
  records[3] = records[HEADER_BYTES + ANSWER_BYTES + 3] = id_low;
  size_t sent = 0;
  while (sent < RECORDS_BYTES) {
    ssize_t count = send(connection, records + sent, RECORDS_BYTES - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return 0;
    if (count > 0) sent += (size_t)count;
  }
  return 1;
}

/* Serves requests until the connection ends, or is not to be kept. */
static void serve(int connection) {
  static unsigned char buffer[1 << 16];
  size_t held = 0, skip = 0;
  int keep = 0;
  for (;;) {
    ssize_t count = recv(connection, buffer + held, sizeof buffer - held, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    held += (size_t)count;
    size_t at = 0;
    for (;;) {
      size_t passed = skip < held - at ? skip : held - at;
      at += passed;
      skip -= passed;
      if (skip > 0 || held - at < HEADER_BYTES) break;
      const unsigned char *header = buffer + at;
      if (header[0] != VERSION) return;
      size_t length = (size_t)header[4] << 8 | header[5];
      /* The flags are the third byte of its content, which is always eight bytes long. */
      if (header[1] == BEGIN_REQUEST) {
        if (held - at < HEADER_BYTES + 3) break;
        keep = header[HEADER_BYTES + 2] & KEEP_CONNECTION;
      }
      skip = length + header[6];
      at += HEADER_BYTES;
      if (header[1] == STDIN && length == 0) {
        if (!write_records(connection, header[2], header[3]) || !keep) return;
      }
    }
    held -= at;
    memmove(buffer, buffer + at, held);
  }
}

int main(void) {
  make_records();
  for (;;) {
    int connection = accept(STDIN_FILENO, NULL, NULL);
    if (connection >= 0) {
      serve(connection);
      close(connection);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return 1;
    }
  }
}
