/* A small application over FastCGI, for suites that ask a program for more than one thing. It stays, serves
 * as many connections as come, and keeps nothing between two requests, so that its processes answer alike.
 *
 *     GET  /application/items/N        a thing, as JSON                       (512 bytes)
 *     GET  /application/items?page=N   twenty things, as JSON                 (4,096 bytes)
 *     POST /application/items          201, and the name of the new thing     (64 bytes); reads all the body
 *     GET  /application/send?size=N    N letters, 10,240 where none is asked  (at most 8 MiB)
 *
 * Of the parameters it looks at REQUEST_METHOD and REQUEST_URI alone. Like every FastCGI program it accepts
 * connections at descriptor 0. Records are those of the FastCGI specification 1.0, section 3.3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VERSION = 1, BEGIN_REQUEST = 1, END_REQUEST = 3, PARAMS = 4, STDIN = 5, STDOUT = 6 };
enum { KEEP_CONNECTION = 1 };
enum { HEADER_BYTES = 8, RECORD_BYTES = 65528, CONNECTIONS_MAX = 65536, EVENTS_AT_ONCE = 64 };
enum { PARAMS_MAX = 64 << 10, INPUT_BYTES = 128 << 10, USUAL_BYTES = 10240, MOST_BYTES = 8 << 20 };

/* What is known of a connection: what has come and is not whole, and the active request. */
struct connection {
  unsigned char *input;
  size_t held;
  unsigned char *params;
  size_t params_bytes;
  unsigned char id_high, id_low, keep;
};

static struct connection connections[CONNECTIONS_MAX];

/* An answer while it is written: head and body, and the records of both. */
static char answer[MOST_BYTES + 4096];
static unsigned char records[MOST_BYTES + 4096 + (MOST_BYTES / RECORD_BYTES + 4) * HEADER_BYTES];

/* The length of a name or a value (section 3.4); SIZE_MAX where the parameters end in it. */
static size_t length_at(const unsigned char *params, size_t bytes, size_t *at) {
  if (*at >= bytes) return SIZE_MAX;
  if (params[*at] < 0x80) return params[(*at)++];
  if (bytes - *at < 4) return SIZE_MAX;
  size_t length = (size_t)(params[*at] & 0x7f) << 24 | (size_t)params[*at + 1] << 16 |
                  (size_t)params[*at + 2] << 8 | params[*at + 3];
  *at += 4;
  return length;
}

/* Copies the value of a parameter, cut to fit; empty where there is none. */
static void parameter(const struct connection *connection, const char *name, char *value, size_t room) {
  const unsigned char *params = connection->params;
  size_t at = 0, bytes = connection->params_bytes;
  value[0] = 0;
  while (at < bytes) {
    size_t name_bytes = length_at(params, bytes, &at), value_bytes = length_at(params, bytes, &at);
    if (name_bytes == SIZE_MAX || value_bytes == SIZE_MAX) return;
    if (name_bytes > bytes - at || value_bytes > bytes - at - name_bytes) return;
    if (name_bytes == strlen(name) && memcmp(params + at, name, name_bytes) == 0) {
      size_t copied = value_bytes < room - 1 ? value_bytes : room - 1;
      memcpy(value, params + at + name_bytes, copied);
      value[copied] = 0;
      return;
    }
    at += name_bytes + value_bytes;
  }
}

/* A thing as JSON, with spaces behind it, which JSON allows, up to so many bytes; gives back how many. */
static size_t thing(char *out, unsigned long number, size_t bytes) {
  int length = snprintf(out, bytes,
                        "{\"id\":%lu,\"name\":\"thing %lu\",\"price\":%lu.%02lu,\"stock\":%lu,"
                        "\"tags\":[\"small\",\"made here\"]}",
                        number, number, number % 997, number % 100, number * 7 % 50);
  memset(out + length, ' ', bytes - (size_t)length);
  return bytes;
}

static size_t json(char *out, const char *status, size_t bytes) {
  return (size_t)sprintf(out, "%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
                         bytes);
}

/* Twenty things in a list of 4,096 bytes. */
static size_t page_of_things(char *out, unsigned long page) {
  size_t at = 0;
  out[at++] = '[';
  for (unsigned long index = 0; index < 20; index++) {
    if (index > 0) out[at++] = ',';
    at += thing(out + at, page * 20 + index, 200);
  }
  memset(out + at, ' ', 4095 - at);
  out[4095] = ']';
  return 4096;
}

static size_t letters(char *out, const char *query) {
  long asked = strncmp(query, "size=", 5) == 0 ? strtol(query + 5, NULL, 10) : USUAL_BYTES;
  size_t size = asked < 0 ? 0 : asked > MOST_BYTES ? MOST_BYTES : (size_t)asked;
  size_t head = (size_t)sprintf(out, "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", size);
  for (size_t index = 0; index < size; index++) out[head + index] = (char)(index % 26 + 63);
  return head + size;
}

