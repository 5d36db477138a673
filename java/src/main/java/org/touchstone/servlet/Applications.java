package org.touchstone.servlet;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.catalina.Context;
import org.apache.catalina.Lifecycle;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.connector.Request;
import org.apache.catalina.connector.Response;
import org.apache.catalina.core.StandardContext;
import org.apache.catalina.core.StandardEngine;
import org.apache.catalina.core.StandardHost;
import org.apache.catalina.core.StandardServer;
import org.apache.catalina.core.StandardService;
import org.apache.catalina.loader.WebappClassLoaderBase;
import org.apache.catalina.realm.LockOutRealm;
import org.apache.catalina.realm.MemoryRealm;
import org.apache.catalina.startup.Constants;
import org.apache.catalina.startup.ContextConfig;
import org.apache.catalina.startup.Tomcat;
import org.apache.catalina.util.ContextName;
import org.apache.catalina.util.ServerInfo;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.compat.JreCompat;
import org.apache.tomcat.util.threads.TaskQueue;
import org.apache.tomcat.util.threads.TaskThreadFactory;
import org.apache.tomcat.util.threads.ThreadPoolExecutor;
import org.apache.tomcat.util.threads.VirtualThreadExecutor;

/**
 * The applications of one route: a Tomcat service with one host, which only this route's requests reach.
 *
 * <p>Sources are checked once a second. A changed application is prepared while the old one still answers;
 * then requests for it wait until the new one has started. An old application that still has requests then
 * becomes {@link Replaced}, and runs beside the new one until they have ended. Other applications are not
 * affected: each is started and stopped by its own thread.
 */
final class Applications {

    private static final Log LOG = LogFactory.getLog(Applications.class);

    /** How long requests for an application that is being replaced wait for the requests inside it. */
    private static final long SHORT_WAIT_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** How often an application checks for expired sessions and changed classes. */
    private static final int BACKGROUND_SECONDS = 5;

    private final int id;
    private final Properties settings;
    private final Path work;
    /** Null if no files outlast the process. */
    private final KeptConversions kept;
    private final StandardServer server;
    private final StandardService service = new Service();
    private final StandardHost host = new StandardHost();
    private final InProcessProtocol protocol;
    private final ExecutorService executor;
    private final boolean hasVirtualThreads;
    private final Beans beans;
    private final ClassLoaders loaders = new ClassLoaders();
    private final Map<String, Application> running = new ConcurrentHashMap<>();
    /** The applications that are not simply running; null if all are. */
    private volatile Application[] unusual;
    private final Map<String, Application.Fingerprint> changing = new HashMap<>();
    private final List<Replaced> replaced = new CopyOnWriteArrayList<>();
    private final QuietErrors errors;
    /**
     * The server was requested at least once to hold a request. It may do so only later, so this flag stays
     * set.
     */
    private volatile boolean hasHeld;
    private volatile boolean hasStopped;

    Applications(int id, Properties settings, StandardServer server) {
        this.id = id;
        this.settings = settings;
        this.server = server;
        this.work = Path.of(settings.getProperty("work"));
        String converted = settings.getProperty("converted", "");
        this.kept = converted.isEmpty() ? null : new KeptConversions(Path.of(converted));
        String threads = settings.getProperty("threads", "64");
        hasVirtualThreads = threads.equals("virtual");
        errors = new QuietErrors(settings.getProperty("error_text", "yes").equals("yes"));
        executor = hasVirtualThreads ? virtualThreads(id) : threads(id, Integer.parseInt(threads));
        protocol = new InProcessProtocol("touchstone-" + id, executor);
        beans = new Beans(id, protocol.requests());
    }

    private static ExecutorService threads(int id, int most) {
        TaskQueue queue = new TaskQueue();
        ThreadPoolExecutor threads = new ThreadPoolExecutor(0, most, 60, TimeUnit.SECONDS, queue,
                new TaskThreadFactory("servlet-" + id + "-", true, Thread.NORM_PRIORITY));
        queue.setParent(threads);
        return threads;
    }

