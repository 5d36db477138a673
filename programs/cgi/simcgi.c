/* simcgi: prints the variables that it was started with, as simcgi.exe of WebBench 1.0 does. The names, their
 * order and the last one, which servers no longer set, are those of the sample in Appendix B of report 002.
 */
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
    "SERVER_SOFTWARE", "SERVER_NAME",    "GATEWAY_INTERFACE", "SERVER_PROTOCOL", "SERVER_PORT",
    "REQUEST_METHOD",  "HTTP_ACCEPT",    "HTTP_USER_AGENT",   "HTTP_REFERER",    "PATH_INFO",
    "PATH_TRANSLATED", "SCRIPT_NAME",    "QUERY_STRING",      "REMOTE_HOST",     "REMOTE_ADDR",
    "REMOTE_USER",     "AUTH_TYPE",      "CONTENT_TYPE",      "CONTENT_LENGTH",  "ANNOTATION_SERVER",
};

int main(void) {
  printf("Content-type: text/plain\r\n\r\n");
  for (size_t index = 0; index < sizeof(names) / sizeof(names[0]); index++) {
    const char *value = getenv(names[index]);
    printf("%s = %s\r\n", names[index], value == NULL ? "" : value);
  }
  return fflush(stdout) != 0;
}
