package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.Random;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PreparationTest {

    @TempDir
    Path directory;

    private static byte[] archive(String name, byte[] content) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(out)) {
            zip.putNextEntry(new ZipEntry(name));
            zip.write(content);
            zip.closeEntry();
        }
        return out.toByteArray();
    }

    private File war(String name, byte[] content) throws IOException {
        Path war = directory.resolve("a.war");
        Files.write(war, archive(name, content));
        return war.toFile();
    }

    private static final byte[] OLD =
            "..Ljavax/servlet/http/HttpServlet;".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NEW =
            "..Ljakarta/servlet/http/HttpServlet;".getBytes(StandardCharsets.US_ASCII);

    private static Application application(File source) {
        return new Application("/a", "", source);
    }

    /** Prepares it without a place for what it is converted to. */
    private static Path prepare(File source, Path work, String converts) throws IOException {
        return Preparation.prepare(application(source), work, converts, null);
    }

    private boolean isOld(File source) throws IOException {
        if (source.isDirectory()) {
            return Preparation.isOld(source.toPath(), "auto");
        }
        Path unpacked = directory.resolve("looked-at");
        Preparation.remove(unpacked);
        Preparation.unpack(source, unpacked);
        return Preparation.isOld(unpacked, "auto");
    }

    @Test
    void oldNamesAreFoundInClassesAndJarsAndPages() throws IOException {
        assertTrue(isOld(war("WEB-INF/classes/A.class", OLD)));
        assertTrue(isOld(war("WEB-INF/lib/a.jar", archive("A.class", OLD))));
        assertTrue(isOld(war(
                "a.jsp",
                "<%@ page import=\"javax.servlet.http.*\" %>".getBytes(StandardCharsets.US_ASCII))));
        for (String page : new String[] {"<%@ page import='javax.servlet.http.Cookie' %>",
            "<%@ page import=\"java.util.*, javax.servlet.http.*\" %>",
            "<% javax.servlet.http.Cookie c = null; %>"}) {
            for (String name : new String[] {"a.jsp", "WEB-INF/a.jspf", "WEB-INF/tags/a.tagx"}) {
                assertTrue(isOld(war(name, page.getBytes(StandardCharsets.US_ASCII))), page);
                byte[] converted = page.replace("javax", "jakarta").getBytes(StandardCharsets.US_ASCII);
                assertFalse(isOld(war(name, converted)), page);
            }
        }
        assertFalse(isOld(war("a.html", "javax.servlet.http".getBytes(StandardCharsets.US_ASCII))));
        assertFalse(isOld(war("WEB-INF/classes/A.class", NEW)));
        assertFalse(isOld(war("notes.txt", OLD)));
        assertTrue(Preparation.isOld(directory, "yes"));
        assertFalse(Preparation.isOld(tree("old-one", "WEB-INF/classes/A.class", OLD).toPath(), "no"));
    }

    @Test
    void librariesWithClassesForBothDoNotMakeAnApplicationOld() throws IOException {
        byte[] old = archive("A.class", OLD);
        byte[] newer = archive("A.class", NEW);
        byte[] both = archive("A.class",
                (new String(OLD, StandardCharsets.US_ASCII) + new String(NEW, StandardCharsets.US_ASCII))
                        .getBytes(StandardCharsets.US_ASCII));
        byte[] schema = "<web-app xmlns=\"https://jakarta.ee/xml/ns/jakartaee\"/>"
                .getBytes(StandardCharsets.US_ASCII);
        assertFalse(isOld(tree("both", "WEB-INF/lib/a.jar", both)));
        assertFalse(isOld(tree("descriptor", "WEB-INF/web.xml", schema, "WEB-INF/lib/a.jar", old)));
        assertFalse(isOld(tree("own", "WEB-INF/classes/A.class", NEW, "WEB-INF/lib/a.jar", old)));
        assertFalse(isOld(tree("libraries", "WEB-INF/lib/a.jar", old, "WEB-INF/lib/b.jar", newer)));
        assertTrue(isOld(tree("old", "WEB-INF/lib/a.jar", old, "WEB-INF/lib/b.jar", both)));
        assertTrue(isOld(tree("wrong", "WEB-INF/web.xml", schema, "WEB-INF/classes/A.class", OLD)));
    }

    private File tree(String name, Object... files) throws IOException {
        Path root = directory.resolve(name);
        for (int at = 0; at < files.length; at += 2) {
            Path file = root.resolve((String) files[at]);
            Files.createDirectories(file.getParent());
            Files.write(file, (byte[]) files[at + 1]);
        }
        return root.toFile();
    }

    @Test
    void whatIsConvertedIsACopy() throws IOException {
        String page = "<%@ page import=\"javax.servlet.http.*\" %>";
        File war = war("pages/a.jsp", page.getBytes(StandardCharsets.US_ASCII));
        Path unpacked = prepare(war, directory.resolve("work/a"), "auto");
        assertEquals(page.replace("javax", "jakarta"), Files.readString(unpacked.resolve("pages/a.jsp")));
        assertFalse(Files.exists(directory.resolve("work/a-source")));
        File tree = tree("tree", "a.jsp", page.getBytes(StandardCharsets.US_ASCII));
        Path converted = prepare(tree, directory.resolve("work/b"), "auto");
        assertEquals(page.replace("javax", "jakarta"), Files.readString(converted.resolve("a.jsp")));
        assertEquals(page, Files.readString(tree.toPath().resolve("a.jsp")));
    }

    @Test
    void aDamagedEntryIsRefused() throws IOException {
        byte[] content = new byte[10_000];
        new Random(1).nextBytes(content);
        File war = war("a.bin", content);
        byte[] bytes = Files.readAllBytes(war.toPath());
        // Random bytes are stored as they are, so the damage is in the content.
        bytes[bytes.length / 2] ^= 1;
        Files.write(war.toPath(), bytes);
        IOException failure = assertThrows(
                IOException.class, () -> Preparation.unpack(war, directory.resolve("damaged")));
        assertEquals("an entry of the archive is damaged: a.bin", failure.getMessage());
    }

    @Test
    void filesKeepTheirTimes() throws IOException {
        FileTime time = FileTime.from(Instant.parse("2020-09-13T12:26:40Z"));
        Path war = directory.resolve("times.war");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(war))) {
            for (String name : new String[] {"a.jsp", "b.html"}) {
                ZipEntry entry = new ZipEntry(name);
                entry.setLastModifiedTime(time);
                zip.putNextEntry(entry);
                zip.write("<% javax.servlet.http.Cookie c = null; %>".getBytes(StandardCharsets.US_ASCII));
                zip.closeEntry();
            }
        }
        KeptConversions kept = new KeptConversions(Files.createDirectory(directory.resolve("kept")));
        for (String converts : new String[] {"no", "yes", "yes"}) {
            Path unpacked = Preparation.prepare(
                    application(war.toFile()), directory.resolve("work/a"), converts, kept);
            assertEquals(time, Files.getLastModifiedTime(unpacked.resolve("a.jsp")), converts);
            assertEquals(time, Files.getLastModifiedTime(unpacked.resolve("b.html")), converts);
        }
    }

    @Test
    void whatIsNotOldIsUnpackedOnly() throws IOException {
        String page = "<%@ page import=\"jakarta.servlet.http.*, javax.servlet.jsp.*\" %>";
        File war = war("a.jsp", page.getBytes(StandardCharsets.US_ASCII));
        Path unpacked = prepare(war, directory.resolve("work/a"), "auto");
        assertEquals(page, Files.readString(unpacked.resolve("a.jsp")));
        File tree = tree("tree", "a.jsp", page.getBytes(StandardCharsets.US_ASCII));
        assertEquals(tree.toPath(), prepare(tree, directory.resolve("work/b"), "auto"));
        assertFalse(Files.exists(directory.resolve("work/b")));
    }

    @Test
    void anArchiveWritesNothingOutsideOfItsDirectory() throws IOException {
        File war = war("../outside.txt", new byte[] {1});
        assertThrows(IOException.class, () -> prepare(war, directory.resolve("work/a"), "no"));
        assertFalse(Files.exists(directory.resolve("work/outside.txt")));
        File good = war("inside/a.txt", "text".getBytes(StandardCharsets.US_ASCII));
        Path unpacked = prepare(good, directory.resolve("work/a"), "no");
        assertEquals("text", Files.readString(unpacked.resolve("inside/a.txt")));
        Preparation.remove(unpacked);
        assertFalse(Files.exists(unpacked));
    }
}
