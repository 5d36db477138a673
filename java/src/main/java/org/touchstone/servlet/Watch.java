package org.touchstone.servlet;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.HashSet;
import java.util.Set;

/**
 * Finds requests that take very long and deadlocked threads, and logs each once.
 */
final class Watch {

    /** A request that has taken this long is logged. */
    private static final long STUCK_SECONDS = 60;
    /** The interval of the checks, in calls. */
    private static final int EVERY = 5;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final Set<Long> known = new HashSet<>();
    private final Set<String> named = new HashSet<>();
    private int calls;

    void look(Exchange[] exchanges) {
        if (++calls % EVERY != 0) {
            return;
        }
        long now = System.nanoTime();
        boolean isAnyBusy = false;
        for (Exchange exchange : exchanges) {
            long seconds = exchange == null ? -1 : exchange.secondsAtWork(now);
            isAnyBusy |= seconds >= EVERY - 1;
            Thread thread = exchange == null ? null : exchange.threadAtWork();
            String key = seconds < STUCK_SECONDS || thread == null
                    ? null : exchange.slab() + "/" + exchange.generation();
            if (key != null && named.add(key)) {
                Native.log(1, "a request to " + exchange.applicationsName() + " has taken " + seconds + " s: "
                        + exchange.what() + stack(thread));
            }
        }
        if (!isAnyBusy) {
            named.clear();
            return;
        }
        long[] deadlocked = threads.findDeadlockedThreads();
        for (long id : deadlocked == null ? new long[0] : deadlocked) {
            ThreadInfo info = known.add(id) ? threads.getThreadInfo(id, 12) : null;
            if (info != null) {
                LockInfo lock = info.getLockInfo();
                Native.log(0, "a deadlock: the thread " + info.getThreadName() + " waits for " + lock
                        + " that " + info.getLockOwnerName() + " holds; " + at(info.getStackTrace()));
            }
        }
    }

    private static String stack(Thread thread) {
        return "; " + at(thread.getStackTrace());
    }

    private static String at(StackTraceElement[] elements) {
        StringBuilder text = new StringBuilder("at");
        for (int index = 0; index < Math.min(12, elements.length); index++) {
            text.append(index == 0 ? " " : " < ").append(elements[index]);
        }
        return text.toString();
    }
}
