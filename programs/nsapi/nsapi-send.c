/*
 * nsapi-send: the NSAPI program of WebStone 1.1, as report 001 describes it. The head is made with calls of
 * the interface, the body of random letters in memory that is asked for and freed.
 *
 *     Init fn=load-modules shlib=nsapi-send.so funcs=nsapi-send
 *     Service fn=nsapi-send method=(GET|HEAD) type=magnus-internal/dyn-send
 *
 * The three faster versions of the report are nsapi-send-a.c, -b.c and -c.c.
 */
/* Its memory is asked for, so that it can answer all that WebStone asks for. */
#define MOST_BYTES (8 << 20)
#include "size.h"

NSAPI_PUBLIC int nsapi_send(pblock *pb, Session *sn, Request *rq)
{
    int size = asked_bytes(rq);
    int index;
    char *letters;

    (void)pb;
    param_free(pblock_remove("content-type", rq->srvhdrs));
    pblock_nvinsert("content-type", "text/plain", rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    if (protocol_start_response(sn, rq) == REQ_NOACTION)
        return REQ_PROCEED;

    letters = malloc((size_t)size + 1);
    if (letters == NULL)
        return REQ_ABORTED;
    for (index = 0; index < size; index++)
        letters[index] = (char)(rand() % 26 + 63);
    if (net_write(sn->csd, letters, size) == IO_ERROR) {
        free(letters);
        return REQ_EXIT;
    }
    free(letters);
    return REQ_PROCEED;
}
