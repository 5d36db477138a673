package org.touchstone.servlet;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.jakartaee.Info;

/**
 * Converted WARs, stored for the next start: one archive for each application, which is unpacked again at
 * each start. So files that an application writes in its directory do not reappear, and an archive can be
 * replaced while applications run.
 *
 * <p>The files here are executed, so only this user may write to the directory; the server checks this.
 */
final class KeptConversions {

    private static final Log LOG = LogFactory.getLog(KeptConversions.class);

    private static final String ENDING = ".war";

    private final Path directory;

    /** @param directory the directory of the archives */
    KeptConversions(Path directory) {
        this.directory = directory;
    }

    /** The key of a conversion: a hash of all bytes of the WAR, the tool, and its options. */
    static String key(File war, String converts) throws IOException {
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException exception) {
            throw new IllegalStateException("every Java has it", exception);
        }
        digest.update((Info.getVersion() + " " + converts + "\n").getBytes(StandardCharsets.UTF_8));
        byte[] buffer = new byte[1 << 16];
        try (InputStream in = Files.newInputStream(war.toPath())) {
            for (int length = in.read(buffer); length >= 0; length = in.read(buffer)) {
                digest.update(buffer, 0, length);
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Unpacks the stored conversion of an application with this key; false if there is no usable one. */
    boolean take(Application application, String key, Path to) {
        Path archive = archive(application, key);
        if (!Files.isRegularFile(archive)) {
            return false;
        }
        try {
            Preparation.unpack(archive.toFile(), to);
            return true;
        } catch (IOException exception) {
            LOG.warn("the stored conversion of the application " + application.name() + " cannot be read, "
                    + "and it is converted again: " + exception);
            return false;
        }
    }

    /** Stores the conversion of an application, replacing the previous one. */
    void keep(Application application, String key, Path converted) {
        try {
            Path beside = Files.createTempFile(directory, "unfinished-", ".tmp");
            try {
                pack(converted, beside);
                Files.move(beside, archive(application, key), StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(beside);
            }
        } catch (IOException exception) {
            LOG.warn("the converted application " + application.name() + " cannot be stored: "
                    + exception);
        }
        forget(application, key);
    }

    /**
     * Removes the stored conversions of an application except the one with this key; all of them if it is
     * null.
     */
    void forget(Application application, String key) {
        Path current = key == null ? null : archive(application, key);
        File[] files = directory.toFile().listFiles((where, file) -> isOf(application, file));
        for (File file : files == null ? new File[0] : files) {
            if (!file.toPath().equals(current) && !file.delete()) {
                LOG.warn(file + " cannot be removed");
            }
        }
    }

    private Path archive(Application application, String key) {
        return directory.resolve(application.fileName() + "-" + key + ENDING);
    }

    private static boolean isOf(Application application, String file) {
        String begin = application.fileName() + "-";
        return file.startsWith(begin) && file.substring(begin.length()).matches("[0-9a-f]{64}\\" + ENDING);
    }

    private static void pack(Path from, Path archive) throws IOException {
        try (OutputStream out = Files.newOutputStream(archive);
                ZipOutputStream zip = new ZipOutputStream(out)) {
            // Most of it is jars, which are compressed already.
            zip.setLevel(Deflater.BEST_SPEED);
            Files.walkFileTree(from, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult preVisitDirectory(Path visited, BasicFileAttributes attributes)
                        throws IOException {
                    if (!visited.equals(from)) {
                        zip.putNextEntry(new ZipEntry(from.relativize(visited) + "/"));
                        zip.closeEntry();
                    }
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
                        throws IOException {
                    ZipEntry entry = new ZipEntry(from.relativize(file).toString());
                    entry.setLastModifiedTime(attributes.lastModifiedTime());
                    zip.putNextEntry(entry);
                    Files.copy(file, zip);
                    zip.closeEntry();
                    return FileVisitResult.CONTINUE;
                }
            });
        }
        // All of it must be on the disk before it gets its name.
        try (FileChannel channel = FileChannel.open(archive, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }
}
