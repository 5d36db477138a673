package org.touchstone.servlet;

import java.io.File;
import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.core.StandardServer;
import org.apache.catalina.startup.CatalinaBaseConfigurationSource;
import org.apache.tomcat.util.file.ConfigFileLoader;

/** The functions that the server calls: the only class that it uses. */
public final class Host {

    private static final Map<Integer, Applications> APPLICATIONS = new ConcurrentHashMap<>();
    private static final Object LOCK = new Object();
    private static final int UTILITY_THREADS = 8;
    /**
     * The delay of the registration of MBeans after the start, so that it does not slow down first requests.
     */
    private static final int BEANS_MILLISECONDS = 1000;
    private static volatile Exchange[] exchanges = new Exchange[64];
    private static StandardServer server;

    private Host() {
    }

    /**
     * Starts Tomcat without any application.
     *
     * @param work a directory for Tomcat's files
     */
    public static void boot(String work) throws LifecycleException {
        NativeLog.install();
        startServer(work);
    }

    static void startServer(String work) throws LifecycleException {
        System.setProperty("catalina.home", work);
        System.setProperty("catalina.base", work);
        System.setProperty("catalina.useNaming", "true");
        System.setProperty("java.naming.factory.initial", "org.apache.naming.java.javaURLContextFactory");
        System.setProperty("java.naming.factory.url.pkgs", "org.apache.naming");
        JarScan.nameJars();
        EarlyStart.begin();
        LaterRegistry beans = LaterRegistry.install();
        ConfigFileLoader.setSource(new CatalinaBaseConfigurationSource(new File(work), null));
        server = new StandardServer();
        server.setPort(-1);
        // Each application checks its sessions on its own utility thread, because session listeners may
        // block.
        server.setUtilityThreads(UTILITY_THREADS);
        server.setCatalinaBase(new File(work));
        server.setCatalinaHome(new File(work));
        server.init();
        server.start();
        inDaemon("servlet-watch", Host::watch);
        if (beans != null) {
            inDaemon("servlet-beans", () -> registerLater(beans));
        }
    }

    private static void inDaemon(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Registers MBeans when the first applications have started, and some time has passed. */
    private static void registerLater(LaterRegistry beans) {
        try {
            do {
                Thread.sleep(BEANS_MILLISECONDS);
            } while (APPLICATIONS.isEmpty()
                    || APPLICATIONS.values().stream().anyMatch(Applications::isStarting));
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
        beans.begin();
    }

    private static void watch() {
        Watch watch = new Watch();
        while (true) {
            try {
                Thread.sleep(1000);
                watch.look(exchanges);
            } catch (InterruptedException exception) {
                return;
            } catch (Throwable failure) {
                Native.log(0, "the check of requests failed: " + failure);
            }
        }
    }

    /**
     * Starts the applications of a route. Returns before they have started.
     *
     * @param id its number
     * @param text its settings, as lines of a properties file
     */
    public static void open(int id, String text) throws LifecycleException, IOException {
        Properties settings = new Properties();
        settings.load(new StringReader(text));
        Applications applications = new Applications(id, settings, server);
        applications.start();
        APPLICATIONS.put(id, applications);
    }

    /**
     * Stops the applications of a route.
     *
     * @param id its number
     */
    public static void close(int id) {
        Applications applications = APPLICATIONS.remove(id);
        if (applications == null) {
            return;
        }
        applications.stop();
        synchronized (LOCK) {
            Exchange[] table = exchanges.clone();
            for (int slab = 0; slab < table.length; slab++) {
                if (table[slab] != null && table[slab].belongsTo(applications)) {
                    table[slab].leaveCounts();
                    table[slab] = null;
                }
            }
            exchanges = table;
        }
    }

    /** Waits until no application of a route is being started. */
    static void awaitStart(int id) throws InterruptedException {
        APPLICATIONS.get(id).awaitStart();
    }

    /** Stops all applications; sessions are stored. */
    public static void stop() throws LifecycleException {
        APPLICATIONS.keySet().forEach(Host::close);
        server.stop();
        server.destroy();
    }

    /**
     * The state of the machine and of the applications, for operators.
     *
     * @return JSON
     */
    public static String status() {
        Json json = new Json();
        json.object("machine");
        MachineStatus.describe(json);
        json.end();
        json.object("routes");
        APPLICATIONS.forEach((id, applications) -> {
            json.object(Integer.toString(id));
            applications.describe(json);
            json.end();
        });
        json.end();
        json.end();
        return json.toString();
    }

    /** How many requests are in the applications of a route. */
    static long requestsOf(Applications applications) {
        return Arrays.stream(exchanges)
                .filter(exchange -> exchange != null && exchange.belongsTo(applications)
                        && exchange.isUnderWay())
                .count();
    }

    /** The requests that are in an application. */
    static List<Exchange> requestsIn(Applications applications, Context context) {
        return Arrays.stream(exchanges)
                .filter(exchange -> exchange != null && exchange.belongsTo(applications)
                        && exchange.isIn(context))
                .toList();
    }

    /**
     * Registers a pair of buffers.
     *
     * @param id the route whose requests use it
     * @param slab its number
     * @param in the buffer that the server writes to
     * @param out the buffer that the server reads from
     */
    public static void slab(int id, int slab, ByteBuffer in, ByteBuffer out) {
        Applications applications = APPLICATIONS.get(id);
        if (applications == null) {
            throw new IllegalStateException("no such route");
        }
        synchronized (LOCK) {
            int length = Math.max(exchanges.length, Integer.highestOneBit(slab) * 2);
            Exchange[] table = Arrays.copyOf(exchanges, length);
            table[slab] = new Exchange(applications, slab, in, out);
            exchanges = table;
        }
    }

    /** Replaces an exchange that has failed. */
    static void replace(Exchange failed, Exchange next) {
        synchronized (LOCK) {
            if (exchanges[failed.slab()] == failed) {
                Exchange[] table = exchanges.clone();
                table[failed.slab()] = next;
                exchanges = table;
            }
        }
    }

    /**
     * Answers the request in a slab.
     *
     * @param slab the slab
     * @param length the length of the request
     * @return the result, and the length of the answer
     */
    public static int serve(int slab, int length) {
        return exchanges[slab].serve(length);
    }

    /**
     * Reports an event for an asynchronous request.
     *
     * @param slab its slab
     * @param number its number
     * @param kind the event: 0 may read, 1 may write, 2 the client has disconnected
     */
    public static void event(int slab, int number, int kind) {
        Exchange exchange = exchanges[slab];
        if (exchange != null) {
            exchange.serverEvent(number, kind);
        }
    }
}
