package org.touchstone.servlet;

import java.nio.file.Path;
import org.apache.catalina.Context;

/**
 * An application that another has replaced and that requests still are in. It runs beside the new one, which every new
 * request goes to, until the last of its own has ended or it is late.
 */
record Replaced(Application application, String name, Context context, Path unpacked, long untilNanos) {

    Replaced(Application application, long patienceMilliseconds) {
        this(application, application.name(), application.context, application.unpacked,
                System.nanoTime() + patienceMilliseconds * 1_000_000);
    }

    /** Whether its requests have had their time. */
    boolean isLate() {
        return System.nanoTime() - untilNanos >= 0;
    }
}
