/* cgi-send: answers with as many random letters as the query asks for, `?size=N`, as the CGI program of
 * WebStone does; 10,240 if it asks for none. The letters are those of the original, from '?' to 'X', drawn
 * one by one, and written at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "Content-type: text/plain\r\n\r\n"

enum { USUAL_BYTES = 10240, MOST_BYTES = 8 << 20 };

static long asked_bytes(void) {
  const char *query = getenv("QUERY_STRING");
  if (query == NULL || strncmp(query, "size=", 5) != 0) return USUAL_BYTES;
  long asked = strtol(query + 5, NULL, 10);
  if (asked < 0) return 0;
  return asked > MOST_BYTES ? MOST_BYTES : asked;
}

int main(void) {
  size_t size = (size_t)asked_bytes(), head = sizeof(HEAD) - 1;
  char *answer = malloc(head + size);
  if (answer == NULL) return 1;
  memcpy(answer, HEAD, head);
  for (size_t index = 0; index < size; index++) answer[head + index] = (char)(rand() % 26 + 63);
  return fwrite(answer, 1, head + size, stdout) != head + size || fflush(stdout) != 0;
}
