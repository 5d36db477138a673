/*
 * nsapi-send, Version B of report 001: as Version A, the letters counted instead of random.
 * The head is a fixed text that goes out with the body in one write.
 */
#include "size.h"

#define HEAD "HTTP/1.0 200 OK\r\nContent-type: text/html\r\n\r\n"
#define HEAD_BYTES ((int)sizeof(HEAD) - 1)

NSAPI_PUBLIC int nsapi_send_b(pblock *pb, Session *sn, Request *rq)
{
    char answer[sizeof(HEAD) + MOST_BYTES];
    int size = asked_bytes(rq);
    int index;

    (void)pb;
    memcpy(answer, HEAD, HEAD_BYTES);
    for (index = HEAD_BYTES; index < HEAD_BYTES + size; index++)
        answer[index] = (char)(index % 26 + 63);
    return net_write(sn->csd, answer, HEAD_BYTES + size) == IO_ERROR ? REQ_EXIT : REQ_PROCEED;
}