/* Makes the answer of a request; gives back its bytes. */
static size_t respond(const struct connection *connection) {
  char method[16], uri[1024];
  parameter(connection, "REQUEST_METHOD", method, sizeof method);
  parameter(connection, "REQUEST_URI", uri, sizeof uri);
  char *query = strchr(uri, '?');
  if (query != NULL) *query++ = 0;
  static const char items[] = "/application/items", one[] = "/application/items/";
  static const char send_path[] = "/application/send";
  if (strcmp(uri, send_path) == 0) return letters(answer, query == NULL ? "" : query);
  if (strcmp(uri, items) == 0 && strcmp(method, "POST") == 0) {
    size_t head = json(answer, "Status: 201 Created\r\n", 64);
    return head + (size_t)snprintf(answer + head, 65, "%-64s", "{\"id\":1,\"made\":true}");
  }
  if (strcmp(uri, items) == 0) {
    size_t head = json(answer, "", 4096);
    int has_page = query != NULL && strncmp(query, "page=", 5) == 0;
    return head + page_of_things(answer + head, has_page ? strtoul(query + 5, NULL, 10) % 1000000 : 0);
  }
  if (strncmp(uri, one, sizeof(one) - 1) == 0) {
    size_t head = json(answer, "", 512);
    return head + thing(answer + head, strtoul(uri + sizeof(one) - 1, NULL, 10) % 1000000, 512);
  }
  return json(answer, "Status: 404 Not Found\r\n", 0);
}

static size_t record(unsigned char *out, const struct connection *connection, int type, const void *content,
                     size_t bytes) {
  unsigned char header[HEADER_BYTES] = {VERSION, (unsigned char)type, connection->id_high, connection->id_low,
                                        (unsigned char)(bytes >> 8), (unsigned char)bytes, 0, 0};
  memcpy(out, header, HEADER_BYTES);
  if (bytes > 0) memcpy(out + HEADER_BYTES, content, bytes);
  return HEADER_BYTES + bytes;
}

/* Sends all bytes, and waits while the other side takes none; 0 when the connection is over. */
static int send_all(int descriptor, const unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return 0;
    if (sent > 0) bytes += sent, count -= (size_t)sent;
  }
  return 1;
}

static int answer_request(int descriptor, const struct connection *connection) {
  static const unsigned char ended[8] = {0};
  size_t bytes = respond(connection), at = 0;
  for (size_t done = 0; done < bytes;) {
    size_t part = bytes - done < RECORD_BYTES ? bytes - done : RECORD_BYTES;
    at += record(records + at, connection, STDOUT, answer + done, part);
    done += part;
  }
  at += record(records + at, connection, STDOUT, NULL, 0);
  at += record(records + at, connection, END_REQUEST, ended, sizeof ended);
  return send_all(descriptor, records, at) && connection->keep;
}

/* One whole record; 0 when the connection is over. */
static int take(int descriptor, struct connection *connection, const unsigned char *header, size_t bytes) {
  const unsigned char *content = header + HEADER_BYTES;
  switch (header[1]) {
  case BEGIN_REQUEST:
    if (bytes < 8) return 0;
    connection->id_high = header[2];
    connection->id_low = header[3];
    connection->keep = content[2] & KEEP_CONNECTION;
    connection->params_bytes = 0;
    return 1;
  case PARAMS:
    if (bytes > PARAMS_MAX - connection->params_bytes) return 0;
    memcpy(connection->params + connection->params_bytes, content, bytes);
    connection->params_bytes += bytes;
    return 1;
  case STDIN:
    return bytes > 0 || answer_request(descriptor, connection);
  default:
    return 1;
  }
}

/* Takes what has come on a connection; 0 when it is over. */
static int serve(int descriptor) {
  struct connection *connection = &connections[descriptor];
  unsigned char *input = connection->input;
  ssize_t count = recv(descriptor, input + connection->held, INPUT_BYTES - connection->held, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return 0;
  size_t at = 0, end = connection->held + (size_t)count;
  while (end - at >= HEADER_BYTES) {
    const unsigned char *header = input + at;
    if (header[0] != VERSION) return 0;
    size_t bytes = (size_t)header[4] << 8 | header[5], whole = HEADER_BYTES + bytes + header[6];
    if (end - at < whole) break;
    if (!take(descriptor, connection, header, bytes)) return 0;
    at += whole;
  }
  connection->held = end - at;
  memmove(input, input + at, connection->held);
  return 1;
}

static void end(int descriptor) {
  free(connections[descriptor].input);
  free(connections[descriptor].params);
  memset(&connections[descriptor], 0, sizeof connections[descriptor]);
  close(descriptor);
}

/* Accepts a connection, unless another process was faster; 0 when there is no socket to accept from. */
static int begin(int waiting) {
  int descriptor = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC);
  if (descriptor < 0) return errno != EBADF && errno != EINVAL && errno != ENOTSOCK;
  if (descriptor >= CONNECTIONS_MAX) {
    close(descriptor);
    return 1;
  }
  struct connection *connection = &connections[descriptor];
  connection->input = malloc(INPUT_BYTES);
  connection->params = malloc(PARAMS_MAX);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
  if (connection->input == NULL || connection->params == NULL ||
      epoll_ctl(waiting, EPOLL_CTL_ADD, descriptor, &event) != 0)
    end(descriptor);
  return 1;
}

int main(void) {
  int waiting = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event listening = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = STDIN_FILENO};
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
        end(descriptor);
      }
    }
  }
}
