package org.touchstone.servlet;

/**
 * What the server does for Java. The server binds these methods when it starts the virtual machine.
 *
 * <p>A slab is a pair of buffers that one request at a time uses; its number names the request in all calls.
 * Results below zero are {@link #END} and {@link #GONE}.
 */
final class Native {

    /** Nothing more will come. */
    static final int END = -1;
    /** The client has left, or its body broke off. */
    static final int GONE = -2;
    /** What was written is no answer; the log says why. */
    static final int REFUSED = -3;

    /** To {@link #drain}: what is there is to be sent now. */
    static final int FLUSH = 1;
    /** To {@link #drain}: the caller must not wait. */
    static final int NO_WAIT = 2;

    private Native() {
    }

    /**
     * Copies some of the request's body to the slab's first buffer; returns the number of bytes, 0 if there
     * are none.
     */
    static native int fill(int slab, boolean waits);

    /** How many bytes of the body are there to be read without waiting. */
    static native int available(int slab);

    /** Asks for an event when there is something to be read, or the body has ended. */
    static native void wantRead(int slab);

    /**
     * Takes the second buffer's first {@code length} bytes for the client; 0, {@link #GONE} or {@link
     * #REFUSED}.
     */
    static native int drain(int slab, int length, int flags);

    /** Whether more may be written without waiting; if not, an event comes when it may. */
    static native boolean canWrite(int slab);

    /** An asynchronous request is done, with what is in the second buffer; the slab is given back. */
    static native void finish(int slab, int length, boolean isWhole);

    /** A request's time is over: its answer ends where it is. The thread that works on it keeps the slab. */
    static native void cut(int slab);

    /**
     * The answer of a request that goes on is whole with the second buffer's first {@code length} bytes,
     * which nothing changes until the request has ended.
     */
    static native void complete(int slab, int length);

    /** Requests of a route that wait for an application are to be asked for once more. */
    static native void resume(int route);

    /** To {@link #threads}: what is asked. */
    static final int THREADS = 0;
    static final int BUSY_THREADS = 1;
    static final int MOST_THREADS = 2;

    /** A number of the threads of a route. */
    static native int threads(int route, int what);

    /** The client may send its body. */
    static native void acknowledge(int slab);

    /**
     * Copies the trailers of the request, whose body has ended, to the slab's first buffer; returns the
     * number of bytes.
     */
    static native int requestTrailers(int slab);

    /**
     * Takes trailers to send after the answer's body; they are in the second buffer, where field lines of a
     * head are.
     */
    static native void trailers(int slab, int length);

    /** Takes field lines from the same place for an interim response 103. */
    static native void earlyHints(int slab, int length);

    /** A line for the error log: 0 error, 1 warning, 2 information, 3 debug. */
    static native void log(int level, String text);
}
