package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ExchangeTest {

    @TempDir
    Path directory;

    @Test
    void aPageIsAnsweredWithoutAServer() throws Exception {
        assertDoesNotThrow(() -> Training.run(directory));
    }
}
