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

    private final SimpleFormatter formatter = new SimpleFormatter();

    /** Puts it in the place of the console. */
    static void install() {
        LogManager.getLogManager().reset();
        Logger root = Logger.getLogger("");
        root.setLevel(Level.INFO);
        root.addHandler(new NativeLog());
        // Says at each start what everybody knows.
        Logger.getLogger("org.apache.catalina.core.StandardService").setLevel(Level.WARNING);
        Logger.getLogger("org.apache.catalina.core.StandardEngine").setLevel(Level.WARNING);
        Logger.getLogger("org.apache.jasper.servlet.TldScanner").setLevel(Level.WARNING);
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
