package org.touchstone.servlet;

import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.apache.coyote.RequestGroupInfo;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.modeler.Registry;

/**
 * The MBeans of a route that Tomcat's connectors have: ThreadPool and GlobalRequestProcessor, under the names
 * that Micrometer and other tools expect.
 */
final class Beans {

    /** The domain of a Tomcat's MBeans. */
    static final String DOMAIN = "Catalina";

    private static final Log LOG = LogFactory.getLog(Beans.class);

    private final int route;
    private final RequestGroupInfo requests;

    Beans(int route, RequestGroupInfo requests) {
        this.route = route;
        this.requests = requests;
    }

    void register() {
        Registry registry = Registry.getRegistry(null);
        try {
            registry.registerComponent(new ThreadPool(route), name("ThreadPool"), null);
            registry.registerComponent(requests, name("GlobalRequestProcessor"), null);
        } catch (Exception exception) {
            LOG.warn("the MBeans of a route could not be registered", exception);
        }
    }

    void unregister() {
        Registry registry = Registry.getRegistry(null);
        try {
            registry.unregisterComponent(name("ThreadPool"));
            registry.unregisterComponent(name("GlobalRequestProcessor"));
        } catch (MalformedObjectNameException exception) {
            throw new IllegalStateException(exception);
        }
    }

    private ObjectName name(String type) throws MalformedObjectNameException {
        return new ObjectName(DOMAIN + ":type=" + type + ",name=\"touchstone-" + route + "\"");
    }

    /** The threads of a route, with the attributes of Tomcat's own pools. */
    public static final class ThreadPool {
        private final int route;

        ThreadPool(int route) {
            this.route = route;
        }

        /** The name of the connector. */
        public String getName() {
            return "touchstone-" + route;
        }

        /** The number of threads. */
        public int getCurrentThreadCount() {
            return Native.threads(route, Native.THREADS);
        }

        /** The number of threads that answer a request. */
        public int getCurrentThreadsBusy() {
            return Native.threads(route, Native.BUSY_THREADS);
        }

        /** The largest number of threads. */
        public int getMaxThreads() {
            return Native.threads(route, Native.MOST_THREADS);
        }
    }
}
