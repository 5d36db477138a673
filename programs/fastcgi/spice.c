/* The SPICE program for FastCGI: the least that a C program can do to answer with 6,250 bytes of HTML.
 *
 * What a request to it costs beyond a file of the same size is the price of the interface: two writes and two
 * reads on a socket, and two processes that wake each other. So it does nothing by itself: the records of the
 * answer are made before the first request and leave in one write; of a request it looks at no more than
 * where it ends.
 *
 * It accepts connections at descriptor 0, as every FastCGI program does, and serves as many as come: a server
 * that keeps its connections need not have a process for each. Requests of one connection are answered one
 * after another.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
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

/* More than this at a time are not accepted. */
enum { CONNECTIONS_MAX = 4096, EVENTS_AT_ONCE = 64 };

/* What is known of a connection, by its descriptor. */
struct connection {
  unsigned skip;                           /* bytes of a record that need not be looked at */
  unsigned char keep;                      /* whether it stays open when the request is answered */
  unsigned char held;                      /* bytes in `start` */
  unsigned char start[HEADER_BYTES + 3];   /* the beginning of a record that has not come whole */
};

static struct connection connections[CONNECTIONS_MAX];
static unsigned char records[RECORDS_BYTES];

static void make_header(unsigned char *at, int type, unsigned length) {
  unsigned char header[HEADER_BYTES] = {VERSION, type, 0, 0, length >> 8, length & 0xff, 0, 0};
  memcpy(at, header, HEADER_BYTES);
}

/* A STDOUT record with the answer, and END_REQUEST, whose body is all zeros: the request is complete. */
static void make_records(void) {
  make_header(records, STDOUT, ANSWER_BYTES);
  memcpy(records + HEADER_BYTES, answer, ANSWER_BYTES);
  make_header(records + HEADER_BYTES + ANSWER_BYTES, END_REQUEST, HEADER_BYTES);
}

static int write_records(int descriptor, unsigned id_high, unsigned id_low) {
  records[2] = records[HEADER_BYTES + ANSWER_BYTES + 2] = id_high;
  records[3] = records[HEADER_BYTES + ANSWER_BYTES + 3] = id_low;
  size_t sent = 0;
  while (sent < RECORDS_BYTES) {
    ssize_t count = send(descriptor, records + sent, RECORDS_BYTES - sent, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return 0;
    if (count > 0) sent += (size_t)count;
  }
  return 1;
}

/* Takes the received bytes of a connection and answers complete requests; 0 when the connection is over. */
static int serve(int descriptor) {
  static unsigned char buffer[1 << 16];
  struct connection *connection = &connections[descriptor];
  memcpy(buffer, connection->start, connection->held);
  ssize_t count = recv(descriptor, buffer + connection->held, sizeof buffer - connection->held, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return 0;
  size_t at = 0, end = connection->held + (size_t)count;
  for (;;) {
    size_t passed = connection->skip < end - at ? connection->skip : end - at;
    at += passed;
    connection->skip -= passed;
    if (connection->skip > 0 || end - at < HEADER_BYTES) break;
    const unsigned char *header = buffer + at;
    if (header[0] != VERSION) return 0;
    unsigned length = (unsigned)header[4] << 8 | header[5];
    /* The flags are the third byte of its content, which is always eight bytes long. */
    if (header[1] == BEGIN_REQUEST) {
      if (end - at < HEADER_BYTES + 3) break;
      connection->keep = header[HEADER_BYTES + 2] & KEEP_CONNECTION;
    }
    connection->skip = length + header[6];
    at += HEADER_BYTES;
    if (header[1] == STDIN && length == 0) {
      if (!write_records(descriptor, header[2], header[3]) || !connection->keep) return 0;
    }
  }
  connection->held = (unsigned char)(end - at);
  memcpy(connection->start, buffer + at, connection->held);
  return 1;
}

/* Accepts a connection, unless another process was faster; 0 when there is no socket to accept from. */
static int begin(int waiting) {
  int descriptor = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC);
  if (descriptor < 0) return errno != EBADF && errno != EINVAL && errno != ENOTSOCK;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
  if (descriptor >= CONNECTIONS_MAX || epoll_ctl(waiting, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    close(descriptor);
    return 1;
  }
  memset(&connections[descriptor], 0, sizeof connections[descriptor]);
  return 1;
}

int main(void) {
  int waiting = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event listening = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = STDIN_FILENO};
  make_records();
  if (waiting < 0 || fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) != 0) return 1;
  if (epoll_ctl(waiting, EPOLL_CTL_ADD, STDIN_FILENO, &listening) != 0) return 1;
  for (;;) {
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(waiting, events, EVENTS_AT_ONCE, -1);
    if (count < 0 && errno != EINTR) return 1;
    for (int index = 0; index < count; index++) {
      int descriptor = events[index].data.fd;
      if (descriptor == STDIN_FILENO) {
        if (!begin(waiting)) return 1;
      } else if (!serve(descriptor)) {
        close(descriptor);
      }
    }
  }
}
