package org.touchstone.servlet;

import java.lang.management.ClassLoadingMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.lang.management.MemoryUsage;

/** The state of the virtual machine for operators: memory, collections, classes and threads. */
final class MachineStatus {

    private MachineStatus() {
    }

    /** Writes it into an object. */
    static void describe(Json json) {
        json.text("version", System.getProperty("java.version", ""));
        json.number("started_ms", ManagementFactory.getRuntimeMXBean().getStartTime());
        MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
        MemoryUsage heap = memory.getHeapMemoryUsage();
        json.number("heap_used_bytes", heap.getUsed());
        json.number("heap_committed_bytes", heap.getCommitted());
        json.number("heap_most_bytes", heap.getMax());
        json.number("other_used_bytes", memory.getNonHeapMemoryUsage().getUsed());
        ClassLoadingMXBean classes = ManagementFactory.getClassLoadingMXBean();
        json.number("classes", classes.getLoadedClassCount());
        json.number("classes_unloaded", classes.getUnloadedClassCount());
        json.number("threads", ManagementFactory.getThreadMXBean().getThreadCount());
        json.list("collectors");
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            json.object();
            json.text("name", collector.getName());
            json.number("collections", Math.max(0, collector.getCollectionCount()));
            json.number("time_ms", Math.max(0, collector.getCollectionTime()));
            json.number("last_ms", lastMilliseconds(collector));
            json.end();
        }
        json.end();
    }

    /** How long the last collection took; 0 if the machine does not report it. */
    private static long lastMilliseconds(GarbageCollectorMXBean collector) {
        if (collector instanceof com.sun.management.GarbageCollectorMXBean known
                && known.getLastGcInfo() != null) {
            return known.getLastGcInfo().getDuration();
        }
        return 0;
    }
}
