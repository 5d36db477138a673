/*
 * nsapi-send, Version C of report 001: as Version A, without filling the body at all.
 *
 * The report's program sent what happened to be on the stack. That would give the server's memory to anybody,
 * so here head and letters are in memory from the beginning. The head is a fixed text that goes out with the
 * body in one write.
 */
#include "size.h"

#define HEAD "HTTP/1.0 200 OK\r\nContent-type: text/html\r\n\r\n"
#define HEAD_BYTES ((int)sizeof(HEAD) - 1)

static char answer[sizeof(HEAD) + MOST_BYTES];

/* Called when the plug-in is loaded. */
__attribute__((constructor)) static void fill(void)
{
    memset(answer, '?', sizeof(answer));
    memcpy(answer, HEAD, HEAD_BYTES);
}

NSAPI_PUBLIC int nsapi_send_c(pblock *pb, Session *sn, Request *rq)
{
    int size = asked_bytes(rq);

    (void)pb;
    return net_write(sn->csd, answer, HEAD_BYTES + size) == IO_ERROR ? REQ_EXIT : REQ_PROCEED;
}
