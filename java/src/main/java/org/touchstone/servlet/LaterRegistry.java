package org.touchstone.servlet;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.modeler.ManagedBean;
import org.apache.tomcat.util.modeler.Registry;

/**
 * Tomcat's MBean registry, which registers no bean before the first applications run: reading the
 * descriptions of all beans takes a third of Tomcat's start time, and no request needs them.
 */
final class LaterRegistry extends Registry {

    private static final Log LOG = LogFactory.getLog(LaterRegistry.class);

    private final Map<ObjectName, Bean> waiting = new LinkedHashMap<>();
    private final Queue<Package> packages = new ConcurrentLinkedQueue<>();
    /**
     * Held while descriptions are read, so that a bean that is being registered is not reported as missing. A
     * thread that holds the registry may wait for it, not the other way round.
     */
    private final Object describing = new Object();
    private boolean hasBegun;

    private record Bean(Object object, String type) {
    }

    private record Package(String name, ClassLoader loader) {
    }

    /** Replaces Tomcat's own registry; null if this Tomcat stores it elsewhere, and uses its own. */
    static LaterRegistry install() {
        try {
            Field field = Registry.class.getDeclaredField("registry");
            field.setAccessible(true);
            LaterRegistry registry = new LaterRegistry();
            field.set(null, registry);
            return registry;
        } catch (ReflectiveOperationException exception) {
            LOG.debug("MBeans are registered at once", exception);
            return null;
        }
    }

    /** Registers the waiting beans, and from now on each bean at once. */
    void begin() {
        synchronized (this) {
            hasBegun = true;
        }
        describe();
        while (registerNext()) {
            // One at a time, so that an application that starts at the same time need not wait for all.
            Thread.yield();
        }
    }

    /** Reads the requested descriptions. */
    private void describe() {
        synchronized (describing) {
            for (Package one = packages.poll(); one != null; one = packages.poll()) {
                super.loadDescriptors(one.name(), one.loader());
            }
        }
    }

    /**
     * Tomcat requests the descriptions of an application's resources (JNDI) while it starts, and logs that
     * there are none. Applications without resources do not wait for them.
     */
    @Override
    public ManagedBean findManagedBean(String name) {
        ManagedBean found = super.findManagedBean(name);
        if (found == null) {
            describe();
            found = super.findManagedBean(name);
        }
        return found;
    }

    private synchronized boolean registerNext() {
        if (waiting.isEmpty()) {
            return false;
        }
        ObjectName name = waiting.keySet().iterator().next();
        Bean bean = waiting.remove(name);
        try {
            super.registerComponent(bean.object(), name, bean.type());
        } catch (Exception exception) {
            LOG.warn("the MBean " + name + " could not be registered", exception);
        }
        return true;
    }

    @Override
    public synchronized void registerComponent(Object object, ObjectName name, String type) throws Exception {
        if (hasBegun) {
            super.registerComponent(object, name, type);
        } else {
            waiting.put(name, new Bean(object, type));
        }
    }

    @Override
    public synchronized void unregisterComponent(ObjectName name) {
        if (name != null && waiting.remove(name) == null) {
            super.unregisterComponent(name);
        }
    }

    @Override
    public void loadDescriptors(String name, ClassLoader loader) {
        synchronized (this) {
            if (!hasBegun) {
                packages.add(new Package(name, loader));
                return;
            }
        }
        super.loadDescriptors(name, loader);
    }

    @Override
    public MBeanServer getMBeanServer() {
        synchronized (this) {
            if (hasBegun) {
                return super.getMBeanServer();
            }
        }
        // Tomcat requests it while it starts, and calls it later.
        return (MBeanServer) Proxy.newProxyInstance(LaterRegistry.class.getClassLoader(),
                new Class<?>[] {MBeanServer.class}, (proxy, method, arguments) -> {
                    try {
                        return method.invoke(ManagementFactory.getPlatformMBeanServer(), arguments);
                    } catch (InvocationTargetException failure) {
                        throw failure.getCause();
                    }
                });
    }
}
