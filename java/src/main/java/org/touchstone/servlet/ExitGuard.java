package org.touchstone.servlet;

import java.io.ByteArrayOutputStream;
import java.lang.instrument.ClassFileTransformer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import org.apache.catalina.loader.WebappClassLoaderBase;

/**
 * Replaces System.exit for applications: it ends the request, not the server.
 *
 * <p>Classes of applications are changed when they are loaded, only in their constant pool: the reference to
 * the method then names another class. Other ways to end the virtual machine (Runtime.halt, native code)
 * still work.
 */
public final class ExitGuard {

    private static final String HERE = "org/touchstone/servlet/ExitGuard";

    private ExitGuard() {
    }

    /**
     * Refuses.
     *
     * @param status the exit status of the application
     */
    public static void exit(int status) {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        String name = loader instanceof WebappClassLoaderBase webapp ? webapp.getContextName() : "unknown";
        String message =
                "the application " + name + " has called System.exit(" + status + "), which is refused";
        Native.log(0, message);
        throw new SecurityException(message);
    }

    /** Changes classes. */
    static final class Transformer implements ClassFileTransformer {
        @Override
        public byte[] transform(
                ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
            try {
                return rewrite(bytes);
            } catch (RuntimeException exception) {
                // A class with an unknown format is not changed; the machine checks it.
                return null;
            }
        }
    }

    /** The class with its calls of System.exit replaced; null if there are none. See JVMS section 4.4. */
    static byte[] rewrite(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        int count = in.getShort(8) & 0xFFFF;
        int[] offsets = new int[count];
        int at = 10;
        for (int index = 1; index < count; index++) {
            offsets[index] = at;
            int tag = bytes[at];
            switch (tag) {
                case 1 -> at += 3 + (in.getShort(at + 1) & 0xFFFF);
                case 7, 8, 16, 19, 20 -> at += 3;
                case 15 -> at += 4;
                case 5, 6 -> {
                    at += 9;
                    index++;
                }
                case 3, 4, 9, 10, 11, 12, 17, 18 -> at += 5;
                default -> throw new IllegalArgumentException("tag " + tag);
            }
        }
        byte[] changed = null;
        for (int index = 1; index < count; index++) {
            int offset = offsets[index];
            if (offset == 0 || bytes[offset] != 10) {
                continue;
            }
            int owner = offsets[in.getShort(offset + 1) & 0xFFFF];
            int nameAndType = offsets[in.getShort(offset + 3) & 0xFFFF];
            boolean isExit = text(in, offsets[in.getShort(owner + 1) & 0xFFFF]).equals("java/lang/System")
                    && text(in, offsets[in.getShort(nameAndType + 1) & 0xFFFF]).equals("exit")
                    && text(in, offsets[in.getShort(nameAndType + 3) & 0xFFFF]).equals("(I)V");
            if (isExit && count + 2 < 0xFFFF) {
                changed = changed == null ? bytes.clone() : changed;
                // The new class entry, after the others.
                ByteBuffer.wrap(changed).putShort(offset + 1, (short) (count + 1));
            }
        }
        if (changed == null) {
            return null;
        }
        byte[] name = HERE.getBytes(StandardCharsets.US_ASCII);
        ByteBuffer added = ByteBuffer.allocate(3 + name.length + 3);
        added.put((byte) 1).putShort((short) name.length).put(name).put((byte) 7).putShort((short) count);
        ByteBuffer.wrap(changed).putShort(8, (short) (count + 2));
        ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length + added.capacity());
        out.write(changed, 0, at);
        out.writeBytes(added.array());
        out.write(changed, at, changed.length - at);
        return out.toByteArray();
    }

    private static String text(ByteBuffer in, int offset) {
        int length = in.getShort(offset + 1) & 0xFFFF;
        return new String(in.array(), offset + 3, length, StandardCharsets.UTF_8);
    }
}
