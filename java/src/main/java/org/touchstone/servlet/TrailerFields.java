package org.touchstone.servlet;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Set;
import org.apache.tomcat.util.http.HeaderUtil;
import org.apache.tomcat.util.http.MimeHeaders;
import org.apache.tomcat.util.http.parser.HttpParser;

/** Fields after the body of a request or of an answer (RFC 9110 section 6.5). */
final class TrailerFields {

    /** Further fields of a request are omitted. */
    static final int MOST_FIELDS = 100;

    /**
     * Fields that route, authenticate or change a message, or belong to the connection, are not valid in
     * trailers; Tomcat's own list has those that frame a message or describe its content.
     */
    private static final Set<String> NEVER = Set.of(
            "authorization", "connection", "cookie", "expect", "host", "if-match", "if-modified-since",
            "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "max-forwards",
            "proxy-authenticate", "proxy-authorization", "proxy-connection", "range", "set-cookie", "te",
            "upgrade", "www-authenticate");

    private TrailerFields() {
    }

    /** Whether a field of this name is allowed after a body. */
    static boolean mayBe(String name) {
        return HttpParser.isToken(name) && !HeaderUtil.isHeaderDisallowedInTrailers(name)
                && !NEVER.contains(name.toLowerCase(Locale.ENGLISH));
    }

    /** Reads those of a request from the server's form: lines, each with its CRLF. */
    static void read(byte[] lines, MimeHeaders into) {
        String text = new String(lines, StandardCharsets.ISO_8859_1);
        int at = 0;
        for (int end = text.indexOf("\r\n"); end >= 0 && into.size() < MOST_FIELDS;
                end = text.indexOf("\r\n", at)) {
            int colon = text.indexOf(':', at);
            String name = colon < at || colon > end ? "" : text.substring(at, colon);
            if (mayBe(name)) {
                // Applications get the names in lower case, as the API requires
                // (HttpServletRequest.getTrailerFields).
                into.addValue(name.toLowerCase(Locale.ENGLISH))
                        .setString(text.substring(colon + 1, end).trim());
            }
            at = end + 2;
        }
    }
}
