package org.touchstone.servlet;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Predicate;
import org.apache.coyote.Adapter;
import org.apache.coyote.ProtocolHandler;
import org.apache.coyote.RequestGroupInfo;
import org.apache.coyote.UpgradeProtocol;
import org.apache.tomcat.util.net.SSLHostConfig;

/** The protocol of a connector without sockets: requests arrive as calls from the server. */
final class InProcessProtocol implements ProtocolHandler {

    private final String id;
    private final Set<Exchange> waiting = ConcurrentHashMap.newKeySet();
    private final NoEndpoint endpoint = new NoEndpoint();
    /** The sum of the request counts, as in Tomcat's own connectors. */
    private final RequestGroupInfo requests = new RequestGroupInfo();
    private Adapter adapter;
    private Executor executor;
    private ScheduledExecutorService utilityExecutor;

    InProcessProtocol(String id, Executor executor) {
        this.id = id;
        this.executor = executor;
    }

    RequestGroupInfo requests() {
        return requests;
    }

    NoEndpoint endpoint() {
        return endpoint;
    }

    /** Adds a request that continues asynchronously and has its own time limit. */
    void addWaiting(Exchange exchange) {
        waiting.add(exchange);
    }

    void removeWaiting(Exchange exchange) {
        if (!waiting.isEmpty()) {
            waiting.remove(exchange);
        }
    }

    /** Ends requests whose time is over; called about once a second. */
    void tick() {
        long now = System.currentTimeMillis();
        waiting.forEach(exchange -> exchange.timeoutAsync(now));
    }

    /** Ends the time of asynchronous requests, and waits a moment until they have ended. */
    void endWaiting(Predicate<Exchange> which) {
        waiting.stream().filter(which).forEach(exchange -> exchange.timeoutAsync(-1));
        try {
            for (int looks = 0; looks < 20 && waiting.stream().anyMatch(which); looks++) {
                Thread.sleep(50);
            }
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public Adapter getAdapter() {
        return adapter;
    }

    @Override
    public void setAdapter(Adapter adapter) {
        this.adapter = adapter;
    }

    @Override
    public Executor getExecutor() {
        return executor;
    }

    @Override
    public void setExecutor(Executor executor) {
        this.executor = executor;
    }

    @Override
    public ScheduledExecutorService getUtilityExecutor() {
        return utilityExecutor;
    }

    @Override
    public void setUtilityExecutor(ScheduledExecutorService utilityExecutor) {
        this.utilityExecutor = utilityExecutor;
    }

    @Override
    public String getId() {
        return id;
    }

    @Override
    public void init() {
    }

    @Override
    public void start() {
    }

    @Override
    public void pause() {
    }

    @Override
    public void resume() {
    }

    @Override
    public void stop() {
    }

    @Override
    public void destroy() {
    }

    @Override
    public void closeServerSocketGraceful() {
    }

    @Override
    public long awaitConnectionsClose(long waitMillis) {
        return waitMillis;
    }

    @Override
    public boolean isSendfileSupported() {
        return false;
    }

    @Override
    public void addSslHostConfig(SSLHostConfig sslHostConfig) {
    }

    @Override
    public void addSslHostConfig(SSLHostConfig sslHostConfig, boolean replace) {
    }

    @Override
    public SSLHostConfig[] findSslHostConfigs() {
        return new SSLHostConfig[0];
    }

    @Override
    public void addUpgradeProtocol(UpgradeProtocol upgradeProtocol) {
    }

    @Override
    public UpgradeProtocol[] findUpgradeProtocols() {
        return new UpgradeProtocol[0];
    }
}
