package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeptConversionsTest {

    @TempDir
    Path directory;

    private Path place;
    private KeptConversions kept;
    private Application application;

    @BeforeEach
    void makeDirectory() throws IOException {
        place = Files.createDirectory(directory.resolve("converted"));
        kept = new KeptConversions(place);
        application = new Application("/a", "", directory.resolve("a.war").toFile());
    }

    private void write(String name, String page) throws IOException {
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(application.source.toPath()))) {
            for (String entry : new String[] {name, "WEB-INF/deep/er/"}) {
                zip.putNextEntry(new ZipEntry(entry));
                if (!entry.endsWith("/")) {
                    zip.write(page.getBytes(StandardCharsets.US_ASCII));
                }
                zip.closeEntry();
            }
        }
    }

    private Path prepare(String converts) throws IOException {
        return Preparation.prepare(application, directory.resolve("work/a"), converts, kept);
    }

    private List<String> files() throws IOException {
        try (Stream<Path> files = Files.list(place)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    private static final String PAGE = "<%@ page import=\"javax.servlet.http.*\" %>";
    private static final String CONVERTED = "<%@ page import=\"jakarta.servlet.http.*\" %>";

    @Test
    void aSecondStartDoesNotConvertAgain() throws IOException {
        write("a.jsp", PAGE);
        Path first = prepare("auto");
        assertEquals(CONVERTED, Files.readString(first.resolve("a.jsp")));
        String key = KeptConversions.key(application.source, "auto");
        assertEquals(List.of("a-" + key + ".war"), files());
        // What the application writes among its files stays out of what is kept.
        Files.writeString(first.resolve("a.jsp"), "changed");
        Path archive = place.resolve(files().get(0));
        Path marked = directory.resolve("marked");
        assertTrue(kept.take(application, key, marked));
        assertEquals(CONVERTED, Files.readString(marked.resolve("a.jsp")));
        assertTrue(Files.isDirectory(marked.resolve("WEB-INF/deep/er")));
        // Only what is kept has this page: it is what the second start takes.
        Files.writeString(marked.resolve("mark.txt"), "kept");
        kept.keep(application, key, marked);
        assertEquals("kept", Files.readString(prepare("auto").resolve("mark.txt")));
        assertTrue(Files.exists(archive));
    }

    @Test
    void anotherWarOrAnotherWordIsConvertedAnew() throws IOException {
        write("a.jsp", PAGE);
        prepare("auto");
        List<String> before = files();
        write("a.jsp", PAGE + " ");
        assertEquals(CONVERTED + " ", Files.readString(prepare("auto").resolve("a.jsp")));
        List<String> after = files();
        assertEquals(1, after.size(), "in the place of the one before");
        assertNotEquals(before, after);
        assertEquals(CONVERTED + " ", Files.readString(prepare("yes").resolve("a.jsp")));
        assertNotEquals(after, files());
        assertEquals(PAGE + " ", Files.readString(prepare("no").resolve("a.jsp")));
    }

    @Test
    void whatIsKeptOfOthersStays() throws IOException {
        write("a.jsp", PAGE);
        String key = KeptConversions.key(application.source, "auto");
        Files.writeString(place.resolve("a-b-" + key + ".war"), "another application");
        Files.writeString(place.resolve("a##2-" + key + ".war"), "another version");
        prepare("auto");
        assertEquals(3, files().size());
        write("a.jsp", "no page of old names");
        prepare("auto");
        assertEquals(List.of("a##2-" + key + ".war", "a-b-" + key + ".war"), files());
    }

    @Test
    void whatIsBrokenIsConvertedAgain() throws IOException {
        write("a.jsp", PAGE);
        prepare("auto");
        Path archive = place.resolve(files().get(0));
        byte[] whole = Files.readAllBytes(archive);
        for (int length : new int[] {0, whole.length / 2}) {
            Files.write(archive, java.util.Arrays.copyOf(whole, length));
            assertEquals(CONVERTED, Files.readString(prepare("auto").resolve("a.jsp")));
            assertEquals(whole.length, Files.size(archive), "it is whole again");
        }
    }

    @Test
    void aPlaceThatCannotBeWrittenToCostsNothingElse() throws IOException {
        write("a.jsp", PAGE);
        Files.delete(place);
        Files.writeString(place, "a file");
        assertEquals(CONVERTED, Files.readString(prepare("auto").resolve("a.jsp")));
        assertFalse(kept.take(application, "0", directory.resolve("b")));
    }
}
