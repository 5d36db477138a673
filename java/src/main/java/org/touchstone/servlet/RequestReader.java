package org.touchstone.servlet;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import org.apache.coyote.Request;
import org.apache.tomcat.util.buf.ByteChunk;
import org.apache.tomcat.util.buf.MessageBytes;
import org.apache.tomcat.util.http.MimeHeaders;

/**
 * Reads a request in the form of the server: numbers, then texts, then header fields.
 *
 * <p>It is copied to the heap once; Tomcat then uses slices of that copy. {@code crates/servlet/src/flat.rs}
 * writes this form; the writer is the same process or its parent, so it is not checked again.
 */
final class RequestReader {

    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    static final int IS_SECURE = 1;
    static final int EXPECTS_CONTINUE = 2;
    static final int HAS_BODY = 4;
    static final int MAY_SWITCH = 8;
    static final int IS_HEAD = 16;

    /** The offset of the texts. */
    private static final int TEXTS = 52;

    private byte[] bytes = new byte[4096];
    private int at;
    private final Recurring client = new Recurring();
    private final Recurring server = new Recurring();
    /** The name of the address in {@link #server}. */
    private LocalName localName = LocalName.NONE;

    /** The number of the request, which distinguishes it from others in the same slab. */
    int number;
    /** The number of the connection, and the identifier of the stream; negative: there are no streams. */
    long connection;
    long stream;
    /** The offset in the copy of the request's path, as it was sent. */
    int pathStart;
    int pathLength;
    /** The facts about the TLS session; null: none. */
    String tlsVersion;
    String cipherSuite;
    int keyBits;
    String clientSubject;

    /** The copy, for callers that read the path. */
    byte[] bytes() {
        return bytes;
    }

    /** Fills a request; returns its flags. */
    int read(ByteBuffer from, int length, Request request) {
        if (bytes.length < length) {
            bytes = new byte[length];
        }
        from.get(0, bytes, 0, length);
        int flags = (int) INT.get(bytes, 0);
        int fields = (int) INT.get(bytes, 4);
        request.setServerPort((int) INT.get(bytes, 8));
        request.setRemotePort((int) INT.get(bytes, 12));
        request.setLocalPort((int) INT.get(bytes, 16));
        keyBits = (int) INT.get(bytes, 20);
        long bodyLength = (long) LONG.get(bytes, 24);
        number = (int) INT.get(bytes, 32);
        connection = (long) LONG.get(bytes, 36);
        stream = (long) LONG.get(bytes, 44);
        at = TEXTS;

        int methodLength = (int) INT.get(bytes, at);
        request.setMethod(bytes, at + 4, methodLength);
        at += 4 + methodLength;
        pathLength = (int) INT.get(bytes, at);
        pathStart = at + 4;
        text(request.requestURI());
        text(request.queryString());
        text(request.protocol());
        text(request.serverName());
        text(request.remoteAddr());
        text(request.localAddr());
        text(request.getRemoteUser());
        tlsVersion = string();
        cipherSuite = string();
        clientSubject = string();

        boolean isSecure = (flags & IS_SECURE) != 0;
        request.scheme().setString(isSecure ? "https" : "http");
        String clientText = client.of(request.remoteAddr().getByteChunk());
        request.peerAddr().setString(clientText);
        request.remoteHost().setString(clientText);
        String serverText = server.of(request.localAddr().getByteChunk());
        if (!localName.isOf(serverText)) {
            localName = LocalName.of(serverText);
        }
        request.localName().setString(localName.text());
        request.setContentLength(bodyLength);
        request.setExpectation((flags & EXPECTS_CONTINUE) != 0);

        MimeHeaders headers = request.getMimeHeaders();
        for (int field = 0; field < fields; field++) {
            int nameLength = (int) INT.get(bytes, at);
            MessageBytes value = headers.addValue(bytes, at + 4, nameLength);
            at += 4 + nameLength;
            text(value);
        }
        if (!request.getRemoteUser().isNull()) {
            MessageBytes authorization = headers.getValue("authorization");
            boolean isBasic = authorization != null && authorization.startsWithIgnoreCase("basic ", 0);
            request.getAuthType().setString(isBasic ? "BASIC" : "BEARER");
        }
        return flags;
    }

    /** The certificates of the client, its own first; null: none. They follow the fields. */
    X509Certificate[] certificates() throws CertificateException {
        int next = at + 4;
        X509Certificate[] chain = new X509Certificate[(int) INT.get(bytes, at)];
        if (chain.length == 0) {
            return null;
        }
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (int index = 0; index < chain.length; index++) {
            int length = (int) INT.get(bytes, next);
            InputStream der = new ByteArrayInputStream(bytes, next + 4, length);
            chain[index] = (X509Certificate) factory.generateCertificate(der);
            next += 4 + length;
        }
        return chain;
    }

    /** A text that is usually the same as in the previous request. */
    private static final class Recurring {
        private byte[] bytes = new byte[0];
        private String text = "";

        String of(ByteChunk chunk) {
            int start = chunk.getStart();
            if (!Arrays.equals(bytes, 0, bytes.length, chunk.getBuffer(), start, chunk.getEnd())) {
                bytes = Arrays.copyOfRange(chunk.getBuffer(), start, chunk.getEnd());
                text = new String(bytes, StandardCharsets.ISO_8859_1);
            }
            return text;
        }
    }

    private void text(MessageBytes into) {
        int length = (int) INT.get(bytes, at);
        at += 4;
        if (length >= 0) {
            into.setBytes(bytes, at, length);
            at += length;
        }
    }

    private String string() {
        int length = (int) INT.get(bytes, at);
        at += 4;
        if (length < 0) {
            return null;
        }
        String text = new String(bytes, at, length, StandardCharsets.UTF_8);
        at += length;
        return text;
    }
}
