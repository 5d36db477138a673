package org.touchstone.servlet;

import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Waits in Java for an event of the server: a virtual thread that waited in the server itself would block its
 * carrier thread.
 */
final class Waiting {

    private volatile Thread thread;
    private volatile boolean hasEnded;

    /**
     * Waits until a condition is true.
     *
     * @param isSo the condition
     * @param ask makes the server call {@link #end} when it may be true
     */
    void await(BooleanSupplier isSo, Runnable ask) {
        boolean isInterrupted = false;
        thread = Thread.currentThread();
        try {
            while (true) {
                hasEnded = false;
                if (isSo.getAsBoolean()) {
                    return;
                }
                ask.run();
                while (!hasEnded) {
                    LockSupport.park(this);
                    isInterrupted |= Thread.interrupted();
                }
            }
        } finally {
            thread = null;
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The event has occurred; false if no thread waits for it. */
    boolean end() {
        Thread waits = thread;
        if (waits == null) {
            return false;
        }
        hasEnded = true;
        LockSupport.unpark(waits);
        return true;
    }
}
