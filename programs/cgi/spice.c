/* The SPICE program for CGI: the least that a C program can do to answer with 6,250 bytes of HTML.
 *
 * What a request to it costs beyond a file of the same size is the price of the interface: making a process,
 * executing a file, reading a pipe. So it does nothing by itself: head and body are made when it is compiled,
 * and leave in one write.
 */
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

enum { BODY_BYTES = sizeof(answer) - sizeof(HEAD) };
_Static_assert(BODY_BYTES == 6250, "the body is 6,250 bytes");

int main(void) {
  return write(STDOUT_FILENO, answer, sizeof(answer) - 1) != (ssize_t)(sizeof(answer) - 1);
}
