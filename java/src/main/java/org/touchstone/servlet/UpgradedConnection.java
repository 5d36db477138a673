package org.touchstone.servlet;

import jakarta.servlet.http.HttpUpgradeHandler;
import jakarta.servlet.http.WebConnection;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.coyote.Processor;
import org.apache.coyote.UpgradeToken;
import org.apache.coyote.http11.upgrade.InternalHttpUpgradeHandler;
import org.apache.coyote.http11.upgrade.UpgradeProcessorExternal;
import org.apache.coyote.http11.upgrade.UpgradeProcessorInternal;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.net.AbstractEndpoint.Handler.SocketState;
import org.apache.tomcat.util.net.ApplicationBufferHandler;
import org.apache.tomcat.util.net.SSLSupport;
import org.apache.tomcat.util.net.SendfileDataBase;
import org.apache.tomcat.util.net.SendfileState;
import org.apache.tomcat.util.net.SocketBufferHandler;
import org.apache.tomcat.util.net.SocketEvent;
import org.apache.tomcat.util.net.SocketWrapperBase;

/**
 * A connection after a switch of protocols, such as WebSocket: bytes in both directions, through the slab of
 * the request that switched.
 */
final class UpgradedConnection extends SocketWrapperBase<Integer> {

    private static final Log LOG = LogFactory.getLog(UpgradedConnection.class);
    private static final int BUFFER_BYTES = 8192;

    private final Exchange exchange;
    private final InProcessProtocol protocol;
    private final int generation;
    private Processor processor;
    private boolean hasEnded;

    UpgradedConnection(Exchange exchange, InProcessProtocol protocol) {
        super(Integer.valueOf(exchange.slab()), protocol.endpoint());
        this.exchange = exchange;
        this.protocol = protocol;
        this.generation = exchange.generation();
        socketBufferHandler = new SocketBufferHandler(BUFFER_BYTES, BUFFER_BYTES, false);
        remoteAddr = exchange.getRequest().remoteAddr().toString();
        remoteHost = remoteAddr;
        remotePort = exchange.getRequest().getRemotePort();
        localAddr = exchange.getRequest().localAddr().toString();
        localName = exchange.getRequest().localName().toString();
        localPort = exchange.getRequest().getLocalPort();
    }

    /** Passes the connection to its handler; false if it has already ended. */
    boolean begin(UpgradeToken token) throws IOException {
        HttpUpgradeHandler handler = token.httpUpgradeHandler();
        // The head is sent first: the client waits for the status 101.
        exchange.drain(Native.FLUSH);
        processor = handler instanceof InternalHttpUpgradeHandler
                ? new UpgradeProcessorInternal(this, token, null)
                : new External(token);
        setCurrentProcessor(processor);
        within(token, () -> handler.init((WebConnection) processor));
        registerReadInterest();
        return true;
    }

    /** For handlers that close the connection themselves, on any thread. */
    private final class External extends UpgradeProcessorExternal {
        External(UpgradeToken token) {
            super(UpgradedConnection.this, token, null);
        }

        @Override
        public void close() throws IOException {
            try {
                super.close();
            } catch (IOException | RuntimeException exception) {
                throw exception;
            } catch (Exception exception) {
                throw new IOException(exception);
            } finally {
                UpgradedConnection.this.close();
            }
        }
    }

    private interface Action {
        void run() throws IOException;
    }

    private static void within(UpgradeToken token, Action action) throws IOException {
        if (token.instanceManager() == null) {
            action.run();
            return;
        }
        ClassLoader before = token.contextBind().bind(null);
        try {
            action.run();
        } finally {
            token.contextBind().unbind(before);
        }
    }

    /**
     * Bytes may be read or written, or the client has disconnected. Called with the exchange's lock held.
     */
    void event(SocketEvent event) {
        SocketState state = SocketState.CLOSED;
        try {
            state = processor.process(this, event);
        } catch (IOException exception) {
            LOG.debug("an upgraded connection has ended", exception);
        } catch (RuntimeException exception) {
            LOG.error("an upgraded connection has failed", exception);
        }
        if (state == SocketState.CLOSED) {
            cleanUp();
        } else if (event != SocketEvent.OPEN_WRITE) {
            registerReadInterest();
        }
    }

    private void cleanUp() {
        UpgradeToken token = processor.getUpgradeToken();
        try {
            within(token, () -> token.httpUpgradeHandler().destroy());
            if (token.instanceManager() != null) {
                token.instanceManager().destroyInstance(token.httpUpgradeHandler());
            }
        } catch (Exception exception) {
            LOG.error("an upgraded connection could not be ended", exception);
        }
        close();
        exchange.upgradedIsClosed();
    }