    private static ExecutorService virtualThreads(int id) {
        if (!JreCompat.isJre21Available()) {
            throw new IllegalStateException("threads = \"virtual\" needs Java 21 or later, but this is Java "
                    + Runtime.version().feature());
        }
        return new VirtualThreadExecutor("servlet-" + id + "-");
    }

    /** Whether each request has its own virtual thread. */
    boolean hasVirtualThreads() {
        return hasVirtualThreads;
    }

    InProcessProtocol protocol() {
        return protocol;
    }

    /** The name of the route in logs. */
    String name() {
        return settings.getProperty("name", "servlet");
    }

    /**
     * Starts the service. Its applications start after this has returned; requests for them wait in the
     * server.
     */
    void start() throws LifecycleException, IOException {
        StandardEngine engine = new StandardEngine();
        // The MBeans of applications, servlets and sessions are in a domain of this name.
        engine.setName(Beans.DOMAIN);
        engine.setDefaultHost(hostName());
        String node = settings.getProperty("node", "");
        if (!node.isEmpty()) {
            engine.setJvmRoute(node);
        }
        String users = settings.getProperty("users", "");
        if (!users.isEmpty()) {
            MemoryRealm realm = new MemoryRealm();
            realm.setPathname(users);
            LockOutRealm lockOut = new LockOutRealm();
            lockOut.addRealm(realm);
            engine.setRealm(lockOut);
        }
        Files.createDirectories(places());
        // Tomcat's MBeans have it in their names, and all are in one domain.
        host.setName(hostName());
        host.setAppBase(places().toString());
        host.setAutoDeploy(false);
        host.setDeployOnStartup(false);
        host.setErrorReportValveClass(QuietErrors.class.getName());
        host.getPipeline().addValve(errors);
        engine.getPipeline().addValve(new Returns());
        engine.addChild(host);
        service.setName("touchstone-" + id);
        service.setContainer(engine);
        Connector connector = new RefusalLoggingConnector(protocol, this);
        connector.setMaxPostSize(Integer.parseInt(settings.getProperty("form_bytes", "2097152")));
        connector.setRedirectPort(Integer.parseInt(settings.getProperty("https_port", "443")));
        service.addConnector(connector);
        server.addService(service);
        beans.register();
        List<Application> first = List.copyOf(wanted().values());
        first.forEach(application -> running.put(application.name(), application));
        note();
        for (Application application : first) {
            change(application, () -> deploy(application, Application.Fingerprint.of(application.source)));
        }
        inThread("servlet-tick-" + id, this::tickUntilStopped);
    }

    private String hostName() {
        return id == 1 ? "localhost" : "localhost-" + id;
    }

    /** Registers the MBeans of all routes in the domain that a Tomcat uses. */
    private static final class Service extends StandardService {
        @Override
        protected String getDomainInternal() {
            return Beans.DOMAIN;
        }
    }

    private void tickUntilStopped() {
        while (!hasStopped) {
            try {
                Thread.sleep(1000);
                tick();
            } catch (InterruptedException exception) {
                return;
            } catch (RuntimeException | LinkageError | OutOfMemoryError failure) {
                Native.log(0, "the check of the applications of " + name() + " failed: " + failure);
            }
        }
    }

    private Path places() {
        return work.resolve("running");
    }

    /** Starts or stops an application on its own thread, unless one already does. */
    private void change(Application application, Runnable work) {
        if (application.isChanging.compareAndSet(false, true)) {
            inThread("deploy " + application.name(), () -> {
                try {
                    work.run();
                } finally {
                    application.isChanging.set(false);
                }
            });
        }
    }

