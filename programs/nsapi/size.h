/*
 * How many bytes the nsapi-send programs answer with: 6,250, the mean response of the WebBench static test,
 * or what the query says (size=N), up to a bound that fits the buffers of the program. Those on the stack
 * have the 204,800 bytes of the original; it did not look at the bound, and filelist.dynamic-heavy of
 * WebStone 2 asks for more.
 */
#ifndef TOUCHSTONE_NSAPI_SEND_SIZE_H
#define TOUCHSTONE_NSAPI_SEND_SIZE_H

#include "nsapi.h"

#define USUAL_BYTES 6250
#ifndef MOST_BYTES
#define MOST_BYTES 204800
#endif

static int asked_bytes(Request *rq)
{
    const char *query = pblock_findval("query", rq->reqpb);
    long asked;

    if (query == NULL || strncmp(query, "size=", 5) != 0)
        return USUAL_BYTES;
    asked = strtol(query + 5, NULL, 10);
    if (asked < 0)
        return 0;
    return asked > MOST_BYTES ? MOST_BYTES : (int)asked;
}

#endif
