package org.touchstone.servlet;

import java.io.BufferedInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.Enumeration;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipInputStream;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.jakartaee.EESpecProfiles;
import org.apache.tomcat.jakartaee.Migration;

/**
 * Prepares a WAR: unpacks it, and converts one that was written for {@code javax.servlet}. The source is
 * never changed.
 */
final class Preparation {

    private static final Log LOG = LogFactory.getLog(Preparation.class);

    private static final byte[] OLD_NAME = "javax/servlet/".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] OLD_WORD = "javax.servlet.".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NEW_NAME = "jakarta/servlet/".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NEW_WORD = "jakarta.servlet.".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NEW_SCHEMA =
            "jakarta.ee/xml/ns/jakartaee".getBytes(StandardCharsets.US_ASCII);

    /** The suffixes of pages, and of files that are included in them. */
    private static final List<String> PAGES = List.of(".jsp", ".jspx", ".jspf", ".tag", ".tagx");

    private Preparation() {
    }

    /**
     * The directory that the application runs from: below {@code work}, or the source itself.
     *
     * @param converts whether to convert it: yes, no, or auto
     * @param kept the store for conversions; null if there is none
     */
    static Path prepare(Application application, Path work, String converts, KeptConversions kept)
            throws IOException {
        File source = application.source;
        if (source.isDirectory()) {
            if (!isOld(source.toPath(), converts)) {
                return source.toPath();
            }
            Files.createDirectories(work.getParent());
            remove(work);
            convert(application, source, work);
            return work;
        }
        Files.createDirectories(work.getParent());
        remove(work);
        String key = kept == null || converts.equals("no") ? null : KeptConversions.key(source, converts);
        if (key != null && kept.take(application, key, work)) {
            LOG.info("the application " + application.name() + " was converted at an earlier start");
            return work;
        }
        remove(work);
        unpack(source, work);
        if (!isOld(work, converts)) {
            if (kept != null) {
                kept.forget(application, null);
            }
            return work;
        }
        // A whole WAR in memory is copied again for each of its entries: one of 35 MB took a minute.
        Path unpacked = work.resolveSibling(work.getFileName() + "-source");
        try {
            remove(unpacked);
            Files.move(work, unpacked);
            convert(application, unpacked.toFile(), work);
        } finally {
            remove(unpacked);
        }
        // If the WAR was replaced during the conversion, it will be converted again soon, and must not be
        // stored with the old key.
        if (key != null && key.equals(KeptConversions.key(source, converts))) {
            kept.keep(application, key, work);
        }
        return work;
    }

    private static void convert(Application application, File source, Path to) throws IOException {
        LOG.info("the application " + application.name()
                + " is converted from javax.servlet to jakarta.servlet");
        Migration migration = new Migration();
        migration.setEESpecProfile(EESpecProfiles.TOMCAT);
        // Archives whose entries have no length are converted correctly only in memory.
        migration.setZipInMemory(true);
        migration.setSource(source);
        migration.setDestination(to.toFile());
        migration.execute();
        copyTimes(source.toPath(), to);
    }

    /** Copies the times of files, because clients cache them and compiled pages are compared with them. */
    private static void copyTimes(Path from, Path to) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Path converted = to.resolve(from.relativize(file));
                if (Files.isRegularFile(converted)) {
                    Files.setLastModifiedTime(converted, attributes.lastModifiedTime());
                }
                return FileVisitResult.CONTINUE;
            }
        });
    }

    /** Whether to convert an application: yes, no, or if it uses the names from before Jakarta EE 9. */
    static boolean isOld(Path source, String converts) throws IOException {
        return switch (converts) {
            case "yes" -> true;
            case "no" -> false;
            default -> isOld(source);
        };
    }

    private static boolean isOld(Path source) throws IOException {
        Names names = new Names();
        Files.walkFileTree(source, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                try (InputStream in = new BufferedInputStream(Files.newInputStream(file))) {
                    names.see(source.relativize(file).toString(), in);
                }
                return names.isOwnOld ? FileVisitResult.TERMINATE : FileVisitResult.CONTINUE;
            }
        });
        return names.areOld();
    }

    /**
     * Which names an application uses. Its own classes, pages and descriptor decide. If they use neither, its
     * libraries do: many of those have classes for both, or for optional features.
     */
    private static final class Names {
        boolean isOwnOld;
        private boolean isOwnNew;
        private boolean hasOldLibrary;
        private boolean hasNewLibrary;

        boolean areOld() {
            return isOwnOld || !isOwnNew && hasOldLibrary && !hasNewLibrary;
        }

        void see(String name, InputStream content) throws IOException {
            if (name.equals("WEB-INF/web.xml")) {
                isOwnNew |= contains(content.readAllBytes(), NEW_SCHEMA);
            } else if (isLookedAt(name)) {
                byte[] bytes = content.readAllBytes();
                // A page may import in either quotes, several at once, or name classes where it uses them;
                // comments and texts may contain the names too, so a page with both names counts as new.
                boolean isNewPage = !name.endsWith(".class") && contains(bytes, NEW_WORD);
                boolean isOldPage = !name.endsWith(".class") && contains(bytes, OLD_WORD);
                isOwnOld |= contains(bytes, OLD_NAME) || isOldPage && !isNewPage;
                isOwnNew |= contains(bytes, NEW_NAME) || isNewPage;
            } else if (!isOwnNew && name.startsWith("WEB-INF/lib/") && name.endsWith(".jar")) {
                seeLibrary(new ZipInputStream(content));
            }
        }

        private void seeLibrary(ZipInputStream zip) throws IOException {
            boolean isOld = false;
            boolean isNew = false;
            for (ZipEntry entry = zip.getNextEntry(); entry != null && !(isOld && isNew);
                    entry = zip.getNextEntry()) {
                if (isLookedAt(entry.getName())) {
                    byte[] bytes = zip.readAllBytes();
                    isOld |= contains(bytes, OLD_NAME);
                    isNew |= contains(bytes, NEW_NAME);
                }
            }
            hasOldLibrary |= isOld && !isNew;
            hasNewLibrary |= isNew && !isOld;
        }
    }

    private static boolean isLookedAt(String name) {
        return name.endsWith(".class") || PAGES.stream().anyMatch(name::endsWith);
    }

    private static boolean contains(byte[] content, byte[] what) {
        for (int at = 0; at + what.length <= content.length; at++) {
            int same = 0;
            while (same < what.length && content[at + same] == what[same]) {
                same++;
            }
            if (same == what.length) {
                return true;
            }
        }
        return false;
    }

    /** Unpacks an archive into a directory. */
    static void unpack(File war, Path to) throws IOException {
        Files.createDirectories(to);
        try (ZipFile zip = new ZipFile(war)) {
            Enumeration<? extends ZipEntry> entries = zip.entries();
            while (entries.hasMoreElements()) {
                ZipEntry entry = entries.nextElement();
                Path path = to.resolve(entry.getName()).normalize();
                if (!path.startsWith(to)) {
                    throw new IOException(
                            "an entry of the archive is outside of its directory: " + entry.getName());
                }
                if (entry.isDirectory()) {
                    Files.createDirectories(path);
                    continue;
                }
                Files.createDirectories(path.getParent());
                // ZipFile does not compare the checksums.
                CRC32 checksum = new CRC32();
                try (InputStream in = new CheckedInputStream(zip.getInputStream(entry), checksum)) {
                    Files.copy(in, path, StandardCopyOption.REPLACE_EXISTING);
                }
                if (entry.getCrc() != -1 && entry.getCrc() != checksum.getValue()) {
                    throw new IOException("an entry of the archive is damaged: " + entry.getName());
                }
                FileTime time = entry.getLastModifiedTime();
                if (time != null) {
                    Files.setLastModifiedTime(path, time);
                }
            }
        }
    }

    /** Removes a directory with its contents. */
    static void remove(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        Files.walkFileTree(directory, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path visited, IOException failure) throws IOException {
                Files.delete(visited);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}
