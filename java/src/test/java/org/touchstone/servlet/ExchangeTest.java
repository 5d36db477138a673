package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ExchangeTest {

    @TempDir
    Path directory;

    @Test
    void aPageIsAnsweredWithoutAServer() throws Exception {
        assertEquals(200, Training.run(directory));
    }
}
