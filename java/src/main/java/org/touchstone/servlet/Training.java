package org.touchstone.servlet;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Starts Tomcat with an application of one page and asks for it, so that the virtual machine can write down
 * the classes that are loaded meanwhile ({@code -XX:ArchiveClassesAtExit}) and need not load and check them
 * one by one at each start.
 */
public final class Training {

    private static final int SLAB_BYTES = 64 * 1024;

    private Training() {
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
            int status = run(directory);
            if (status != 200) {
                throw new IllegalStateException("the page was answered with " + status);
            }
            exitCode = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
        } finally {
            Preparation.remove(directory);
        }
        // Threads of Tomcat's may still be there, and would keep the process.
        System.exit(exitCode);
    }

    /** The status of a page of an application, which is made for it below a directory. */
    static int run(Path directory) throws Exception {
        Path application = directory.resolve("app");
        Files.createDirectories(application);
        Files.writeString(application.resolve("index.jsp"), "<%@ page contentType=\"text/plain\" %>${1 + 2}");
        Host.startServer(directory.resolve("work").toString());
        Host.open(1, "name=training\napp=" + application + "\nwork=" + directory.resolve("work")
                + "\ncontext=\nthreads=2\n");
        Host.awaitStart(1);
        ByteBuffer in = ByteBuffer.allocateDirect(SLAB_BYTES);
        ByteBuffer out = ByteBuffer.allocateDirect(SLAB_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        Host.slab(1, 0, in, out);
        int result = Host.serve(0, write(in.order(ByteOrder.LITTLE_ENDIAN), "/index.jsp"));
        int status = result < Exchange.GOES_ON ? out.getInt(4) : -1;
        Host.close(1);
        return status;
    }

    /** Writes a request down as the server does; the result is its length. */
    private static int write(ByteBuffer in, String path) {
        in.clear();
        in.putInt(0).putInt(1).putInt(80).putInt(1).putInt(80).putInt(0).putLong(-1);
        in.putInt(1).putLong(1).putLong(-1);
        String[] texts = {"GET", path, null, "HTTP/1.1", "localhost", "127.0.0.1", "127.0.0.1", null, null,
            null, null, "Host", "localhost"};
        for (String text : texts) {
            byte[] bytes = text == null ? new byte[0] : text.getBytes(StandardCharsets.US_ASCII);
            in.putInt(text == null ? -1 : bytes.length).put(bytes);
        }
        in.putInt(0);
        return in.position();
    }
}
