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

    @Test
    void oldNamesAreFoundInClassesAndJarsAndPages() throws IOException {
        byte[] old = "..Ljavax/servlet/http/HttpServlet;".getBytes(StandardCharsets.US_ASCII);
        assertTrue(Preparation.isOld(war("WEB-INF/classes/A.class", old)));
        assertTrue(Preparation.isOld(war("WEB-INF/lib/a.jar", archive("A.class", old))));
        assertTrue(Preparation.isOld(war("a.jsp", "<%@ page import=\"javax.servlet.http.*\" %>".getBytes(StandardCharsets.US_ASCII))));
        assertFalse(Preparation.isOld(war("WEB-INF/classes/A.class", "Ljakarta/servlet/Servlet;".getBytes(StandardCharsets.US_ASCII))));
        assertFalse(Preparation.isOld(war("notes.txt", old)));
    }

    @Test
    void anArchiveWritesNothingOutsideOfItsDirectory() throws IOException {
        File war = war("../outside.txt", new byte[] {1});
        assertThrows(IOException.class, () -> Preparation.prepare(war, directory.resolve("work/a"), "no"));
        assertFalse(Files.exists(directory.resolve("work/outside.txt")));
        File good = war("inside/a.txt", "text".getBytes(StandardCharsets.US_ASCII));
        Path unpacked = Preparation.prepare(good, directory.resolve("work/a"), "auto");
        assertEquals("text", Files.readString(unpacked.resolve("inside/a.txt")));
        Preparation.remove(unpacked);
        assertFalse(Files.exists(unpacked));
    }
}
