package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.tomcat.util.http.MimeHeaders;
import org.junit.jupiter.api.Test;

class TrailerFieldsTest {

    private static MimeHeaders read(String lines) {
        MimeHeaders fields = new MimeHeaders();
        TrailerFields.read(lines.getBytes(StandardCharsets.ISO_8859_1), fields);
        return fields;
    }

    @Test
    void whatFramesOrRoutesAMessageMeansNothingBehindIt() {
        String lines = "Sum: 1\r\nHost: b\r\nempty:\r\nTransfer-Encoding: chunked\r\nAuthorization: x\r\n";
        assertEquals(Map.of("sum", "1", "empty", ""), read(lines).toMap());
        assertEquals(0, read("").size());
        assertEquals(0, read("no colon\r\n: x\r\nsum: cut off").size());
    }

    @Test
    void thereIsAnEndToThem() {
        assertEquals(TrailerFields.MOST_FIELDS, read("a: b\r\n".repeat(1000)).size());
    }
}
