package org.touchstone.servlet;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Sends what Tomcat and applications log through java.util.logging to the server's error log. */
final class NativeLog extends Handler {

    /** The longest text of one line; a stack is cut there. */
    private static final int MOST_CHARACTERS = 6000;

    /** Those that say at each start what everybody knows. */
    private static final String[] TALKATIVE = {"org.apache.catalina.core.StandardService",
        "org.apache.catalina.core.StandardEngine", "org.apache.jasper.servlet.TldScanner",
        "org.apache.catalina.loader.WebappClassLoaderBase", "org.apache.catalina.startup.ContextConfig",
        "org.apache.tomcat.jakartaee.Migration"};

    /** Loggers that nobody holds lose their levels. */
    private static final java.util.List<Logger> KEPT = new java.util.ArrayList<>();

    private final SimpleFormatter formatter = new SimpleFormatter();

    /** Puts it in the place of the console. */
    static void install() {
        LogManager.getLogManager().reset();
        Logger root = Logger.getLogger("");
        root.setLevel(Level.INFO);
        root.addHandler(new NativeLog());
        for (String name : TALKATIVE) {
            Logger logger = Logger.getLogger(name);
            logger.setLevel(Level.WARNING);
            KEPT.add(logger);
        }
        // Welcome files are told to it before the context itself, which it takes for an error.
        Logger mapper = Logger.getLogger("org.apache.catalina.mapper.Mapper");
        mapper.setLevel(Level.OFF);
        KEPT.add(mapper);
    }

    @Override
    public void publish(LogRecord record) {
        if (!isLoggable(record)) {
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
            text.append(' ').append(stack);
        }
        if (text.length() > MOST_CHARACTERS) {
            text.setLength(MOST_CHARACTERS);
        }
        int level = record.getLevel().intValue();
        Native.log(level >= Level.SEVERE.intValue() ? 0 : level >= Level.WARNING.intValue() ? 1
                : level >= Level.CONFIG.intValue() ? 2 : 3, text.toString());
    }

    @Override
    public void flush() {
    }

    @Override
    public void close() {
    }
}
