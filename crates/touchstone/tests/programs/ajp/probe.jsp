<%-- What the tests of AJP ask a servlet container for; `do` says what. --%>
<%@ page contentType="text/plain; charset=utf-8" trimDirectiveWhitespaces="true" session="false"
    import="java.io.*,java.security.*,java.util.*" %><%!
    static byte[] pattern(int length) {
        byte[] bytes = new byte[length];
        for (int index = 0; index < length; index++) bytes[index] = (byte) (index % 251);
        return bytes;
    }
%><%
String what = request.getParameter("do");
if (what == null) what = "info";
if (what.equals("info")) {
    out.println("method=" + request.getMethod());
    out.println("uri=" + request.getRequestURI());
    out.println("url=" + request.getRequestURL());
    out.println("path=" + request.getServletPath());
    out.println("query=" + request.getQueryString());
    out.println("protocol=" + request.getProtocol());
    out.println("remote_addr=" + request.getRemoteAddr());
    out.println("remote_port=" + request.getRemotePort());
    out.println("local_addr=" + request.getLocalAddr());
    out.println("server=" + request.getServerName() + ":" + request.getServerPort());
    out.println("secure=" + request.isSecure() + " " + request.getScheme());
    out.println("user=" + request.getRemoteUser() + " " + request.getAuthType());
    out.println("length=" + request.getContentLengthLong());
    for (String name : Collections.list(request.getHeaderNames()))
        for (String value : Collections.list(request.getHeaders(name)))
            out.println("header " + name.toLowerCase(Locale.ROOT) + "=" + value);
    // Those of the connection are not among getAttributeNames.
    for (String name : List.of("org.example.site", "org.example.smuggled", "AJP_REMOTE_PORT", "AJP_LOCAL_ADDR",
        "jakarta.servlet.include.request_uri", "javax.servlet.include.request_uri", "secret", "remote_user"))
        if (request.getAttribute(name) != null)
            out.println("attribute " + name + "=" + request.getAttribute(name));
    for (String name : List.of("cipher_suite", "key_size", "ssl_session_id"))
        out.println("tls " + name + "=" + request.getAttribute("jakarta.servlet.request." + name));
    out.println("tls protocol=" + request.getAttribute("org.apache.tomcat.util.net.secure_protocol_version"));
    var certificates = (java.security.cert.X509Certificate[])
        request.getAttribute("jakarta.servlet.request.X509Certificate");
    out.println("tls subject=" + (certificates == null ? null : certificates[0].getSubjectX500Principal()));
} else if (what.equals("echo")) {
    // How much came, its hash, and all of it again where that was asked for.
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    InputStream in = request.getInputStream();
    byte[] buffer = new byte[10000];
    boolean back = request.getParameter("back") != null;
    OutputStream to = null;
    if (back) {
        response.setContentType("application/octet-stream");
        to = response.getOutputStream();
        out.clear();
        out = pageContext.pushBody();
    }
    long total = 0;
    for (int count; (count = in.read(buffer)) >= 0; total += count) {
        digest.update(buffer, 0, count);
        if (back) to.write(buffer, 0, count);
    }
    if (!back) out.print(total + " " + HexFormat.of().formatHex(digest.digest()));
} else if (what.equals("public")) {
    // For every cache, and another one each time.
    response.setHeader("Cache-Control", "public, max-age=600");
    out.print(System.nanoTime());
} else if (what.equals("ignore")) {
    out.print("not read");
} else if (what.equals("bytes")) {
    int length = Integer.parseInt(request.getParameter("n"));
    if (request.getParameter("length") != null) response.setContentLength(length);
    response.setContentType("application/octet-stream");
    OutputStream to = response.getOutputStream();
    out.clear();
    out = pageContext.pushBody();
    byte[] bytes = pattern(251 * 40);
    for (int at = 0; at < length; at += bytes.length) to.write(bytes, 0, Math.min(bytes.length, length - at));
} else if (what.equals("status")) {
    response.sendError(Integer.parseInt(request.getParameter("s")), "as it was asked for");
} else if (what.equals("throw")) {
    throw new IllegalStateException("thrown for a test");
} else if (what.equals("headers")) {
    int size = Integer.parseInt(request.getParameter("size"));
    for (int index = 0; index < Integer.parseInt(request.getParameter("n")); index++)
        response.addHeader("X-Many-" + index, "v".repeat(size));
    response.addHeader("Set-Cookie", "a=b; Path=/");
    response.addHeader("Set-Cookie", "c=d");
    out.print("headers");
} else if (what.equals("slow")) {
    // A first line that is sent on at once, and a second when a file has appeared.
    out.println("first");
    out.flush();
    response.flushBuffer();
    File sign = new File(request.getParameter("until"));
    for (int turn = 0; turn < 2000 && !sign.exists(); turn++) Thread.sleep(10);
    out.println("second");
} else if (what.equals("session")) {
    HttpSession session = request.getSession();
    Integer count = (Integer) session.getAttribute("count");
    count = count == null ? 1 : count + 1;
    session.setAttribute("count", count);
    out.println("count=" + count);
    out.println("id=" + session.getId());
    out.println("link=" + response.encodeURL("/shop/probe.jsp"));
}
%>
