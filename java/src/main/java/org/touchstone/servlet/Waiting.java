package org.touchstone.servlet;

import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Where a thread waits in Java for an event of the server: a virtual thread that waited in the server itself
 * would keep the thread that carries it.
 */
final class Waiting {

    private volatile Thread thread;
    private volatile boolean hasEnded;

    /**
     * Waits until something is so.
     *
     * @param isSo whether it is
     * @param ask has the server call {@link #end} when it may be
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

    /** The event has come; false where no thread waits for it. */
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
