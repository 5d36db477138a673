package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import org.junit.jupiter.api.Test;

class ExitGuardTest {

    /** Calls what is not to be called. */
    public static class Caller {
        public static void call() {
            long wide = System.nanoTime() + 0x123456789AL;
            if (wide != 0) {
                System.exit(3);
            }
        }
    }

    private static byte[] bytesOf(Class<?> type) throws IOException {
        try (InputStream in = type.getResourceAsStream(type.getName().replaceAll(".*\\.", "") + ".class")) {
            return in.readAllBytes();
        }
    }

    @Test
    void exitIsRefused() throws Exception {
        byte[] changed = ExitGuard.rewrite(bytesOf(Caller.class));
        assertNotNull(changed);
        ClassLoader loader = new ClassLoader(getClass().getClassLoader()) {
            @Override
            protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
                return name.equals(Caller.class.getName())
                        ? defineClass(name, changed, 0, changed.length) : super.loadClass(name, resolve);
            }
        };
        Class<?> caller = loader.loadClass(Caller.class.getName());
        // Without a server there is no log, which is as good a proof that the guard was called.
        Throwable thrown = assertThrows(
                InvocationTargetException.class, () -> caller.getMethod("call").invoke(null)).getCause();
        assertTrue(thrown instanceof UnsatisfiedLinkError || thrown instanceof SecurityException,
                thrown.toString());
    }

    @Test
    void otherClassesAreLeftAlone() throws IOException {
        assertNull(ExitGuard.rewrite(bytesOf(RequestReader.class)));
    }
}
