/* A FastCGI program as others write them, with the library of the specification's authors (libfcgi).
 *
 * The query chooses what it does: print its variables, the body as it came, so many bytes, a message to the
 * operator, ... */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcgi_stdio.h>

extern char **environ;

static int asks_for(const char *query, const char *name) {
  return strncmp(query, name, strlen(name)) == 0;
}

static long number(const char *query) {
  const char *equals = strchr(query, '=');
  return equals ? atol(equals + 1) : 0;
}

static void copy_body(void) {
  char buffer[16384];
  size_t count;
  while ((count = fread(buffer, 1, sizeof buffer, stdin)) > 0) fwrite(buffer, 1, count, stdout);
}

static void print_bytes(long length) {
  for (long at = 0; at < length; at++) putchar('a' + at % 26);
}

int main(void) {
  while (FCGI_Accept() >= 0) {
    const char *query = getenv("QUERY_STRING");
    if (query == NULL) query = "";
    if (asks_for(query, "body")) {
      printf("Content-Type: application/octet-stream\r\n\r\n");
      copy_body();
    } else if (asks_for(query, "bytes=")) {
      printf("Content-Type: text/plain\r\n\r\n");
      print_bytes(number(query));
    } else if (asks_for(query, "status=")) {
      printf("Status: %ld Chosen\r\nContent-Type: text/plain\r\n\r\nchosen\n", number(query));
    } else if (asks_for(query, "message")) {
      fprintf(stderr, "first line\nsecond line\n");
      printf("Content-Type: text/plain\r\n\r\nsaid\n");
    } else if (asks_for(query, "sleep=")) {
      usleep((useconds_t)number(query) * 1000);
      printf("Content-Type: text/plain\r\n\r\nslept\n");
    } else if (asks_for(query, "rubbish")) {
      printf("this is no header\n");
    } else if (asks_for(query, "nothing")) {
      /* Not a byte. */
    } else if (asks_for(query, "short")) {
      printf("Content-Type: text/plain\r\nContent-Length: 100\r\n\r\nshort\n");
    } else if (asks_for(query, "long")) {
      printf("Content-Type: text/plain\r\nContent-Length: 8\r\n\r\n0123456789");
      if (asks_for(query, "long=flush")) fflush(stdout);
    } else if (asks_for(query, "head=")) {
      printf("Content-Type: text/plain\r\n%s\r\n",
             asks_for(query, "head=named") ? "Content-Length: 42\r\n" : "");
    } else if (asks_for(query, "stop")) {
      printf("Content-Type: text/plain\r\nContent-Length: 100000\r\n\r\n");
      print_bytes(50000);
      fflush(stdout);
      _exit(1);
    } else if (asks_for(query, "exit")) {
      _exit(1);
    } else if (asks_for(query, "redirect")) {
      printf("Location: /?status=201\r\n\r\n");
    } else if (asks_for(query, "pid")) {
      printf("Content-Type: text/plain\r\n\r\n%d\n", (int)getpid());
    } else {
      printf("Content-Type: text/plain\r\n\r\n");
      for (char **variable = environ; *variable; variable++) printf("%s\n", *variable);
    }
  }
  return 0;
}
