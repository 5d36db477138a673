package org.touchstone.servlet;

import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * Starts Tomcat with a WAR of one page and one servlet and requests both, so that the virtual machine can
 * archive the classes that are loaded during this run ({@code -XX:ArchiveClassesAtExit}) and need not load
 * and check them at each start.
 */
public final class Training {

    private static final int SLAB_BYTES = 64 * 1024;

    private Training() {
    }

    /** The servlet of the WAR: it has a session, and answers with a parameter. */
    @WebServlet("/servlet")
    public static final class TrainingServlet extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            request.getSession().setAttribute("name", request.getParameter("name"));
            response.setContentType("text/plain");
            response.getWriter().println("hello " + request.getSession().getAttribute("name"));
        }
    }

    /**
     * Runs once.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) throws Exception {
        Path directory = Files.createTempDirectory("touchstone-training");
        int exitCode = 1;
        try {
            run(directory);
            exitCode = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
        } finally {
            Preparation.remove(directory);
        }
        // Tomcat's threads may still run, and would keep the process alive.
        System.exit(exitCode);
    }

    /** Throws if a page is not answered with 200. */
    static void run(Path directory) throws Exception {
        Path war = directory.resolve("training.war");
        pack(war);
        Host.startServer(directory.resolve("work").toString());
        Host.open(1, "name=training\napp=" + war + "\nwork=" + directory.resolve("work")
                + "\nconverted=" + directory.resolve("converted") + "\ncontext=\nthreads=2\n");
        Host.awaitStart(1);
        ByteBuffer in = ByteBuffer.allocateDirect(SLAB_BYTES);
        ByteBuffer out = ByteBuffer.allocateDirect(SLAB_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        Host.slab(1, 0, in, out);
        in.order(ByteOrder.LITTLE_ENDIAN);
        for (String path : new String[] {"/servlet", "/index.jsp"}) {
            int result = Host.serve(0, write(in, path));
            int status = result < Exchange.GOES_ON ? out.getInt(4) : -1;
            if (status != 200) {
                throw new IllegalStateException(path + " was answered with " + status);
            }
        }
        Host.close(1);
    }

    private static void pack(Path war) throws IOException {
        String servlet = TrainingServlet.class.getName().replace('.', '/') + ".class";
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(war));
                InputStream code = Training.class.getClassLoader().getResourceAsStream(servlet)) {
            zip.putNextEntry(new ZipEntry("index.jsp"));
            zip.write("<%@ page contentType=\"text/plain\" %>${1 + 2}".getBytes(StandardCharsets.US_ASCII));
            zip.putNextEntry(new ZipEntry("WEB-INF/classes/" + servlet));
            code.transferTo(zip);
            zip.closeEntry();
        }
    }

    /** Writes a request in the form of the server; returns its length. */
    private static int write(ByteBuffer in, String path) {
        in.clear();
        in.putInt(0).putInt(1).putInt(80).putInt(1).putInt(80).putInt(0).putLong(-1);
        in.putInt(1).putLong(1).putLong(-1);
        String[] texts = {"GET", path, "name=training", "HTTP/1.1", "localhost", "127.0.0.1", "127.0.0.1",
            null, null, null, null, "Host", "localhost"};
        for (String text : texts) {
            byte[] bytes = text == null ? new byte[0] : text.getBytes(StandardCharsets.US_ASCII);
            in.putInt(text == null ? -1 : bytes.length).put(bytes);
        }
        in.putInt(0);
        return in.position();
    }
}