    @Override
    public int read(boolean block, byte[] bytes, int offset, int length) throws IOException {
        return read(block, ByteBuffer.wrap(bytes, offset, length));
    }

    @Override
    public int read(boolean block, ByteBuffer to) throws IOException {
        int held = populateReadBuffer(to);
        if (held > 0) {
            return held;
        }
        int count = hasEnded ? Native.END : exchange.fill(block);
        if (count < 0) {
            hasEnded = true;
            if (count == Native.GONE) {
                throw new EOFException("the client has left");
            }
            return -1;
        }
        int taken = Math.min(count, to.remaining());
        to.put(to.position(), exchange.in(), 0, taken);
        to.position(to.position() + taken);
        int left = count - taken;
        if (left > 0) {
            socketBufferHandler.expand(left);
            socketBufferHandler.configureReadBufferForWrite();
            ByteBuffer buffer = socketBufferHandler.getReadBuffer();
            buffer.put(exchange.in().duplicate().limit(count).position(taken));
        }
        return taken;
    }

    @Override
    public boolean isReadyForRead() throws IOException {
        socketBufferHandler.configureReadBufferForRead();
        if (socketBufferHandler.getReadBuffer().hasRemaining()) {
            return true;
        }
        return Native.available(exchange.slab()) != 0;
    }

    @Override
    protected void doWrite(boolean block, ByteBuffer from) throws IOException {
        exchange.append(from);
        exchange.drainNow(block ? Native.FLUSH : Native.FLUSH | Native.NO_WAIT, true);
        exchange.awaitRoom(block);
    }

    /** The server accepts all bytes; {@link #isReadyForWrite} says when to stop. */
    @Override
    protected boolean flushNonBlocking() throws IOException {
        if (!socketBufferHandler.isWriteBufferEmpty()) {
            doWrite(false);
        }
        return false;
    }

    @Override
    public boolean isReadyForWrite() {
        return Native.canWrite(exchange.slab());
    }

    @Override
    public void registerReadInterest() {
        Native.wantRead(exchange.slab());
    }

    @Override
    public void registerWriteInterest() {
        if (Native.canWrite(exchange.slab())) {
            processSocket(SocketEvent.OPEN_WRITE, true);
        }
    }

    @Override
    public void processSocket(SocketEvent event, boolean dispatch) {
        if (dispatch) {
            execute(() -> exchange.event(event, generation));
        } else {
            exchange.event(event, generation);
        }
    }

    @Override
    public void execute(Runnable runnable) throws RejectedExecutionException {
        protocol.getExecutor().execute(runnable);
    }

    /** Handlers may close on any thread; the slab is returned under the exchange's lock. */
    @Override
    public void close() {
        if (closed.compareAndSet(false, true)) {
            doClose();
        }
    }

    @Override
    protected void doClose() {
        execute(() -> exchange.event(SocketEvent.ERROR, generation));
    }

    @Override
    public void setAppReadBufHandler(ApplicationBufferHandler handler) {
        // Reads copy the data.
    }

    @Override
    protected void populateRemoteHost() {
        // Known from the beginning, like the others.
    }

    @Override
    protected void populateRemoteAddr() {
    }

    @Override
    protected void populateRemotePort() {
    }

    @Override
    protected void populateLocalName() {
    }

    @Override
    protected void populateLocalAddr() {
    }

    @Override
    protected void populateLocalPort() {
    }

    @Override
    public SendfileDataBase createSendfileData(String filename, long position, long length) {
        throw new UnsupportedOperationException();
    }

    @Override
    public SendfileState processSendfile(SendfileDataBase data) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void doClientAuth(SSLSupport support) {
        // The server has requested certificates in the handshake, or not.
    }

    @Override
    public SSLSupport getSslSupport() {
        return null;
    }

    @Override
    public ReentrantLock getLock() {
        return exchange.lock();
    }

    @Override
    protected <A> OperationState<A> newOperationState(boolean read, ByteBuffer[] buffers, int offset,
            int length, BlockingMode block, long timeout, TimeUnit unit, A attachment, CompletionCheck check,
            CompletionHandler<Long, ? super A> handler, java.util.concurrent.Semaphore semaphore,
            VectoredIOCompletionHandler<A> completion) {
        throw new UnsupportedOperationException();
    }
}
