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
 * A directory that one application at a time uses while it runs: for its unpacked files, and for files that
 * Tomcat keeps for it, such as compiled pages. If two applications run beside each other, because one
 * replaces the other, each has its own; the same applies to those of two servers, if one replaces the other.
 *
 * <p>The first directory of an application is always the same, so that compiled pages are found again after a
 * restart.
 */
final class Place {

    /**
     * The directories of this process. A file lock belongs to the process, and ends when any channel to the
     * file is closed.
     */
    private static final Set<Path> TAKEN = new HashSet<>();

    private static final String FILES = "files";
    private static final String PAGES = "pages";
    private static final String KEY = "pages.key";

    private final Path directory;
    private final FileChannel lock;
    /** Whether it is the directory that is found again. */
    private final boolean isFirst;

    private Place(Path directory, FileChannel lock, boolean isFirst) {
        this.directory = directory;
        this.lock = lock;
        this.isFirst = isFirst;
    }

    /** Takes the first free directory of those with this name. */
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

    /** The unpacked files. */
    Path files() {
        return directory.resolve(FILES);
    }

    /** The files that Tomcat keeps. */
    Path pages() {
        return directory.resolve(PAGES);
    }

    /**
     * Notes what the pages are compiled from and with, and removes pages compiled from other sources.
     * Archives that are built reproducibly give all their files the same time, so times do not distinguish
     * the pages of two versions.
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

    /**
     * Called when the application has ended. Its pages are kept for the next start, unless it was removed.
     */
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
