package org.touchstone.servlet;

import java.nio.BufferOverflowException;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.coyote.Response;
import org.apache.tomcat.util.buf.ByteChunk;
import org.apache.tomcat.util.buf.MessageBytes;
import org.apache.tomcat.util.http.MimeHeaders;

/**
 * Writes the head of an answer to the slab: the length of the field lines, the status, the length of the
 * body; free space, in which the server can write a whole head before the body; then the lines as they are
 * sent.
 *
 * <p>The server writes the fields of the connection: the framing of the body, the date, and whether the
 * connection stays open.
 */
final class ResponseHead {

    /**
     * The bytes before the field lines: the numbers and the free space. {@code head.rs} has the same value.
     */
    static final int PREFIX = 512;

    private ResponseHead() {
    }

    /**
     * The buffer is positioned where the lines begin, and afterwards where the body begins. Returns the
     * length of the body, or -1 if it is unknown.
     */
    static long write(Response response, ByteBuffer out) {
        int status = response.getStatus();
        boolean hasBody = status >= 200 && status != 204 && status != 205 && status != 304;
        boolean hasTrailers = response.getTrailerFields() != null;
        // Trailers need a framing that marks the end of the body (RFC 9112 section 7.1.2).
        long length = hasTrailers ? -1 : response.getContentLengthLong();
        MimeHeaders headers = response.getMimeHeaders();
        int start = out.position();
        if (hasBody || status == 304) {
            String type = response.getContentType();
            if (type != null) {
                line(out, "Content-Type", type);
            }
            String language = response.getContentLanguage();
            if (language != null) {
                line(out, "Content-Language", language);
            }
        }
        int count = headers.size();
        for (int index = 0; index < count; index++) {
            MessageBytes name = headers.getName(index);
            MessageBytes value = headers.getValue(index);
            if (isConnections(name, status) && !(hasTrailers && name.equalsIgnoreCase("Trailer"))) {
                if (length < 0 && !hasTrailers && name.equalsIgnoreCase("Content-Length")) {
                    length = parse(value);
                }
                continue;
            }
            line(out, name, value);
        }
        // Zero means that this piece has no head.
        out.putInt(0, out.position() - start + 1);
        out.putInt(4, status);
        long known = hasBody || status == 304 ? length : -1;
        out.putLong(8, known);
        return known;
    }

    /** The fields so far, for an interim response before the head. */
    static void hints(Response response, ByteBuffer out) {
        MimeHeaders headers = response.getMimeHeaders();
        int count = headers.size();
        for (int index = 0; index < count; index++) {
            if (!isConnections(headers.getName(index), 103)) {
                line(out, headers.getName(index), headers.getValue(index));
            }
        }
    }

    /** Writes trailers, without fields that are not allowed there. */
    static void trailers(Map<String, String> fields, ByteBuffer out) {
        fields.forEach((name, value) -> {
            if (value != null && TrailerFields.mayBe(name)) {
                line(out, name, value);
            }
        });
    }

    private static boolean isConnections(MessageBytes name, int status) {
        // There are few names and their lengths differ, so all other names need no comparison.
        switch (name.getLength()) {
            case 4:
                return name.equalsIgnoreCase("Date");
            case 6:
                return name.equalsIgnoreCase("Server");
            case 7:
                // An answer that switches protocols must name the new one (RFC 9110 section 7.8).
                return status != 101 && name.equalsIgnoreCase("Upgrade") || name.equalsIgnoreCase("Trailer");
            case 10:
                return name.equalsIgnoreCase("Connection") || name.equalsIgnoreCase("Keep-Alive");
            case 12:
                // Written above.
                return name.equalsIgnoreCase("Content-Type");
            case 14:
                return name.equalsIgnoreCase("Content-Length");
            case 16:
                return name.equalsIgnoreCase("Content-Language");
            case 17:
                return name.equalsIgnoreCase("Transfer-Encoding");
            default:
                return false;
        }
    }

    private static long parse(MessageBytes value) {
        try {
            return Long.parseLong(value.toString().trim());
        } catch (NumberFormatException exception) {
            return -1;
        }
    }

    private static void line(ByteBuffer out, MessageBytes name, MessageBytes value) {
        put(out, name);
        out.put((byte) ':').put((byte) ' ');
        put(out, value);
        out.put((byte) '\r').put((byte) '\n');
    }

    private static void line(ByteBuffer out, String name, String value) {
        put(out, name);
        out.put((byte) ':').put((byte) ' ');
        put(out, value);
        out.put((byte) '\r').put((byte) '\n');
    }

    private static void put(ByteBuffer out, MessageBytes text) {
        if (text.getType() == MessageBytes.T_BYTES) {
            ByteChunk chunk = text.getByteChunk();
            byte[] bytes = chunk.getBuffer();
            for (int at = chunk.getStart(); at < chunk.getEnd(); at++) {
                out.put(clean(bytes[at]));
            }
        } else {
            put(out, text.toString());
        }
    }

    private static void put(ByteBuffer out, String text) {
        if (text == null) {
            return;
        }
        int length = text.length();
        if (out.remaining() < length + 64) {
            throw new BufferOverflowException();
        }
        for (int at = 0; at < length; at++) {
            char letter = text.charAt(at);
            out.put(letter > 0xFF ? (byte) '?' : clean((byte) letter));
        }
    }

    /** Control characters become spaces, as with Tomcat's own connector. */
    private static byte clean(byte letter) {
        return letter >= 0 && letter < 0x20 && letter != '\t' || letter == 0x7F ? (byte) ' ' : letter;
    }
}
