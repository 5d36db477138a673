package org.touchstone.servlet;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.catalina.Context;

/**
 * An application that another has replaced and that requests still are in. It runs beside the new one, which
 * every new request goes to, until the last of its own has ended or it is late.
 */
record Replaced(
        Application application, String name, Context context, Place place, long untilNanos,
        AtomicBoolean isEnding) {

    Replaced(Application application, long patienceMilliseconds) {
        this(application, application.name(), application.context, application.place,
                System.nanoTime() + patienceMilliseconds * 1_000_000, new AtomicBoolean());
    }

    /** Whether its requests have had their time. */
    boolean isLate() {
        return System.nanoTime() - untilNanos >= 0;
    }
}
