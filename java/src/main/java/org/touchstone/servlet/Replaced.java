package org.touchstone.servlet;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.catalina.Context;

/**
 * An application that was replaced but still has requests. It runs beside the new one, which gets every new
 * request, until the last of its own has ended or its time limit is reached.
 */
record Replaced(
        Application application, String name, Context context, Place place, long untilNanos,
        AtomicBoolean isEnding) {

    Replaced(Application application, long patienceMilliseconds) {
        this(application, application.name(), application.context, application.place,
                System.nanoTime() + patienceMilliseconds * 1_000_000, new AtomicBoolean());
    }

    /** Whether the time for its requests is over. */
    boolean isLate() {
        return System.nanoTime() - untilNanos >= 0;
    }
}
