package org.touchstone.servlet;

import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Enumeration;
import java.util.Properties;
import java.util.ResourceBundle;

/**
 * The English messages of one of Tomcat's packages, which are read when the first of them is needed: Tomcat
 * itself reads those of each package with its first class, but most starts need none.
 *
 * <p>For each package the build makes a class {@code LocalStrings} that extends this one. Java prefers such a
 * class to the file of the same name; this class reads that file.
 */
public abstract class LaterMessages extends ResourceBundle {

    private volatile Properties messages;

    /** For the classes that the build makes. */
    protected LaterMessages() {
    }

    private Properties messages() {
        Properties known = messages;
        if (known == null) {
            known = new Properties();
            try (InputStream in = getClass().getResourceAsStream("LocalStrings.properties")) {
                if (in != null) {
                    known.load(new InputStreamReader(in, StandardCharsets.UTF_8));
                }
            } catch (IOException exception) {
                throw new UncheckedIOException(exception);
            }
            messages = known;
        }
        return known;
    }

    @Override
    protected Object handleGetObject(String key) {
        return messages().getProperty(key);
    }

    @Override
    public Enumeration<String> getKeys() {
        return Collections.enumeration(messages().stringPropertyNames());
    }
}
