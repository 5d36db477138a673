package org.touchstone.servlet;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Sends what Tomcat and applications log through java.util.logging to the server's error log. */
final class NativeLog extends Handler {

    /** The longest text, including stacks; the server writes the first and the last lines of a long one. */
    private static final int MOST_CHARACTERS = 256 * 1024;

    /** Output without a line end is logged when it is this long. */
    private static final int LONGEST_LINE = 6000;

    /** Loggers whose messages at each start have no use for operators. */
    private static final String[] TALKATIVE = {"org.apache.catalina.core.StandardService",
        "org.apache.catalina.core.StandardEngine", "org.apache.jasper.servlet.TldScanner",
        "org.apache.catalina.loader.WebappClassLoaderBase", "org.apache.catalina.startup.ContextConfig",
        "org.apache.tomcat.jakartaee.Migration"};

    /** Warnings that no operator can act on, by their logger and a part of their text. */
    private static final String[][] IDLE_WARNINGS = {
        // The thread is Tomcat's own: it has checked the application while that was refused.
        {"org.apache.catalina.loader.WebappClassLoaderBase", "[Catalina-utility-"},
        // A converted file cannot keep the signature of the original.
        {"org.apache.tomcat.jakartaee.Migration", "cryptographic signature"}};

    /** Loggers without a reference lose their levels. */
    private static final java.util.List<Logger> KEPT = new java.util.ArrayList<>();

    private final SimpleFormatter formatter = new SimpleFormatter();

    /** Replaces the console handler. */
    static void install() {
        LogManager.getLogManager().reset();
        Logger root = Logger.getLogger("");
        root.setLevel(Level.INFO);
        root.addHandler(new NativeLog());
        System.setOut(new PrintStream(new Lines(2), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Lines(1), true, StandardCharsets.UTF_8));
        for (String name : TALKATIVE) {
            Logger logger = Logger.getLogger(name);
            logger.setLevel(Level.WARNING);
            KEPT.add(logger);
        }
        // The mapper gets the welcome files before the context itself, and logs that as an error.
        Logger mapper = Logger.getLogger("org.apache.catalina.mapper.Mapper");
        mapper.setLevel(Level.OFF);
        KEPT.add(mapper);
    }

    @Override
    public void publish(LogRecord record) {
        if (!isLoggable(record) || isIdle(record)) {
            return;
        }
        StringBuilder text = new StringBuilder();
        if (record.getLoggerName() != null) {
            text.append(record.getLoggerName()).append(": ");
        }
        text.append(formatter.formatMessage(record));
        if (record.getThrown() != null) {
            StringWriter stack = new StringWriter();
            record.getThrown().printStackTrace(new PrintWriter(stack));
            text.append(' ');
            text.append(Hint.forMessage(stack.toString()));
            text.append(stack);
        }
        if (text.length() > MOST_CHARACTERS) {
            text.setLength(MOST_CHARACTERS);
        }
        int level = record.getLevel().intValue();
        Native.log(level >= Level.SEVERE.intValue() ? 0 : level >= Level.WARNING.intValue() ? 1
                : level >= Level.CONFIG.intValue() ? 2 : 3, text.toString());
    }

    private boolean isIdle(LogRecord record) {
        for (String[] warning : IDLE_WARNINGS) {
            if (warning[0].equals(record.getLoggerName())
                    && formatter.formatMessage(record).contains(warning[1])) {
                return true;
            }
        }
        return false;
    }

    /** Printed output, split into lines. */
    private static final class Lines extends OutputStream {
        private final int level;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        Lines(int level) {
            this.level = level;
        }

        @Override
        public synchronized void write(int letter) {
            if (letter != '\n' && line.size() < LONGEST_LINE) {
                line.write(letter);
                return;
            }
            String text = line.toString(StandardCharsets.UTF_8).stripTrailing();
            line.reset();
            if (letter != '\n') {
                line.write(letter);
            }
            if (!text.isEmpty()) {
                Native.log(level, text);
            }
        }
    }

    @Override
    public void flush() {
    }

    @Override
    public void close() {
    }
}
