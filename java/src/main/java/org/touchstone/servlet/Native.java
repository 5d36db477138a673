package org.touchstone.servlet;

/**
 * The functions that the server provides to Java. It binds these methods when it starts the virtual machine.
 *
 * <p>A slab is a pair of buffers that one request at a time uses; its number identifies the request in all
 * calls. Negative results are {@link #END} and {@link #GONE}.
 */
final class Native {

    /** There are no more bytes. */
    static final int END = -1;
    /** The client has disconnected, or its body broke off. */
    static final int GONE = -2;
    /** The output is not a valid answer; the log has the reason. */
    static final int REFUSED = -3;

    /** A flag of {@link #drain}: send all bytes now. */
    static final int FLUSH = 1;
    /** A flag of {@link #drain}: the caller must not wait. */
    static final int NO_WAIT = 2;

    private Native() {
    }

    /**
     * Copies a part of the request's body to the slab's first buffer; returns the number of bytes, 0 if there
     * are none.
     */
    static native int fill(int slab, boolean waits);

    /** How many bytes of the body can be read without waiting. */
    static native int available(int slab);

    /** Requests an event when bytes can be read, or the body has ended. */
    static native void wantRead(int slab);

    /**
     * Takes the first {@code length} bytes of the second buffer for the client; returns 0, {@link #GONE} or
     * {@link #REFUSED}.
     */
    static native int drain(int slab, int length, int flags);

    /** Whether more can be written without waiting; if not, an event follows when it can. */
    static native boolean canWrite(int slab);

    /** Ends an asynchronous request, with the contents of the second buffer; the slab is returned. */
    static native void finish(int slab, int length, boolean isWhole);

    /** The time of a request is over: its answer ends now. The thread that works on it keeps the slab. */
    static native void cut(int slab);

    /**
     * The answer of a request that still runs is complete: the first {@code length} bytes of the second
     * buffer, which do not change until the request has ended.
     */
    static native void complete(int slab, int length);

    /** Submits the requests of a route again that wait for an application. */
    static native void resume(int route);

    /** An argument of {@link #threads}: the number to return. */
    static final int THREADS = 0;
    static final int BUSY_THREADS = 1;
    static final int MOST_THREADS = 2;

    /** Returns a number about the threads of a route. */
    static native int threads(int route, int what);

    /** The client may send its body. */
    static native void acknowledge(int slab);

    /**
     * Copies the trailers of the request, whose body has ended, to the slab's first buffer; returns the
     * number of bytes.
     */
    static native int requestTrailers(int slab);

    /**
     * Takes trailers to send after the answer's body; they are in the second buffer, at the place of a head's
     * field lines.
     */
    static native void trailers(int slab, int length);

    /** Takes field lines from the same place for an interim response 103. */
    static native void earlyHints(int slab, int length);

    /** A line for the error log: 0 error, 1 warning, 2 information, 3 debug. */
    static native void log(int level, String text);
}
