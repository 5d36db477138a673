package org.touchstone.servlet;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.Set;

/**
 * A directory that one application at a time uses while it runs: for what it is unpacked to, and for what
 * Tomcat keeps for it, such as compiled pages. Two that run beside each other, because one replaces the
 * other, have two; so have those of two servers, because one takes over from the other.
 *
 * <p>The first of an application is always the same, so that pages that were compiled are found again
 * after a restart.
 */
final class Place {

    /**
     * Those of this process. A lock of a file is the process's, and ends when any channel to the file is
     * closed.
     */
    private static final Set<Path> TAKEN = new HashSet<>();

    private static final String FILES = "files";
    private static final String PAGES = "pages";
    private static final String KEY = "pages.key";

    private final Path directory;
    private final FileChannel lock;
    /** The one that is found again. */
    private final boolean isFirst;

    private Place(Path directory, FileChannel lock, boolean isFirst) {
        this.directory = directory;
        this.lock = lock;
        this.isFirst = isFirst;
    }

    /** Takes the first that is free of those with this name. */
    static Place take(Path parent, String name) throws IOException {
        Files.createDirectories(parent);
        Path whole = parent.toRealPath();
        for (int number = 0;; number++) {
            Path directory = whole.resolve(number == 0 ? name : name + "~" + number);
            synchronized (TAKEN) {
                FileChannel lock = TAKEN.contains(directory) ? null : lock(directory);
                if (lock != null) {
                    TAKEN.add(directory);
                    Files.createDirectories(directory.resolve(PAGES));
                    return new Place(directory, lock, number == 0);
                }
            }
        }
    }

    private static FileChannel lock(Path directory) throws IOException {
        Path file = directory.resolveSibling(directory.getFileName() + ".lock");
        FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        FileLock lock = channel.tryLock();
        if (lock == null) {
            channel.close();
            return null;
        }
        return channel;
    }

    /** What the application is unpacked to. */
    Path files() {
        return directory.resolve(FILES);
    }

    /** What Tomcat keeps for it. */
    Path pages() {
        return directory.resolve(PAGES);
    }

    /**
     * Says what the pages are compiled from and with; those of anything else are removed. Archives that
     * are built reproducibly give all their files one time, so that times do not tell one version's pages
     * from another's.
     */
    void keepPagesOf(String key) throws IOException {
        Path file = directory.resolve(KEY);
        boolean isSame = Files.isRegularFile(file) && Files.readString(file).equals(key);
        if (!isSame) {
            Preparation.remove(pages());
            Files.createDirectories(pages());
            Files.writeString(file, key);
        }
    }

    /** The application has ended. Its pages stay where they are found again, unless it is gone for good. */
    void giveBack(boolean isGone) throws IOException {
        try {
            Preparation.remove(isGone || !isFirst ? directory : files());
        } finally {
            synchronized (TAKEN) {
                lock.close();
                TAKEN.remove(directory);
            }
        }
    }
}
