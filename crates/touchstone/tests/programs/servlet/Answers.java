package trial;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.annotation.MultipartConfig;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpUpgradeHandler;
import jakarta.servlet.http.WebConnection;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Servlets that do with their answers, and with uploads and connections, what few do. */
public final class Answers {

    private Answers() {
    }

    /** What a reader without waiting was told last, by the name that its request gives it. */
    @WebServlet(urlPatterns = "/reader", asyncSupported = true)
    public static class Reader extends HttpServlet {
        private static final Map<String, String> TOLD = new ConcurrentHashMap<>();

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(TOLD.getOrDefault(request.getParameter("name"), "nothing"));
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String name = request.getParameter("name");
            AsyncContext context = request.startAsync();
            context.setTimeout(0);
            ServletInputStream in = request.getInputStream();
            in.setReadListener(new ReadListener() {
                private final byte[] buffer = new byte[8192];
                private long count;

                @Override
                public void onDataAvailable() throws IOException {
                    while (in.isReady() && !in.isFinished()) {
                        int length = in.read(buffer);
                        count += Math.max(0, length);
                    }
                    TOLD.putIfAbsent(name, "begun");
                }

                @Override
                public void onAllDataRead() throws IOException {
                    TOLD.put(name, "all " + count);
                    response.getWriter().print("all " + count);
                    context.complete();
                }

                @Override
                public void onError(Throwable failure) {
                    TOLD.put(name, "error");
                    context.complete();
                }
            });
        }
    }

    /** Throws behind startAsync(), in one of many situations. */
    @WebServlet(urlPatterns = "/async-throws", asyncSupported = true)
    public static class AsyncThrows extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String how = request.getParameter("how");
            AsyncContext context = request.startAsync();
            context.setTimeout(how.contains("timeout") ? 100 : 20_000);
            if (how.contains("listener")) {
                context.addListener(new AsyncListener() {
                    @Override
                    public void onComplete(AsyncEvent event) {
                    }

                    @Override
                    public void onTimeout(AsyncEvent event) {
                        throw new IllegalStateException("thrown by a listener");
                    }

                    @Override
                    public void onError(AsyncEvent event) {
                        if (how.contains("completes")) {
                            context.complete();
                        }
                    }

                    @Override
                    public void onStartAsync(AsyncEvent event) {
                    }
                });
            }
            if (how.contains("flush")) {
                response.getWriter().print("begun");
                response.flushBuffer();
            }
            if (how.contains("thread")) {
                context.start(() -> {
                    // It writes on after the request has ended, at best while the next one is answered.
                    boolean isBusy = how.contains("busy");
                    for (int times = 0; times < (isBusy ? 200_000 : 20); times++) {
                        try {
                            byte[] words = "of another request".getBytes(StandardCharsets.US_ASCII);
                            response.getOutputStream().write(words);
                            response.getOutputStream().flush();
                            Thread.sleep(isBusy ? 0 : 5);
                        } catch (IOException | IllegalStateException | InterruptedException
                                | NullPointerException late) {
                            // The request has ended.
                        }
                    }
                    try {
                        context.complete();
                    } catch (IllegalStateException late) {
                        // As above.
                    }
                });
            }
            if (!how.contains("timeout")) {
                throw new IllegalStateException("thrown on purpose after startAsync");
            }
        }
    }

    /** Answers that are not whole, not of the length that was said, or closed before the servlet returns. */
    @WebServlet("/answers")
    public static class Ways extends HttpServlet {
        private static volatile boolean hasFailed;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String how = request.getParameter("how");
            response.setContentType("text/plain");
            switch (how) {
                case "short" -> {
                    response.setContentLength(20);
                    response.getOutputStream().write(new byte[10]);
                }
                case "long" -> {
                    response.setContentLength(5);
                    response.getOutputStream().write("0123456789".getBytes(StandardCharsets.US_ASCII));
                }
                case "closed" -> {
                    response.getWriter().print("closed");
                    response.getWriter().close();
                    await(request);
                }
                case "full" -> {
                    response.setContentLength(20_000);
                    byte[] piece = new byte[20_000];
                    java.util.Arrays.fill(piece, (byte) 'f');
                    response.getOutputStream().write(piece);
                    await(request);
                }
                case "trailers" -> {
                    response.setContentLength(2);
                    response.getWriter().print("ok");
                    response.flushBuffer();
                    try {
                        response.setTrailerFields(Map::of);
                        hasFailed = false;
                    } catch (IllegalStateException exception) {
                        hasFailed = true;
                    }
                }
                case "thrown" -> response.getWriter().print(hasFailed);
                case "text" -> response.sendError(409, "a <text> of the application");
                case "name" -> {
                    response.setHeader("a b", "c");
                    response.getWriter().print("x");
                }
                case "late-name" -> {
                    response.setHeader("a b", "c");
                    response.getWriter().print("x");
                    response.flushBuffer();
                }
                case "status" -> response.setStatus(42);
                case "empty" -> {
                    // Without the fields of the filter.
                    response.reset();
                    response.setStatus(404);
                }
                default -> response.sendError(400);
            }
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print("posted " + request.getInputStream().readAllBytes().length);
        }

        private static void await(HttpServletRequest request) {
            while (!Files.exists(Path.of(request.getParameter("until")))) {
                Trial.Bad.pause(10);
            }
        }
    }

    /** What is known of the connection. */
    @WebServlet("/connection")
    public static class Connection extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("text/plain");
            PrintWriter out = response.getWriter();
            out.println("id=" + request.getServletConnection().getConnectionId());
            out.println("protocol=" + request.getServletConnection().getProtocol());
            out.println("stream=" + request.getProtocolRequestId());
            out.println("connection=" + request.getServletConnection().getProtocolConnectionId());
            out.println("local=" + request.getLocalName() + " " + request.getLocalAddr());
            out.println("secure=" + request.isSecure() + " " + request.getScheme() + " "
                    + request.getServerPort() + " " + request.getRequestURL());
            Object certificates = request.getAttribute("jakarta.servlet.request.X509Certificate");
            if (certificates instanceof X509Certificate[] chain) {
                String name = chain[0].getSubjectX500Principal().getName();
                out.println("certificate=" + name + " of " + chain.length);
            }
            out.println("user=" + request.getRemoteUser() + " " + request.isUserInRole("shopper") + " "
                    + request.getAuthType());
        }
    }

    /** What is registered for those who look at Tomcat through JMX. */
    @WebServlet("/mbeans")
    public static class Beans extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
            PrintWriter out = response.getWriter();
            try {
                beans.queryNames(new ObjectName("Catalina:type=Server"), null)
                        .forEach(name -> out.println("server=" + name));
                print(out, "ThreadPool", "maxThreads", "currentThreadCount", "currentThreadsBusy");
                print(out, "GlobalRequestProcessor", "requestCount", "errorCount", "processingTime",
                        "bytesSent");
                int servlets =
                        beans.queryNames(new ObjectName("*:j2eeType=Servlet,name=*,*"), null).size();
                out.println("servlets=" + (servlets > 0));
            } catch (JMException exception) {
                throw new ServletException(exception);
            }
        }

        private static void print(PrintWriter out, String type, String... attributes) throws JMException {
            MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
            ObjectName all = new ObjectName("Catalina:type=" + type + ",name=*");
            for (ObjectName name : beans.queryNames(all, null)) {
                for (String attribute : attributes) {
                    out.println(attribute + "=" + beans.getAttribute(name, attribute));
                }
            }
        }
    }

    /** Logs many stacks. */
    @WebServlet("/flood")
    public static class Flood extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            for (int count = 0; count < 1_000; count++) {
                log("failed again", new IllegalStateException("for the log"));
            }
            response.getWriter().print("logged");
        }
    }

    /** Takes uploads of at most a thousand bytes. */
    @WebServlet("/small-upload")
    @MultipartConfig(maxRequestSize = 1_000)
    public static class SmallUpload extends Trial.Upload {
    }

    /** Waits, and says on what kind of thread. */
    @WebServlet("/wait")
    public static class Wait extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            Trial.Bad.pause(Integer.parseInt(request.getParameter("ms")));
            response.getWriter().print("virtual=" + isVirtual());
        }

        /** Java 17 does not know of them. */
        private static Object isVirtual() {
            try {
                return Thread.class.getMethod("isVirtual").invoke(Thread.currentThread());
            } catch (ReflectiveOperationException exception) {
                return false;
            }
        }
    }

    /** Switches to a protocol of its own, whose handler closes the connection. */
    @WebServlet("/switch")
    public static class Switch extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            response.setHeader("Upgrade", "trial");
            response.setHeader("Connection", "upgrade");
            Handler handler = request.upgrade(Handler.class);
            handler.how = request.getParameter("how");
        }
    }

    /** The protocol: it says a word and closes, on one thread or another. */
    public static class Handler implements HttpUpgradeHandler {
        volatile String how;

        @Override
        public void init(WebConnection connection) {
            try {
                connection.getOutputStream().write("hello".getBytes(StandardCharsets.US_ASCII));
                connection.getOutputStream().flush();
                switch (how) {
                    case "init" -> connection.close();
                    default -> new Thread(() -> {
                        Trial.Bad.pause(50);
                        try {
                            connection.close();
                        } catch (Exception exception) {
                            throw new IllegalStateException(exception);
                        }
                    }).start();
                }
            } catch (Exception exception) {
                throw new IllegalStateException(exception);
            }
        }

        @Override
        public void destroy() {
        }
    }

    /** Takes long to start: as long as a file is not there that the context's parameter names. */
    public static class Slow implements ServletContextListener {
        @Override
        public void contextInitialized(ServletContextEvent event) {
            Path until = Path.of(event.getServletContext().getInitParameter("until"));
            while (!Files.exists(until)) {
                Trial.Bad.pause(10);
            }
        }
    }

    /** A database that has nothing but connections. */
    public static class Driver implements java.sql.Driver {
        @Override
        public java.sql.Connection connect(String url, java.util.Properties info) {
            Class<?>[] types = {java.sql.Connection.class};
            ClassLoader loader = Driver.class.getClassLoader();
            return (java.sql.Connection) java.lang.reflect.Proxy.newProxyInstance(loader, types,
                    (proxy, method, arguments) -> switch (method.getName()) {
                        case "getCatalog" -> "catalog of " + url;
                        case "isValid", "getAutoCommit" -> true;
                        case "hashCode" -> System.identityHashCode(proxy);
                        case "equals" -> proxy == arguments[0];
                        default -> method.getReturnType() == boolean.class ? false
                                : method.getReturnType() == int.class ? (Object) 0 : null;
                    });
        }

        @Override
        public boolean acceptsURL(String url) {
            return url.startsWith("jdbc:trial:");
        }

        @Override
        public java.sql.DriverPropertyInfo[] getPropertyInfo(String url, java.util.Properties info) {
            return new java.sql.DriverPropertyInfo[0];
        }

        @Override
        public int getMajorVersion() {
            return 1;
        }

        @Override
        public int getMinorVersion() {
            return 0;
        }

        @Override
        public boolean jdbcCompliant() {
            return false;
        }

        @Override
        public java.util.logging.Logger getParentLogger() {
            return null;
        }
    }

    /** Asks the data source of a name for a connection. */
    @WebServlet("/source")
    public static class Source extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            try {
                String name = "java:comp/env/jdbc/" + request.getParameter("name");
                Object found = new javax.naming.InitialContext().lookup(name);
                try (java.sql.Connection connection = ((javax.sql.DataSource) found).getConnection()) {
                    response.getWriter().print(found.getClass().getName() + " " + connection.getCatalog());
                }
            } catch (javax.naming.NamingException | java.sql.SQLException exception) {
                throw new ServletException(exception);
            }
        }
    }

    /** Says where temporary files go, and leaves one there. */
    @WebServlet("/temporary")
    public static class Temporary extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(Files.createTempFile("left-by-an-application", ".tmp"));
        }
    }
}