    private void inThread(String title, Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (RuntimeException | LinkageError exception) {
                LOG.error("the applications of " + name() + " could not be checked", exception);
            }
        }, title);
        thread.setDaemon(true);
        thread.setContextClassLoader(Applications.class.getClassLoader());
        thread.start();
    }

    /** Stops what {@link #start} has started. */
    void stop() {
        protocol.endWaiting(exchange -> true);
        hasStopped = true;
        try {
            // This also stops it, and waits for applications that are still being started.
            server.removeService(service);
            service.destroy();
            for (Application application : running.values()) {
                giveBack(application.place, application.name(), false);
            }
            replaced.forEach(old -> giveBack(old.place(), old.name(), false));
            LOG.info("the applications of " + name() + " have stopped");
        } catch (LifecycleException exception) {
            LOG.error("the applications of " + name() + " could not be stopped", exception);
        }
        beans.unregister();
        executor.shutdownNow();
    }

    /** Writes the state of the applications for operators. */
    void describe(Json json) {
        json.list("applications");
        running.values().stream().sorted(Comparator.comparing(Application::name))
                .forEach(application -> application.describe(json.object()));
        json.end();
        json.number("replaced", replaced.size());
        json.number("class_loaders", loaders.count());
        json.number("requests_under_way", Host.requestsOf(this));
        json.number("requests", Integer.toUnsignedLong(protocol.requests().getRequestCount()));
        json.number("errors", Integer.toUnsignedLong(protocol.requests().getErrorCount()));
        json.number("processing_ms", protocol.requests().getProcessingTime());
        json.number("longest_ms", protocol.requests().getMaxTime());
    }

    /**
     * Called once a second: checks time limits of requests, and changes on disk. Waits for no application.
     */
    private void tick() {
        protocol.tick();
        // The server may have begun to hold a request after the last message, so it is sent every second.
        askAgain();
        for (Replaced old : replaced) {
            boolean isOver = old.isLate() || Host.requestsIn(this, old.context()).isEmpty();
            if (isOver && old.isEnding().compareAndSet(false, true)) {
                inThread("end " + old.name(), () -> end(old));
            }
        }
        if (settings.getProperty("reload", "yes").equals("yes")) {
            scan();
        }
    }

    /** Stops an application that was replaced. */
    private void end(Replaced old) {
        if (!Host.requestsIn(this, old.context()).isEmpty()) {
            LOG.warn("the application " + old.name() + " was replaced, but requests in the old one exceeded "
                    + "its drain_timeout: they are ended");
            protocol.endWaiting(exchange -> exchange.isIn(old.context()));
        }
        discard(old.context());
        Host.requestsIn(this, old.context()).forEach(exchange -> exchange.cutIfIn(old.context()));
        replaced.remove(old);
        giveBack(old.place(), old.name(), false);
        LOG.info("the application " + old.name() + " that was replaced has stopped");
    }

    private void scan() {
        Map<String, Application> wanted = wanted();
        for (Application application : List.copyOf(running.values())) {
            if (!wanted.containsKey(application.name()) && !application.source.exists()) {
                change(application, () -> undeploy(application));
            }
        }
        for (Application application : wanted.values()) {
            Application.Fingerprint now = Application.Fingerprint.of(application.source);
            Application old = running.get(application.name());
            if (old != null && (old.isChanging.get() || now.equals(old.fingerprint))) {
                changing.remove(application.name());
                continue;
            }
            // A file that is still being copied is different a second later.
            if (!now.equals(changing.put(application.name(), now))) {
                continue;
            }
            changing.remove(application.name());
            Application changed = old != null ? old : application;
            if (old == null) {
                running.put(application.name(), application);
                note();
            }
            change(changed, () -> deploy(changed, now));
        }
    }

    private void undeploy(Application application) {
        LOG.info("the application " + application.name() + " was removed, and is stopped");
        remove(application);
        giveBack(application.place, application.name(), true);
        running.remove(application.name());
        note();
        if (kept != null) {
            kept.forget(application, null);
        }
    }

    /** The applications that should run, by name. */
    private Map<String, Application> wanted() {
        Map<String, Application> found = new HashMap<>();
        String prefix = settings.getProperty("context", "");
        String single = settings.getProperty("app", "");
        if (!single.isEmpty()) {
            File source = new File(single);
            if (source.exists()) {
                add(found, new Application(prefix, "", source));
            }
            return found;
        }
        File[] files = new File(settings.getProperty("directory")).listFiles();
        for (File file : files == null ? new File[0] : files) {
            String lower = file.getName().toLowerCase(java.util.Locale.ROOT);
            boolean isHidden = lower.startsWith(".");
            if (!isHidden && (file.isDirectory() || lower.endsWith(".war"))) {
                ContextName name = new ContextName(file.getName(), true);
                Application application = new Application(prefix + name.getPath(), name.getVersion(), file);
                // A directory beside a WAR of the same name is an unpacked copy: only the WAR counts.
                boolean isShadowed = file.isDirectory() && new File(file.getPath() + ".war").exists();
                if (!isShadowed) {
                    add(found, application);
                }
            }
        }
        return found;
    }

    private static void add(Map<String, Application> to, Application application) {
        to.put(application.name(), application);
    }

    private void deploy(Application application, Application.Fingerprint fingerprint) {
        long started = System.nanoTime();
        boolean isAgain = application.context != null;
        application.fingerprint = fingerprint;
        Place place = null;
        try {
            place = Place.take(places(), application.fileName());
            Path unpacked = Preparation.prepare(
                    application, place.files(), settings.getProperty("convert", "auto"), kept);
            if (application.source.isFile()) {
                place.keepPagesOf(KeptConversions.key(application.source, compiler()));
            }
            application.state = isAgain ? Application.State.RELOADING : Application.State.STARTING;
            note();
            if (!isAgain || !replace(application)) {
                remove(application);
                giveBack(application.place, application.name(), false);
            }
            application.place = place;
            application.unpacked = unpacked;
            application.context = start(application);
            application.state = Application.State.RUNNING;
            application.startedMilliseconds = System.currentTimeMillis();
            long milliseconds = (System.nanoTime() - started) / 1_000_000;
            application.startTookMilliseconds = milliseconds;
            LOG.info("the application " + application.name() + " runs" + (isAgain ? " again" : "") + " after "
                    + milliseconds + " ms");
        } catch (IOException | RuntimeException | LinkageError exception) {
            hasFailed(application, isAgain, exception);
            if (application.place != place) {
                giveBack(place, application.name(), false);
            }
        }
        note();
    }

    private void hasFailed(Application application, boolean isAgain, Throwable exception) {
        // If the new files cannot be read, the application keeps running unchanged.
        boolean keepsRunning = isAgain && application.state == Application.State.RUNNING;
        application.state = keepsRunning ? Application.State.RUNNING : Application.State.FAILED;
        if (hasStopped) {
            return;
        }
        String what =
                keepsRunning ? " cannot be replaced and keeps running unchanged" : " could not be started";
        String message = "the application " + application.name() + what + ": " + reason(exception);
        LOG.error(message, exception instanceof Refused ? null : exception);
    }

    /** The compiler of pages. */
    private static String compiler() {
        return ServerInfo.getServerNumber() + " " + Runtime.version().feature();
    }

    private static void giveBack(Place place, String application, boolean isGone) {
        if (place == null) {
            return;
        }
        try {
            place.giveBack(isGone);
        } catch (IOException exception) {
            LOG.warn("files of the application " + application + " could not be removed", exception);
        }
    }

    /**
     * Keeps an application running beside its successor, for its current requests; false if there are none,
     * or if it has its own session manager, of which only one can run at a time.
     */
    private boolean replace(Application application) {
        Context context = application.context;
        if (!(context.getManager() instanceof Sessions) || becomesIdle(context)) {
            application.generation = isReplaced(application) ? application.generation + 1 : 0;
            return false;
        }
        replaced.add(new Replaced(application, drainMilliseconds()));
        application.context = null;
        application.generation++;
        return true;
    }

    private boolean isReplaced(Application application) {
        return replaced.stream().anyMatch(old -> old.application() == application);
    }

    private long drainMilliseconds() {
        return Long.parseLong(settings.getProperty("drain_milliseconds", "30000"));
    }

    /** Waits for a moment until no request is in an application. */
    private boolean becomesIdle(Context context) {
        long until = System.nanoTime() + Math.min(SHORT_WAIT_NANOS, drainMilliseconds() * 1_000_000);
        while (!Host.requestsIn(this, context).isEmpty()) {
            if (System.nanoTime() - until >= 0) {
                return false;
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException exception) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return true;
    }

    /** The cause of a failure: the outer exceptions often state only that an operation has failed. */
    private static String reason(Throwable failure) {
        Throwable cause = failure;
        for (int depth = 0; depth < 100 && cause.getCause() != null; depth++) {
            cause = cause.getCause();
        }
        // The message of a missing class is its name alone.
        boolean saysAll = cause == failure && failure.getMessage() != null;
        return saysAll ? failure.getMessage() : cause.toString();
    }

    private Context start(Application application) {
        // Stopping an application that was busy, for example with sockets of clients, can keep its class
        // loader on this thread; it has stopped, and the next application would not find its classes.
        Thread.currentThread().setContextClassLoader(Applications.class.getClassLoader());
        StandardContext context = new StandardContext();
        String version = application.versionOfGeneration();
        context.setName(new ContextName(application.path, version).getName());
        context.setPath(application.path);
        context.setWebappVersion(version);
        context.setBackgroundProcessorDelay(BACKGROUND_SECONDS);
        context.setDocBase(application.unpacked.toString());
        context.setWorkDir(application.place.pages().toString());
        context.setReloadable(settings.getProperty("reload_classes", "no").equals("yes"));
        context.setJarScanner(JarScan.scanner(System.getProperty("java.class.path", "")));
        File descriptor = application.unpacked.resolve("META-INF/context.xml").toFile();
        if (descriptor.isFile()) {
            try {
                context.setConfigFile(descriptor.toURI().toURL());
            } catch (java.net.MalformedURLException exception) {
                throw new IllegalStateException(exception);
            }
        }
        context.addLifecycleListener(event -> {
            if (Lifecycle.CONFIGURE_START_EVENT.equals(event.getType())) {
                configure(context, application);
            }
        });
        context.addLifecycleListener(new Tomcat.DefaultWebXmlListener());
        if (application.source.isFile()) {
            context.addLifecycleListener(event -> {
                // Pages of a WAR change only with the WAR, so requests need not check them.
                if (Lifecycle.BEFORE_START_EVENT.equals(event.getType())
                        && context.findChild("jsp") instanceof Wrapper pages) {
                    pages.addInitParameter("development", "false");
                    // One call for a kilobyte of a page's text instead of one for each line, so that Java
                    // compiles pages faster. Only debuggers that step through a page need lines.
                    pages.addInitParameter("mappedfile", "false");
                }
            });
        }
        ContextConfig config = new KeepsWork();
        config.setDefaultWebXml(Constants.NoDefaultWebXml);
        context.addLifecycleListener(config);
        // Runs after the listener that reads web.xml, which clears these settings if web.xml does not name
        // them.
        context.addLifecycleListener(event -> {
            if (Lifecycle.CONFIGURE_START_EVENT.equals(event.getType())) {
                useUsualEncodings(context);
            }
        });
        try {
            host.addChild(context);
        } catch (RuntimeException exception) {
            discard(context);
            throw exception;
        }
        if (context.getLoader() != null) {
            loaders.note(context.getLoader().getClassLoader());
        }
        if (!context.getState().isAvailable()) {
            discard(context);
            throw new Refused();
        }
        return context;
    }

    /** The files that Tomcat keeps for an application are removed with its {@link Place}, or outlast it. */
    private static final class KeepsWork extends ContextConfig {
        @Override
        protected synchronized void destroy() {
            // Tomcat's own implementation would remove it, even if another application has it by then.
        }
    }

    /** Tomcat has already logged why an application is not started; a stack trace would add no information.
    * */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused() {
            super("Tomcat refused it; the lines above contain the reason");
        }
    }

    /**
     * As in Tomcat's own conf/web.xml: forms and texts are in UTF-8 unless the application sets another
     * encoding.
     */
    private static void useUsualEncodings(Context context) {
        if (context.getRequestCharacterEncoding() == null) {
            context.setRequestCharacterEncoding(StandardCharsets.UTF_8.name());
        }
        if (context.getResponseCharacterEncoding() == null) {
            context.setResponseCharacterEncoding(StandardCharsets.UTF_8.name());
        }
    }

    /**
     * The settings of every application: sessions that outlast a reload, and a System.exit that ends only the
     * request.
     */
    private void configure(StandardContext context, Application application) {
        if (context.getManager() == null) {
            // Not in the context's own directory, which is removed with it.
            context.setManager(new Sessions(work.resolve("sessions-" + application.fileName() + ".ser")));
        }
        if (context.getLoader() != null
                && context.getLoader().getClassLoader() instanceof WebappClassLoaderBase loader) {
            loader.addTransformer(new ExitGuard.Transformer());
        }
    }

    private void remove(Application application) {
        if (application.context != null) {
            discard(application.context);
            application.context = null;
        }
    }

    private void discard(Context context) {
        try {
            host.removeChild(context);
        } catch (RuntimeException exception) {
            LOG.warn("the application " + context.getName() + " could not be stopped cleanly", exception);
        }
    }

    /** Notes which applications are not simply running. */
    private void note() {
        List<Application> found = new ArrayList<>();
        for (Application application : running.values()) {
            if (application.state != Application.State.RUNNING) {
                found.add(application);
            }
        }
        unusual = found.isEmpty() ? null : found.toArray(new Application[0]);
        synchronized (this) {
            notifyAll();
        }
        askAgain();
    }

    /** Makes the server submit waiting requests again. */
    private void askAgain() {
        if (hasHeld) {
            Native.resume(id);
        }
    }

    /** Waits until no application is being started. */
    synchronized void awaitStart() throws InterruptedException {
        while (isStarting()) {
            wait(1000);
        }
    }

    /** Whether an application is being started. */
    boolean isStarting() {
        return running.values().stream()
                .anyMatch(application -> application.state == Application.State.STARTING);
    }

    /** Whether every application can receive requests; called for each request. */
    boolean areAllAvailable() {
        return unusual == null;
    }

    /** Writes an error page of the container. */
    void report(Request request, Response response, Throwable failure) {
        errors.report(request, response, failure);
    }

    /**
     * The state of a request: normal, or {@link Exchange#WAITS}, or its application cannot be used.
     */
    int standing(RequestReader reader) {
        String path =
                new String(reader.bytes(), reader.pathStart, reader.pathLength, StandardCharsets.ISO_8859_1);
        Application application = unusualFor(path);
        if (application == null) {
            return Exchange.DONE;
        }
        if (application.state == Application.State.FAILED) {
            return Exchange.UNAVAILABLE;
        }
        hasHeld = true;
        return Exchange.WAITS;
    }

    private Application unusualFor(String path) {
        Application found = null;
        Application[] candidates = unusual;
        for (Application application : candidates == null ? new Application[0] : candidates) {
            boolean isBelow = path.startsWith(application.path)
                    && (path.length() == application.path.length() || application.path.isEmpty()
                            || path.charAt(application.path.length()) == '/');
            boolean isNearer = found == null || application.path.length() > found.path.length();
            if (isBelow && isNearer && !isTakenByNearer(path, application)) {
                found = application;
            }
        }
        return found;
    }

    /**
     * Whether another running application has the path, because its own is longer or it is a later version.
     */
    private boolean isTakenByNearer(String path, Application unusualOne) {
        for (Application application : running.values()) {
            boolean isNearer = application.path.length() > unusualOne.path.length()
                    || application.path.equals(unusualOne.path) && application != unusualOne;
            if (isNearer && application.state == Application.State.RUNNING
                    && (path.equals(application.path) || path.startsWith(application.path + "/"))) {
                return true;
            }
        }
        return false;
    }
}
