package org.touchstone.servlet;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Session;
import org.apache.catalina.session.StandardManager;
import org.apache.catalina.session.StandardSession;
import org.apache.catalina.util.CustomObjectInputStream;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;

/**
 * The sessions of one application. They are stored when it stops and read when it starts, as in Tomcat's own
 * manager. If an application is replaced while requests are still in the old one, both run for some time.
 * Then the new one takes over each session when it is first needed, and the rest when the old one stops.
 *
 * <p>A session that is taken over is a copy with the new application's classes. A request that is still in
 * the old application keeps its session; later changes there are not copied.
 */
final class Sessions extends StandardManager {

    private static final Log LOG = LogFactory.getLog(Sessions.class);

    /** The session managers of running applications, by the file of their stored sessions. */
    private static final Map<String, Sessions> CURRENT = new HashMap<>();

    private final String file;
    /** Held while a session is taken over; the same object for all successors. */
    private Object lock = new Object();
    /** The manager of the replaced application, until that has stopped. */
    private volatile Sessions predecessor;
    private volatile Sessions successor;
    /** The identifiers of sessions that the successor has taken over. */
    private final Set<String> takenOver = new HashSet<>();

    Sessions(Path file) {
        this.file = file.toString();
        setPathname(this.file);
    }

    @Override
    protected void startInternal() throws LifecycleException {
        synchronized (CURRENT) {
            Sessions before = CURRENT.put(file, this);
            if (before != null) {
                lock = before.lock;
                before.successor = this;
                predecessor = before;
            }
        }
        super.startInternal();
    }

    @Override
    protected void stopInternal() throws LifecycleException {
        synchronized (CURRENT) {
            CURRENT.remove(file, this);
        }
        Sessions before = predecessor;
        if (before != null) {
            takeAll(before);
        }
        Sessions after = successor;
        if (after != null) {
            if (after.getState().isAvailable()) {
                after.takeAll(this);
            }
            forget();
            after.predecessor = null;
        }
        super.stopInternal();
    }

    /** Sessions of the successor are neither stored nor reported as ended. */
    private void forget() {
        setPathname(null);
        for (Session session : findSessions()) {
            ((StandardSession) session).expire(false);
        }
    }

    @Override
    public Session findSession(String id) throws IOException {
        Session session = super.findSession(id);
        Sessions before = predecessor;
        if (session != null || before == null || id == null) {
            return session;
        }
        synchronized (lock) {
            // Another request may have taken it over first.
            Session meanwhile = super.findSession(id);
            return meanwhile != null ? meanwhile : take(before, id);
        }
    }

    private void takeAll(Sessions before) {
        synchronized (lock) {
            for (Session session : before.findSessions()) {
                try {
                    take(before, session.getIdInternal());
                } catch (IOException | RuntimeException failure) {
                    LOG.warn("a session of " + getContext().getPath() + " could not be restored", failure);
                }
            }
        }
    }

    /** Called with the lock held; null if there is no such session, or if it was restored before. */
    private Session take(Sessions before, String id) throws IOException {
        byte[] written = before.giveAway(id);
        if (written == null) {
            return null;
        }
        Context context = getContext();
        ClassLoader loader = context.getLoader().getClassLoader();
        ClassLoader unbound = context.bind(null);
        try (ObjectInputStream in = new CustomObjectInputStream(new ByteArrayInputStream(written), loader,
                context.getLogger(), getSessionAttributeValueClassNamePattern(), false)) {
            StandardSession session = getNewSession();
            session.readObjectData(in);
            session.setManager(this);
            sessions.put(session.getIdInternal(), session);
            session.activate();
            return session;
        } catch (ClassNotFoundException exception) {
            throw new IOException(exception);
        } finally {
            context.unbind(unbound);
        }
    }

    private byte[] giveAway(String id) throws IOException {
        if (!(findSession(id) instanceof StandardSession session)
                || !session.isValid() || !takenOver.add(id)) {
            return null;
        }
        Context context = getContext();
        ClassLoader unbound = context.bind(null);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            session.passivate();
            session.writeObjectData(out);
        } finally {
            context.unbind(unbound);
        }
        return bytes.toByteArray();
    }
}
