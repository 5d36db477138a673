"""The SPICE program for WSGI: the least that Python can do to answer with 6,250 bytes of HTML.

What a request to it costs beyond a file of the same size is the price of the interface: the dictionary of the
request, the call, the header fields and the body of the answer. So it does nothing by itself: head and body are
made when it is loaded.
"""

BODY = (
    b'<!DOCTYPE html>\n<html lang="en"><head><title>SPICE</title></head><body>\n'
    + b"The least program that answers with 6,250 bytes\n" * 128
    + b"<p>That is all</p>\n</body></html>\n"
)
assert len(BODY) == 6250

FIELDS = [("Content-Type", "text/html"), ("Content-Length", "6250")]
PIECES = [BODY]


def application(environ, start_response):
    start_response("200 OK", FIELDS)
    return PIECES
