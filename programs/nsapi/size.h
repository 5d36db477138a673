/*
 * How many bytes the nsapi-send programs answer with: 6,250, the mean response of the WebBench static test, or what
 * the query says (size=N), up to a bound that fits the buffers below.
 */
#ifndef TOUCHSTONE_NSAPI_SEND_SIZE_H
#define TOUCHSTONE_NSAPI_SEND_SIZE_H

#include "nsapi.h"

#define USUAL_BYTES 6250
#define MOST_BYTES 204800

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
