package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.BufferOverflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.coyote.Response;
import org.junit.jupiter.api.Test;

class ResponseHeadTest {

    private final ByteBuffer out = ByteBuffer.allocate(1000).order(ByteOrder.LITTLE_ENDIAN);

    private String lines(Response response) {
        out.clear().position(ResponseHead.PREFIX);
        ResponseHead.write(response, out);
        assertEquals(out.position() - ResponseHead.PREFIX + 1, out.getInt(0));
        return new String(out.array(), ResponseHead.PREFIX, out.position() - ResponseHead.PREFIX,
                StandardCharsets.ISO_8859_1);
    }

    @Test
    void fieldsOfTheConnectionAreLeftOut() {
        Response response = new Response();
        response.setStatus(201);
        for (String name : new String[] {
            "Date", "Server", "Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer"}) {
            response.getMimeHeaders().addValue(name).setString("x");
        }
        response.getMimeHeaders().addValue("Date-Like").setString("y");
        response.setContentLength(12);
        assertEquals("Date-Like: y\r\n", lines(response));
        assertEquals(201, out.getInt(4));
        assertEquals(12, out.getLong(8));
    }

    @Test
    void controlCharactersBecomeSpaces() {
        Response response = new Response();
        response.getMimeHeaders().addValue("A").setString("b\r\nC: d\u0000\u007f\t\u00e4\u4e00");
        assertEquals("A: b  C: d  \t\u00e4?\r\n", lines(response));
    }

    @Test
    void aSwitchNamesItsProtocol() {
        Response response = new Response();
        response.setStatus(101);
        response.getMimeHeaders().addValue("Upgrade").setString("websocket");
        assertEquals("Upgrade: websocket\r\n", lines(response));
        assertEquals(-1, out.getLong(8));
    }

    @Test
    void fieldsThatMayNotStandBehindABodyAreLeftOut() {
        Map<String, String> fields = new LinkedHashMap<>();
        fields.put("Sum", "1\r\n2");
        for (String name : new String[] {"Content-Length", "Set-Cookie", "Connection", "a b", ""}) {
            fields.put(name, "x");
        }
        fields.put("Empty", null);
        ResponseHead.trailers(fields, out);
        assertEquals(
                "Sum: 1  2\r\n", new String(out.array(), 0, out.position(), StandardCharsets.ISO_8859_1));
    }

    @Test
    void fieldsThatDoNotFitAreRefused() {
        Response response = new Response();
        response.getMimeHeaders().addValue("A").setString("b".repeat(1000));
        assertThrows(BufferOverflowException.class, () -> lines(response));
    }
}
