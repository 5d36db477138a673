package org.touchstone.servlet;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The name of an address that the server listens on, for {@code getLocalName}. It is looked up once, on its
 * own thread: requests do not wait for a name server, and get the address until the name is available.
 */
final class LocalName {

    /** No address. */
    static final LocalName NONE = new LocalName("");

    /** Names of this machine's addresses that requests have used, so there are few. */
    private static final Map<String, LocalName> KNOWN = new ConcurrentHashMap<>();

    private final String address;
    private volatile String text;

    private LocalName(String address) {
        this.address = address;
        this.text = address;
    }

    /** The name of a numeric address. */
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
            // This does not resolve the digits, only looks up the name for them.
            InetAddress found = InetAddress.getByName(address);
            if (!found.isAnyLocalAddress()) {
                text = found.getHostName();
            }
        } catch (UnknownHostException exception) {
            // It is not an address of this machine: it keeps its digits.
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
