package trial;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.WriteListener;
import jakarta.servlet.annotation.MultipartConfig;
import jakarta.servlet.annotation.WebFilter;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.Part;
import jakarta.websocket.OnMessage;
import jakarta.websocket.server.ServerEndpoint;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;

/** Servlets of every kind, for the tests of the server. */
public final class Trial {

    private Trial() {
    }

    @WebFilter(urlPatterns = "/*", asyncSupported = true)
    public static class Marks implements Filter {
        @Override
        public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
                throws IOException, ServletException {
            ((HttpServletResponse) response).setHeader("X-Filtered", "yes");
            chain.doFilter(request, response);
        }

        @Override
        public void init(jakarta.servlet.FilterConfig config) {
        }

        @Override
        public void destroy() {
        }
    }

    /** What a servlet is told of its request. */
    @WebServlet(urlPatterns = "/facts/*", asyncSupported = true)
    public static class Facts extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("text/plain;charset=utf-8");
            PrintWriter out = response.getWriter();
            out.println("method=" + request.getMethod());
            out.println("uri=" + request.getRequestURI());
            out.println("context=" + request.getContextPath());
            out.println("servlet=" + request.getServletPath());
            out.println("path=" + request.getPathInfo());
            out.println("query=" + request.getQueryString());
            out.println("name=" + request.getParameter("name"));
            out.println("protocol=" + request.getProtocol());
            out.println("scheme=" + request.getScheme() + " secure=" + request.isSecure());
            out.println("server=" + request.getServerName() + ":" + request.getServerPort());
            out.println("client=" + request.getRemoteAddr() + " " + (request.getRemotePort() > 0));
            out.println("user=" + request.getRemoteUser() + " " + request.getUserPrincipal());
            out.println("length=" + request.getContentLengthLong());
            out.println("cipher=" + request.getAttribute("jakarta.servlet.request.cipher_suite"));
            out.println("session=" + request.getRequestedSessionId());
            List<String> names = new ArrayList<>(Collections.list(request.getHeaderNames()));
            Collections.sort(names);
            for (String name : names) {
                out.println("field " + name + "=" + Collections.list(request.getHeaders(name)));
            }
        }
    }

    @WebServlet("/echo")
    public static class Echo extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("application/octet-stream");
            request.getInputStream().transferTo(response.getOutputStream());
        }
    }

    /** The same, but never waits. */
    @WebServlet(urlPatterns = "/echo-events", asyncSupported = true)
    public static class EchoEvents extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            AsyncContext context = request.startAsync();
            context.setTimeout(20_000);
            ServletInputStream in = request.getInputStream();
            ServletOutputStream out = response.getOutputStream();
            byte[] buffer = new byte[10_000];
            class Both implements ReadListener, WriteListener {
                private int held;
                private boolean isDone;

                private synchronized void go() throws IOException {
                    while (!isDone && out.isReady()) {
                        if (held > 0) {
                            out.write(buffer, 0, held);
                            held = 0;
                        } else if (in.isFinished()) {
                            isDone = true;
                            context.complete();
                        } else if (in.isReady()) {
                            held = Math.max(0, in.read(buffer));
                        } else {
                            return;
                        }
                    }
                }

                @Override
                public void onDataAvailable() throws IOException {
                    go();
                }

                @Override
                public void onAllDataRead() throws IOException {
                    go();
                }

                @Override
                public void onWritePossible() throws IOException {
                    go();
                }

                @Override
                public void onError(Throwable failure) {
                    context.complete();
                }
            }
            Both both = new Both();
            in.setReadListener(both);
            out.setWriteListener(both);
        }
    }

    @WebServlet(urlPatterns = "/async", asyncSupported = true)
    public static class Async extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            if (request.getAttribute("second") != null) {
                response.getWriter().print("dispatched");
                return;
            }
            AsyncContext context = request.startAsync();
            String how = String.valueOf(request.getParameter("how"));
            context.setTimeout(how.equals("timeout") ? 100 : 20_000);
            context.addListener(new AsyncListener() {
                @Override
                public void onTimeout(AsyncEvent event) throws IOException {
                    event.getSuppliedResponse().getWriter().print("timed out");
                    context.complete();
                }

                @Override
                public void onComplete(AsyncEvent event) {
                }

                @Override
                public void onError(AsyncEvent event) {
                    Gone.COUNT.incrementAndGet();
                    context.complete();
                }

                @Override
                public void onStartAsync(AsyncEvent event) {
                }
            }, request, response);
            switch (how) {
                case "dispatch" -> context.start(() -> {
                    request.setAttribute("second", true);
                    context.dispatch();
                });
                case "pieces" -> context.start(() -> {
                    try {
                        for (int piece = 0; piece < 3; piece++) {
                            response.getWriter().print("piece " + piece + "\n");
                            response.flushBuffer();
                        }
                    } catch (IOException exception) {
                        getServletContext().log("broken", exception);
                    }
                    context.complete();
                });
                case "timeout" -> {
                }
                case "never" -> Gone.BEGUN.incrementAndGet();
                default -> context.start(() -> {
                    try {
                        response.getWriter().print("completed");
                    } catch (IOException exception) {
                        getServletContext().log("broken", exception);
                    }
                    context.complete();
                });
            }
        }
    }

    /** States which thread it is called on; {@code do=wait} waits until a request with {@code do=open} comes.
     */
    @WebServlet("/gate")
    public static class Gate extends HttpServlet {
        private static final Semaphore OPEN = new Semaphore(0);

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("text/plain");
            if ("wait".equals(request.getParameter("do"))) {
                OPEN.acquireUninterruptibly();
            } else if ("open".equals(request.getParameter("do"))) {
                OPEN.release();
            }
            response.getWriter().print(Thread.currentThread().getName());
        }
    }

    /** A class that is loaded only when it is first used. */
    static final class Late {
        static String name() {
            return Held.NAME;
        }
    }

    /**
     * Says which application it is of: one that is restarted has another name. With {@code until}, the
     * name of a file, answers in two halves: before and after that file is there. Another file says that the
     * first half is over.
     */
    @WebServlet(urlPatterns = "/held", asyncSupported = true)
    public static class Held extends HttpServlet {
        static final String NAME = Long.toString(System.nanoTime(), 36);

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            String until = request.getParameter("until");
            if (until == null) {
                response.getWriter().print(NAME);
                return;
            }
            switch (request.getParameter("how")) {
                case "async" -> {
                    AsyncContext context = request.startAsync();
                    context.setTimeout(0);
                    context.start(() -> {
                        await(until);
                        try {
                            response.getWriter().print(Late.name());
                        } catch (IOException exception) {
                            getServletContext().log("broken", exception);
                        }
                        context.complete();
                    });
                }
                case "page" -> {
                    await(until);
                    response.getWriter().print(Late.name() + " ");
                    request.getRequestDispatcher("/date.jsp").include(request, response);
                }
                default -> {
                    response.getWriter().print("first ");
                    response.flushBuffer();
                    await(until);
                    response.getWriter().print(Late.name());
                }
            }
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            begun(request.getParameter("until"));
            String body = new String(request.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
            response.getWriter().print(body + " " + Late.name());
        }

        private static void await(String until) {
            begun(until);
            while (!Files.exists(Path.of(until))) {
                Bad.pause(10);
            }
        }

        private static void begun(String until) {
            try {
                Files.createFile(Path.of(until + "-" + BEGUN.incrementAndGet()));
            } catch (IOException exception) {
                throw new java.io.UncheckedIOException(exception);
            }
        }

        private static final AtomicInteger BEGUN = new AtomicInteger();
    }

    /** How many asynchronous requests lost their client, and how many without an end were begun. */
    @WebServlet("/gone")
    public static class Gone extends HttpServlet {
        static final AtomicInteger COUNT = new AtomicInteger();
        static final AtomicInteger BEGUN = new AtomicInteger();

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(COUNT.get() + " of " + BEGUN.get());
        }
    }

    /** Returns the trailers of the request, and sends trailers after the answer. */
    @WebServlet("/trailers")
    public static class Trailers extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            long[] sum = {0};
            response.setHeader("Trailer", "X-Sum");
            response.setTrailerFields(() -> {
                Map<String, String> fields = new LinkedHashMap<>();
                fields.put("X-Sum", String.valueOf(sum[0]));
                fields.put("X-Split", "a\r\nX-Forged: b");
                fields.put("Content-Length", "7");
                return fields;
            });
            boolean isEarly = request.isTrailerFieldsReady();
            byte[] piece = new byte[1000];
            for (int count = 0; count >= 0; count = request.getInputStream().read(piece)) {
                sum[0] += count;
            }
            response.getWriter().print("early=" + isEarly + " ready=" + request.isTrailerFieldsReady() + " "
                    + new TreeMap<>(request.getTrailerFields()));
            if (request.getParameter("flush") != null) {
                response.flushBuffer();
                response.getWriter().print(" more");
            }
        }
    }

    /** Sends hints before a long wait, or before an answer at once. */
    @WebServlet("/hints")
    public static class Hints extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            for (String link : new String[] {"</a.css>; rel=preload", "</b.js>; rel=preload"}) {
                response.addHeader("Link", link);
                response.sendError(103);
                if (request.getParameter("at_once") == null) {
                    Bad.pause(100);
                }
            }
            response.getWriter().print("the page");
        }
    }

    /** Writes until its client leaves, and counts the clients that left. */
    @WebServlet("/endless")
    public static class Endless extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            try {
                while (true) {
                    response.getWriter().print("more ");
                    response.flushBuffer();
                    Bad.pause(10);
                }
            } catch (IOException left) {
                Gone.COUNT.incrementAndGet();
                throw left;
            }
        }
    }

    /** What the machine holds, after a garbage collection. */
    @WebServlet("/memory")
    public static class Memory extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            System.gc();
            long metaspace = 0;
            for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
                metaspace += pool.getName().equals("Metaspace") ? pool.getUsage().getUsed() : 0;
            }
            long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
            response.getWriter().print("heap_kib=" + heap / 1024 + " metaspace_kib=" + metaspace / 1024
                    + " classes=" + ManagementFactory.getClassLoadingMXBean().getLoadedClassCount()
                    + " java_threads=" + ManagementFactory.getThreadMXBean().getThreadCount());
        }
    }

    /** States how often it was asked, and how long a cache may keep the answer. */
    @WebServlet("/asked/*")
    public static class Asked extends HttpServlet {
        private final AtomicInteger times = new AtomicInteger();

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String kept = request.getParameter("kept");
            if (kept != null) {
                response.setHeader("Cache-Control", kept);
            }
            response.getWriter().print(times.incrementAndGet());
        }
    }

    @WebServlet("/version")
    public static class Version extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(Runtime.version().feature());
        }
    }

    @WebServlet("/count")
    public static class Count extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            Integer count = (Integer) request.getSession().getAttribute("count");
            count = count == null ? 1 : count + 1;
            request.getSession().setAttribute("count", count);
            response.getWriter().print(count + " " + response.encodeURL("count"));
        }
    }

    @WebServlet("/upload")
    @MultipartConfig
    public static class Upload extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            for (Part part : request.getParts()) {
                response.getWriter().println(
                        part.getName() + " " + part.getSubmittedFileName() + " " + part.getSize());
            }
        }
    }

    /** Which encodings are used when none is named; it also prints. */
    @WebServlet("/encodings")
    public static class Encodings extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String parameter = request.getParameter("p");
            response.setContentType("text/plain");
            response.getWriter().print(request.getCharacterEncoding() + " "
                    + response.getCharacterEncoding() + " " + parameter.length() + " " + parameter);
            System.out.println("printed on purpose: " + parameter);
            System.err.print("printed as an error\n");
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            doGet(request, response);
        }
    }

    @WebServlet("/big")
    public static class Big extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            byte[] piece = new byte[10_000];
            java.util.Arrays.fill(piece, (byte) 'x');
            String field = request.getParameter("field");
            if (field != null) {
                response.setHeader("X-Long", "y".repeat(Integer.parseInt(field)));
            }
            for (int left = Integer.parseInt(request.getParameter("bytes")); left > 0; left -= piece.length) {
                response.getOutputStream().write(piece, 0, Math.min(left, piece.length));
            }
        }
    }

    /** Sends half of an answer, then fails. */
    @WebServlet(urlPatterns = "/half", asyncSupported = true)
    public static class Half extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String length = request.getParameter("length");
            if (length != null) {
                response.setContentLength(Integer.parseInt(length));
            }
            if (request.getParameter("async") != null) {
                AsyncContext context = request.startAsync();
                // Tomcat only logs what is thrown there; the request ends at its timeout.
                context.setTimeout(100);
                context.start(() -> breakOff(request, response));
            } else {
                breakOff(request, response);
            }
        }

        private static void breakOff(HttpServletRequest request, HttpServletResponse response) {
            try {
                if (request.getParameter("form").equals("stream")) {
                    response.getOutputStream().write("half".getBytes(StandardCharsets.US_ASCII));
                } else {
                    response.getWriter().print("half");
                }
                response.flushBuffer();
            } catch (IOException exception) {
                throw new java.io.UncheckedIOException(exception);
            }
            throw new IllegalStateException("broken on purpose: " + request.getParameter("name"));
        }
    }

    /** Keeps its application from starting. */
    public static class Throws implements ServletContextListener {
        @Override
        public void contextInitialized(ServletContextEvent event) {
            throw new IllegalStateException("thrown on purpose");
        }
    }

    /** Tries to end the server as it starts. */
    public static class Exits implements ServletContextListener {
        @Override
        public void contextInitialized(ServletContextEvent event) {
            System.exit(5);
        }
    }

    private static Throwable cause(String message) {
        return message == null ? null : new IllegalArgumentException(message);
    }

    /** Servlets that do what they should not. */
    @WebServlet("/bad")
    public static class Bad extends HttpServlet {
        private static final Object ONE = new Object();
        private static final Object OTHER = new Object();

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            switch (request.getParameter("how")) {
                case "throw" -> throw new IllegalStateException(
                        "thrown on purpose", cause(request.getParameter("cause")));
                case "print" -> new IllegalStateException("printed on purpose").printStackTrace();
                case "error" -> response.sendError(418, "a teapot");
                case "exit" -> System.exit(3);
                case "halt" -> Runtime.getRuntime().exit(4);
                case "memory" -> {
                    List<long[]> all = new ArrayList<>();
                    while (true) {
                        all.add(new long[1 << 20]);
                    }
                }
                case "stack" -> response.getWriter().print(deeper(1));
                case "header" -> response.setHeader("X-Split", "a\r\nSet-Cookie: b");
                case "long" -> response.setHeader("X-Long", "x".repeat(200_000));
                case "sleep" -> {
                    String until = request.getParameter("until");
                    if (until == null) {
                        pause(12_000);
                    } else {
                        Held.begun(until);
                        pause(120_000);
                    }
                }
                case "leave" -> {
                    Thread left = new Thread(() -> pause(Long.MAX_VALUE), "left-behind");
                    left.setDaemon(true);
                    left.start();
                }
                case "lock" -> {
                    Thread other = new Thread(() -> lock(OTHER, ONE));
                    other.start();
                    lock(ONE, OTHER);
                }
                default -> response.sendError(400);
            }
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            doGet(request, response);
        }

        private static int deeper(int depth) {
            return deeper(depth + 1) + 1;
        }

        static void pause(long milliseconds) {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException exception) {
                Thread.currentThread().interrupt();
            }
        }

        private static void lock(Object first, Object second) {
            synchronized (first) {
                try {
                    Thread.sleep(200);
                } catch (InterruptedException exception) {
                    return;
                }
                synchronized (second) {
                    second.notifyAll();
                }
            }
        }
    }

    @ServerEndpoint("/socket")
    public static class Socket {
        @OnMessage
        public String answer(String message) {
            return "heard " + message;
        }
    }
}
