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
import java.util.Enumeration;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipInputStream;
import org.apache.tomcat.jakartaee.EESpecProfiles;
import org.apache.tomcat.jakartaee.Migration;

/**
 * Makes a WAR ready to be run: unpacks it, and converts one that was written for {@code javax.servlet}. The source is
 * never changed.
 */
final class Preparation {

    private static final byte[] OLD_NAME = "javax/servlet/".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] OLD_TAG = "import=\"javax.servlet".getBytes(StandardCharsets.US_ASCII);

    private Preparation() {
    }

    /** The directory that the application is run from: below {@code work}, or the source itself. */
    static Path prepare(File source, Path work, String converts) throws IOException {
        boolean isOld = switch (converts) {
            case "yes" -> true;
            case "no" -> false;
            default -> isOld(source);
        };
        if (source.isDirectory() && !isOld) {
            return source.toPath();
        }
        Files.createDirectories(work.getParent());
        remove(work);
        if (!isOld) {
            unpack(source, work);
            return work;
        }
        File converted = new File(work + (source.isDirectory() ? "" : ".war"));
        Migration migration = new Migration();
        migration.setEESpecProfile(EESpecProfiles.TOMCAT);
        // Converting archives in memory keeps those right whose entries say nothing of their length.
        migration.setZipInMemory(true);
        migration.setSource(source);
        migration.setDestination(converted);
        migration.execute();
        if (!source.isDirectory()) {
            unpack(converted, work);
            Files.delete(converted.toPath());
        }
        return work;
    }

    /** Whether it uses the names of before Jakarta EE 9. */
    static boolean isOld(File source) throws IOException {
        if (!source.isDirectory()) {
            try (InputStream in = Files.newInputStream(source.toPath())) {
                return hasOldNames(new ZipInputStream(new BufferedInputStream(in)), 0);
            }
        }
        boolean[] found = {false};
        Files.walkFileTree(source.toPath(), new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                String name = file.toString();
                if (name.endsWith(".jar")) {
                    try (ZipInputStream zip = new ZipInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
                        found[0] = hasOldNames(zip, 1);
                    }
                } else if (isLookedAt(name)) {
                    found[0] = isOld(Files.readAllBytes(file));
                }
                return found[0] ? FileVisitResult.TERMINATE : FileVisitResult.CONTINUE;
            }
        });
        return found[0];
    }

    private static boolean hasOldNames(ZipInputStream zip, int depth) throws IOException {
        for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
            String name = entry.getName();
            if (isLookedAt(name) && isOld(zip.readAllBytes())) {
                return true;
            }
            if (depth == 0 && name.startsWith("WEB-INF/lib/") && name.endsWith(".jar")
                    && hasOldNames(new ZipInputStream(zip), 1)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isLookedAt(String name) {
        return name.endsWith(".class") || name.endsWith(".jsp") || name.endsWith(".jspx") || name.endsWith(".tag");
    }

    private static boolean isOld(byte[] content) {
        return contains(content, OLD_NAME) || contains(content, OLD_TAG);
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

    private static void unpack(File war, Path to) throws IOException {
        Files.createDirectories(to);
        try (ZipFile zip = new ZipFile(war)) {
            Enumeration<? extends ZipEntry> entries = zip.entries();
            while (entries.hasMoreElements()) {
                ZipEntry entry = entries.nextElement();
                Path path = to.resolve(entry.getName()).normalize();
                if (!path.startsWith(to)) {
                    throw new IOException("the archive has a file outside of itself: " + entry.getName());
                }
                if (entry.isDirectory()) {
                    Files.createDirectories(path);
                    continue;
                }
                Files.createDirectories(path.getParent());
                try (InputStream in = zip.getInputStream(entry)) {
                    Files.copy(in, path, StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
    }

    /** Removes a directory with all that is in it. */
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
