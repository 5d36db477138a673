package org.touchstone.servlet;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;

/**
 * The class loaders of a route's applications that are still in memory: after a replacement there are more
 * than applications for some time, and permanently if an object still refers to old classes.
 */
final class ClassLoaders {

    private final List<WeakReference<ClassLoader>> known = new ArrayList<>();

    synchronized void note(ClassLoader loader) {
        known.add(new WeakReference<>(loader));
    }

    synchronized int count() {
        known.removeIf(reference -> reference.get() == null);
        return known.size();
    }
}
