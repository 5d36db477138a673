package org.touchstone.servlet;

import java.io.File;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.catalina.Context;
import org.apache.catalina.Manager;
import org.apache.catalina.core.StandardContext;

/** One application of a route: its source and its state. */
final class Application {

    /** Its state. */
    enum State {
        /** Its first requests wait. */
        STARTING,
        /** It receives requests. */
        RUNNING,
        /** It is being replaced: requests wait. */
        RELOADING,
        /** It cannot be used: requests get 503. */
        FAILED
    }

    /** The context's path: empty for the root. */
    final String path;
    /** The version in its name, as in Tomcat's parallel deployment; empty: none. */
    final String version;
    /** The WAR or directory. */
    final File source;
    volatile State state = State.STARTING;
    /** The state of its files: times and lengths. */
    volatile Fingerprint fingerprint;
    /** Where it is unpacked; the source itself if that is a directory. */
    Path unpacked;
    /** Its directory while it runs. */
    Place place;
    volatile Context context;
    /** Whether a thread is starting or stopping it. */
    final AtomicBoolean isChanging = new AtomicBoolean();
    /** When it was last started, in milliseconds since 1970. */
    volatile long startedMilliseconds;
    /** How long that took. */
    volatile long startTookMilliseconds;
    /** Its number among the applications that run beside each other during a replacement. */
    int generation;

    Application(String path, String version, File source) {
        this.path = path;
        this.version = version;
        this.source = source;
    }

    /** Its name in logs. */
    String name() {
        return (path.isEmpty() ? "/" : path) + (version.isEmpty() ? "" : "##" + version)
                + " (" + source.getName() + ")";
    }

    /** The name of its files: its path as Tomcat names a WAR for it, and its version. */
    String fileName() {
        String base = path.isEmpty() ? "ROOT" : path.substring(1).replace('/', '#');
        return version.isEmpty() ? base : base + "##" + version;
    }

    /**
     * Its version in Tomcat. Tomcat sends new requests to the last version in string order, so each
     * generation sorts after the previous one, and before any later version in a file name.
     */
    String versionOfGeneration() {
        return generation == 0 ? version : String.format("%s#%06d", version, generation);
    }

    /** Writes the state of the application for operators. */
    void describe(Json json) {
        json.text("path", path.isEmpty() ? "/" : path);
        json.text("version", version);
        json.text("state", state.name().toLowerCase(Locale.ROOT));
        Context running = context;
        if (running instanceof StandardContext standard && standard.getState().isAvailable()) {
            json.number("started_ms", startedMilliseconds);
            json.number("start_took_ms", startTookMilliseconds);
            json.number("requests", standard.getRequestCount());
            json.number("errors", standard.getErrorCount());
            json.number("processing_ms", standard.getProcessingTime());
            Manager manager = standard.getManager();
            json.number("sessions", manager == null ? 0 : manager.getActiveSessions());
            json.number("sessions_rejected", manager == null ? 0 : manager.getRejectedSessions());
        }
        json.end();
    }

    /** Distinguishes one state of the files from another. */
    record Fingerprint(long modified, long length, long descriptor) {
        static Fingerprint of(File source) {
            File descriptor = new File(source, "WEB-INF/web.xml");
            File context = new File(source, "META-INF/context.xml");
            long descriptors = descriptor.lastModified() * 31 + context.lastModified();
            // A directory's own time changes with every file that is added to it, which Tomcat serves without
            // a reload.
            boolean isDirectory = source.isDirectory();
            return new Fingerprint(
                    isDirectory ? 0 : source.lastModified(), isDirectory ? 0 : source.length(), descriptors);
        }
    }
}
