package org.touchstone.servlet;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The name of an address that the server listens on, for {@code getLocalName}. It is looked up once, on a
 * thread of its own: requests do not wait for a name server, and see the address until the name is known.
 */
final class LocalName {

    /** The name of no address. */
    static final LocalName NONE = new LocalName("");

    /** Names of the addresses of this machine that requests have come to, so there are few. */
    private static final Map<String, LocalName> KNOWN = new ConcurrentHashMap<>();

    private final String address;
    private volatile String text;

    private LocalName(String address) {
        this.address = address;
        this.text = address;
    }

    /** The name of an address, which is written in digits. */
    static LocalName of(String address) {
        return KNOWN.computeIfAbsent(address, LocalName::lookedUp);
    }

    private static LocalName lookedUp(String address) {
        LocalName name = new LocalName(address);
        Thread thread = new Thread(name::lookUp, "servlet-local-name");
        thread.setDaemon(true);
        thread.start();
        return name;
    }

    private void lookUp() {
        try {
            // Digits are not looked up by this, only the name that belongs to them.
            InetAddress found = InetAddress.getByName(address);
            if (!found.isAnyLocalAddress()) {
                text = found.getHostName();
            }
        } catch (UnknownHostException exception) {
            // It is no address of this machine's: it keeps its digits.
            text = address;
        }
    }

    boolean isOf(String other) {
        return address.equals(other);
    }

    String text() {
        return text;
    }
}
