package org.touchstone.servlet;

import jakarta.servlet.ServletConnection;
import java.io.EOFException;
import java.io.IOException;
import java.nio.BufferOverflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.cert.CertificateException;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.apache.catalina.Context;
import org.apache.catalina.connector.CoyoteAdapter;
import org.apache.catalina.connector.Request;
import org.apache.coyote.AbstractProcessor;
import org.apache.coyote.ActionCode;
import org.apache.coyote.ContinueResponseTiming;
import org.apache.coyote.ErrorState;
import org.apache.coyote.InputBuffer;
import org.apache.coyote.OutputBuffer;
import org.apache.coyote.UpgradeToken;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.ExceptionUtils;
import org.apache.tomcat.util.buf.ByteChunk;
import org.apache.tomcat.util.net.AbstractEndpoint.Handler.SocketState;
import org.apache.tomcat.util.net.ApplicationBufferHandler;
import org.apache.tomcat.util.net.DispatchType;
import org.apache.tomcat.util.net.SSLSupport;
import org.apache.tomcat.util.net.SocketEvent;
import org.apache.tomcat.util.net.SocketWrapperBase;

/**
 * One request and its answer, between the two buffers of a slab and Tomcat. It is used for one request after
 * another, until one fails: then a thread of the application may still hold its objects, and another exchange
 * takes its place.
 *
 * <p>A request that is answered at once needs one call from the server and none to the server. The server is
 * called only for the rest: more of a body, an answer longer than the buffer, or a request that runs
 * asynchronously.
 */
final class Exchange extends AbstractProcessor implements InputBuffer, OutputBuffer {

    private static final Log LOG = LogFactory.getLog(Exchange.class);

    /** Results of {@link #serve}, stored above the length of the output in the buffer. */
    static final int DONE = 0;
    static final int GOES_ON = 1 << 28;
    static final int BROKEN = 2 << 28;
    static final int UNAVAILABLE = 3 << 28;
    /** It waits in the server for an application that is being started. */
    static final int WAITS = 4 << 28;

    /** The note in which {@link Returns} finds the exchange. Tomcat's own notes are first. */
    static final int NOTE = 30;

    private final Applications applications;
    private final int slab;
    private final ByteBuffer in;
    private final ByteBuffer out;
    private final ReentrantLock lock = new ReentrantLock();
    private final RequestReader reader = new RequestReader();
    private ByteBuffer body = ByteBuffer.allocate(0);

    private int flags;
    private boolean bodyHasEnded;
    /** It broke off: every further read fails. */
    private boolean bodyHasFailed;
    private boolean swallowsBody;
    private boolean responseIsFinished;
    private long written;
    /** The length of the answer that the application has declared; -1: none, or no body is sent. */
    private long declared = -1;
    /** The server has all of the answer, while the application is still running. */
    private boolean isComplete;
    /** The application has returned: from now on, Tomcat closes the answer. */
    private volatile boolean hasReturned;
    private UpgradeToken upgradeToken;
    /** The connection after a switch of protocols. */
    private UpgradedConnection upgraded;
    /** Identifies the request, so that late events do not affect another one. */
    private volatile int generation;
    private volatile boolean isUnderWay;
    private volatile Thread thread;
    private volatile long startedNanos;
    /** A virtual thread will answer it and has not started yet. */
    private boolean isStarting;
    private boolean clientLeftEarly;
    /** The request has failed or timed out: the exchange answers no other one. */
    private boolean hasFailed;
    private boolean isReplaced;
    /** Where virtual threads wait, because they must not wait in the server. */
    private final Waiting untilReadable = new Waiting();
    private final Waiting untilWritable = new Waiting();

    Exchange(Applications applications, int slab, ByteBuffer in, ByteBuffer out) {
        super(applications.protocol().getAdapter());
        request.getRequestProcessor().setGlobalProcessor(applications.protocol().requests());
        this.applications = applications;
        this.slab = slab;
        this.in = in;
        this.out = out.order(ByteOrder.LITTLE_ENDIAN);
        request.setNote(NOTE, this);
        request.setInputBuffer(this);
        response.setOutputBuffer(this);
    }

    /** Answers the request in the first buffer. */
    int serve(int length) {
        lock.lock();
        try {
            begin(length);
            // It counts as in progress before it checks, so that a thread that replaces an application finds
            // it, or delays it.
            int standing = applications.areAllAvailable() ? DONE : applications.standing(reader);
            if (standing != DONE) {
                end();
                return standing;
            }
            if (applications.hasVirtualThreads()) {
                isStarting = true;
                applications.protocol().getExecutor().execute(this::serveVirtually);
                return GOES_ON;
            }
            SocketState state = process(null, SocketEvent.OPEN_READ);
            return after(state);
        } catch (Throwable failure) {
            return failed(failure);
        } finally {
            thread = null;
            lock.unlock();
        }
    }

    /** Answers the request on a virtual thread; the server is notified at its end. */
    private void serveVirtually() {
        lock.lock();
        try {
            isStarting = false;
            thread = Thread.currentThread();
            request.setRequestThread();
            boolean isDone = goOn(SocketEvent.OPEN_READ);
            if (!isDone && clientLeftEarly) {
                processSocketEvent(SocketEvent.ERROR, true);
            }
            clientLeftEarly = false;
        } finally {
            thread = null;
            lock.unlock();
        }
    }

    /** Continues the request in Tomcat; if that ends it, notifies the server and returns true. */
    private boolean goOn(SocketEvent event) {
        int result;
        try {
            result = after(process(null, event));
        } catch (Throwable failure) {
            result = failed(failure);
        }
        if (result == GOES_ON) {
            return false;
        }
        Native.finish(slab, result & ~BROKEN, (result & BROKEN) == 0);
        return true;
    }

    private void begin(int length) {
        thread = Thread.currentThread();
        isUnderWay = true;
        out.clear().position(ResponseHead.PREFIX);
        out.putInt(0, 0);
        hasReturned = false;
        flags = reader.read(in, length, request);
        generation = reader.number;
        bodyHasEnded = (flags & RequestReader.HAS_BODY) == 0;
        bodyHasFailed = false;
        request.markStartTime();
        startedNanos = request.getStartTimeNanos();
        request.setRequestThread();
    }

    /**
     * The result for the server after Tomcat has returned. The exchange may be reused unless it continues.
     */
    private int after(SocketState state) throws IOException {
        if (state == SocketState.UPGRADING) {
            upgraded = new UpgradedConnection(this, applications.protocol());
            return upgraded.begin(upgradeToken) ? GOES_ON : finish(false);
        }
        if (state == SocketState.LONG) {
            hasReturned = false;
            applications.protocol().addWaiting(this);
            return GOES_ON;
        }
        if (isShort() && getErrorState().isIoAllowed()) {
            LOG.warn("the answer of " + applications.name() + " to " + what() + " has " + written + " bytes, "
                    + "and its Content-Length says " + declared + ": the connection is closed");
        }
        return finish(responseIsFinished && getErrorState().isIoAllowed() && !isShort());
    }

    /** Whether fewer bytes were written than declared. */
    private boolean isShort() {
        return written < declared;
    }

    private int finish(boolean isWhole) {
        int length = out.position();
        end();
        return (isWhole ? DONE : BROKEN) | length;
    }

    /**
     * Tomcat has failed and has not reset its request and response, so this exchange is never used again.
     */
    private int failed(Throwable failure) {
        int result = answerFailure(failure);
        replace();
        return result;
    }

    /** Passes the slab to another exchange, which answers its next request. */
    private void replace() {
        if (!isReplaced) {
            isReplaced = true;
            leaveCounts();
            Host.replace(this, new Exchange(applications, slab, in, out));
        }
    }

    private int answerFailure(Throwable failure) {
        try {
            LOG.error("a request to " + applications.name() + " could not be answered: " + what(), failure);
            if (!response.isCommitted()) {
                bareHead(500);
                return finish(true);
            }
        } catch (Throwable second) {
            // Without memory, reporting is not possible either.
            return finish(false);
        }
        return finish(false);
    }

    private void end() {
        // A thread of a stopped application may be writing.
        synchronized (out) {
            isUnderWay = false;
        }
        applications.protocol().removeWaiting(this);
        request.updateCounters();
        request.recycle();
        response.recycle();
        recycle();
        if (hasFailed) {
            replace();
        }
    }

    /** It answers no more requests: its counts stay in the sum of the route. */
    void leaveCounts() {
        request.getRequestProcessor().setGlobalProcessor(null);
    }

    /** Whether a request is in progress. */
    boolean isUnderWay() {
        return isUnderWay;
    }

    @Override
    public void recycle() {
        super.recycle();
        getIteratorAndClearDispatches();
        setSocketWrapper(null);
        sslSupport = null;
        body = body.capacity() == 0 ? body : body.clear().limit(0);
        swallowsBody = false;
        responseIsFinished = false;
        written = 0;
        declared = -1;
        isComplete = false;
        upgradeToken = null;
        upgraded = null;
    }

    /** Handles an event of an asynchronous request. Called on threads of the server and of Java. */
    void event(SocketEvent event, int expectedGeneration) {
        lock.lock();
        try {
            if (!isUnderWay || generation != expectedGeneration) {
                return;
            }
            if (isStarting) {
                clientLeftEarly |= event == SocketEvent.ERROR;
                return;
            }
            thread = Thread.currentThread();
            if (upgraded != null) {
                upgraded.event(event);
                return;
            }
            if (event == SocketEvent.TIMEOUT && !checkAsyncTimeoutGeneration()) {
                return;
            }
            hasFailed |= event == SocketEvent.TIMEOUT || event == SocketEvent.ERROR;
            if (event == SocketEvent.ERROR && request.getAttribute(ERROR_ATTRIBUTE) == null) {
                request.setAttribute(ERROR_ATTRIBUTE, new IOException("the client has left"));
            }
            applications.protocol().removeWaiting(this);
            goOn(event);
        } finally {
            thread = null;
            lock.unlock();
        }
    }

    private static final String ERROR_ATTRIBUTE = jakarta.servlet.RequestDispatcher.ERROR_EXCEPTION;

    /** An event from the server: 0 may read, 1 may write, 2 the client has disconnected. */
    void serverEvent(int number, int kind) {
        if (!applications.hasVirtualThreads()) {
            event(eventOf(kind), number);
            return;
        }
        if (generation == number && wakesWaiting(kind)) {
            return;
        }
        // The thread that reports the event must not wait for the thread that runs the request.
        applications.protocol().getExecutor().execute(() -> event(eventOf(kind), number));
    }

    /** Wakes a thread that waits for this event. If the client has disconnected, it notices that then. */
    private boolean wakesWaiting(int kind) {
        return switch (kind) {
            case 0 -> untilReadable.end();
            case 1 -> untilWritable.end();
            default -> {
                untilReadable.end();
                untilWritable.end();
                yield false;
            }
        };
    }

    private static SocketEvent eventOf(int kind) {
        return kind == 0 ? SocketEvent.OPEN_READ
                : kind == 1 ? SocketEvent.OPEN_WRITE : SocketEvent.ERROR;
    }

    /** Called when the connection after a switch of protocols has ended. */
    void upgradedIsClosed() {
        int length = out.position();
        end();
        Native.finish(slab, length, true);
    }

    // --- Called by the watchers.

    /** How long a thread has been running the request, in seconds; negative: none is. */
    long secondsAtWork(long nowNanos) {
        return thread == null ? -1 : (nowNanos - startedNanos) / 1_000_000_000L;
    }

    Thread threadAtWork() {
        return thread;
    }

    /** A description for the log only: it may already be that of the next request. */
    String what() {
        return request.getMethod() + " " + request.requestURI();
    }

    // --- Called by Tomcat to write the answer.

    @Override
    protected SocketState service(SocketWrapperBase<?> none) throws IOException {
        try {
            if (isSane()) {
                getAdapter().service(request, response);
            } else {
                response.setStatus(400);
                setErrorState(ErrorState.CLOSE_CLEAN, null);
            }
        } catch (Throwable failure) {
            ExceptionUtils.handleThrowable(failure);
            LOG.error("an error in the servlet container", failure);
            response.setStatus(500);
            setErrorState(ErrorState.CLOSE_NOW, failure);
        }
        if (getErrorState().isError()) {
            action(ActionCode.CLOSE, null);
            return SocketState.CLOSED;
        }
        if (isAsync()) {
            endFailedAsync();
            return SocketState.LONG;
        }
        if (isUpgrade()) {
            return SocketState.UPGRADING;
        }
        action(ActionCode.CLOSE, null);
        return SocketState.CLOSED;
    }

    /**
     * Completes a request whose servlet has thrown an exception after startAsync(), if no listener has done
     * so: it could never end otherwise. Tomcat's own connector ends the connection with an error.
     */
    private void endFailedAsync() {
        Object thrown = request.getAttribute(ERROR_ATTRIBUTE);
        if (thrown instanceof Throwable failure
                && request.getNote(CoyoteAdapter.ADAPTER_NOTES) instanceof Request mapped
                && !mapped.isAsyncCompleting() && !mapped.isAsyncDispatching()) {
            action(ActionCode.ASYNC_COMPLETE, null);
            if (!response.isCommitted()) {
                mapped.getResponse().setSuspended(false);
                applications.report(mapped, mapped.getResponse(), failure);
            }
        }
    }

    /** Checks the request where Tomcat is stricter than the server. */
    private boolean isSane() {
        return request.requestURI().getLength() > 0;
    }

    @Override
    protected void prepareResponse() throws IOException {
        synchronized (out) {
            checkUnderWay();
            writeHead();
        }
    }

    private void writeHead() {
        response.setCommitted(true);
        int status = response.getStatus();
        swallowsBody = status < 200 || status == 204 || status == 205 || status == 304
                || (flags & RequestReader.IS_HEAD) != 0;
        try {
            long length = ResponseHead.write(response, out);
            declared = swallowsBody ? -1 : length;
        } catch (BufferOverflowException overflow) {
            LOG.error("an answer's header fields are longer than " + out.capacity() + " bytes: "
                    + applications.name() + " " + what());
            bareHead(500);
        }
    }

    /** Writes a head without fields, instead of an invalid one. The server's error page follows. */
    private void bareHead(int status) {
        out.position(ResponseHead.PREFIX);
        response.setCommitted(false);
        response.reset();
        response.setStatus(status);
        response.setCommitted(true);
        swallowsBody = true;
        declared = -1;
        ResponseHead.write(response, out);
    }

    @Override
    protected void finishResponse() throws IOException {
        // Tomcat calls this more than once.
        boolean isFirst = !responseIsFinished;
        boolean hasTrailers = isFirst && !swallowsBody && response.getTrailerFields() != null;
        responseIsFinished = true;
        if (hasTrailers) {
            sendTrailers(response.getTrailerFields());
        }
        if (isFirst && !hasReturned) {
            complete();
        }
    }

    /**
     * The application has closed the answer, or written all of its stated length: it is sent before the call
     * returns.
     */
    private void complete() {
        boolean switches = upgradeToken != null || response.getStatus() == 101;
        if (isUnderWay && !isComplete && !switches && !isShort()
                && getErrorState().isIoAllowed() && !getErrorState().isError()) {
            isComplete = true;
            Native.complete(slab, out.position());
        }
    }

    /** The application has returned from a call. */
    void hasReturned() {
        hasReturned = true;
    }

    /** An asynchronous request has failed: one of its threads may still write after its end. */
    void hasFailed() {
        hasFailed = true;
    }

    /** Sends the trailers. */
    private void sendTrailers(Supplier<Map<String, String>> supplier) throws IOException {
        // They need the buffer.
        drain(0);
        try {
            Map<String, String> fields = supplier.get();
            if (fields != null) {
                ResponseHead.trailers(fields, out);
                Native.trailers(slab, out.position());
            }
        } catch (RuntimeException failure) {
            // They do not fit, or the application has thrown an exception: without them the answer is
            // incomplete.
            LOG.error(
                    "the trailers of " + applications.name() + " " + what() + " could not be sent", failure);
            setErrorState(ErrorState.CLOSE_NOW, failure);
        }
        out.position(ResponseHead.PREFIX);
    }

    @Override
    protected boolean isTrailerFieldsSupported() {
        if (request.protocol().equals("HTTP/1.0")) {
            return false;
        }
        // Once the head is sent, only a chunked answer can have trailers.
        return !request.protocol().equals("HTTP/1.1") || !response.isCommitted() || declared < 0;
    }

    @Override
    protected void flush() throws IOException {
        if (!isComplete && (out.position() > ResponseHead.PREFIX || out.getInt(0) > 0)) {
            drain(Native.FLUSH);
        }
    }

    @Override
    public int doWrite(ByteBuffer chunk) throws IOException {
        if (!response.isCommitted()) {
            action(ActionCode.COMMIT, null);
        }
        int length = chunk.remaining();
        if (swallowsBody || responseIsFinished) {
            chunk.position(chunk.limit());
            return length;
        }
        if (declared < 0) {
            append(chunk);
            return length;
        }
        // Bytes beyond the declared length are dropped, as by Tomcat's own connector.
        int limit = chunk.limit();
        chunk.limit(chunk.position() + (int) Math.min(length, declared - written));
        append(chunk);
        chunk.limit(limit).position(limit);
        if (written == declared && response.getTrailerFields() == null && !hasReturned) {
            responseIsFinished = true;
            complete();
        }
        return length;
    }

    /** Copies bytes to the buffer, and sends it whenever it is full. */
    void append(ByteBuffer chunk) throws IOException {
        while (true) {
            synchronized (out) {
                checkUnderWay();
                int limit = chunk.limit();
                int length = Math.min(chunk.remaining(), out.remaining());
                chunk.limit(chunk.position() + length);
                out.put(chunk);
                chunk.limit(limit);
                written += length;
                if (!chunk.hasRemaining()) {
                    return;
                }
                drainNow(waits() ? 0 : Native.NO_WAIT, true);
            }
            awaitRoom(waits());
        }
    }

    /** Whether a write may wait for the client. */
    private boolean waits() {
        return response.getWriteListener() == null && upgraded == null;
    }

    /** The slab may already belong to another request. */
    private void checkUnderWay() throws IOException {
        if (!isUnderWay) {
            throw new IOException("the request has ended");
        }
    }

    void drain(int drainFlags) throws IOException {
        drainNow(waits() ? drainFlags : drainFlags | Native.NO_WAIT, true);
        awaitRoom(waits());
    }

    /** Waits for the client here: a virtual thread must not wait in the server. */
    void awaitRoom(boolean mayWait) {
        if (mayWait && applications.hasVirtualThreads()) {
            untilWritable.await(() -> Native.canWrite(slab), () -> { });
        }
    }

    void drainNow(int drainFlags, boolean checks) throws IOException {
        int result;
        int all = applications.hasVirtualThreads() ? drainFlags | Native.NO_WAIT : drainFlags;
        synchronized (out) {
            checkUnderWay();
            result = Native.drain(slab, out.position(), all);
            out.position(ResponseHead.PREFIX);
            out.putInt(0, 0);
        }
        if (result == Native.REFUSED) {
            LOG.error("the answer of " + applications.name() + " to " + what()
                    + " cannot be sent, for the reason above");
        }
        if (checks && result != 0) {
            throw new IOException(
                    result == Native.GONE ? "the client has left" : "the answer cannot be sent");
        }
    }

    @Override
    public long getBytesWritten() {
        return written;
    }

    @Override
    protected boolean isReadyForWrite() {
        return Native.canWrite(slab);
    }

    @Override
    protected boolean flushBufferedWrite() {
        return false;
    }

    @Override
    protected void ack(ContinueResponseTiming timing) {
        boolean isNow = timing == ContinueResponseTiming.ALWAYS
                || timing == ContinueResponseTiming.ON_REQUEST_BODY_READ;
        if (isNow && isUnderWay && request.hasExpectation() && !response.isCommitted()) {
            Native.acknowledge(slab);
        }
    }

    @Override
    protected void earlyHints() throws IOException {
        synchronized (out) {
            checkUnderWay();
            // The buffer is empty: Tomcat calls this only before the head.
            try {
                ResponseHead.hints(response, out);
                Native.earlyHints(slab, out.position());
            } catch (BufferOverflowException overflow) {
                LOG.warn("early hints are longer than " + out.capacity() + " bytes: "
                        + applications.name() + " " + what());
            }
            out.position(ResponseHead.PREFIX);
        }
    }

    @Override
    protected void setSwallowResponse() {
        swallowsBody = true;
    }

    // --- Called by Tomcat to read the request's body.

    @Override
    public int doRead(ApplicationBufferHandler handler) throws IOException {
        if (!body.hasRemaining() && !load(request.getReadListener() == null)) {
            return bodyHasEnded ? -1 : 0;
        }
        int length = body.remaining();
        // A copy, because Tomcat overwrites the bytes after the data when it pushes bytes back.
        ByteBuffer piece =
                ByteBuffer.wrap(body.array(), body.arrayOffset() + body.position(), length).slice();
        body.position(body.limit());
        handler.setByteBuffer(piece);
        return length;
    }

    /** Reads more of the body; false if there is none yet, or no more. */
    private boolean load(boolean waits) throws IOException {
        checkUnderWay();
        if (bodyHasEnded) {
            return false;
        }
        int count = bodyHasFailed ? Native.GONE : fill(waits);
        if (count == Native.GONE) {
            bodyHasFailed = true;
            throw new EOFException("the body of the request is incomplete");
        }
        if (count == Native.END) {
            endBody();
            return false;
        }
        if (count > 0) {
            byte[] piece = new byte[count];
            in.get(0, piece, 0, count);
            body = ByteBuffer.wrap(piece);
        }
        return count > 0;
    }

    /** Copies a part of the body to the first buffer; a virtual thread waits for it here. */
    int fill(boolean waits) {
        if (!waits || !applications.hasVirtualThreads()) {
            return Native.fill(slab, waits);
        }
        int count = Native.fill(slab, false);
        while (count == 0) {
            untilReadable.await(() -> Native.available(slab) != 0, () -> Native.wantRead(slab));
            count = Native.fill(slab, false);
        }
        return count;
    }

    /** The body was read to its end; trailers may follow (RFC 9110 section 6.5). */
    private void endBody() {
        bodyHasEnded = true;
        int length = Native.requestTrailers(slab);
        if (length > 0) {
            byte[] lines = new byte[length];
            in.get(0, lines, 0, length);
            TrailerFields.read(lines, request.getMimeTrailerFields());
        }
    }

    @Override
    public int available() {
        return available(false);
    }

    @Override
    protected int available(boolean doRead) {
        if (doRead && !body.hasRemaining()) {
            try {
                load(false);
            } catch (IOException exception) {
                // As in Tomcat's own connector: the application reads, and that read fails.
                return 1;
            }
        }
        return body.hasRemaining()
                ? body.remaining() : Math.max(0, bodyHasEnded ? 0 : Native.available(slab));
    }

    @Override
    protected void setRequestBody(ByteChunk replayed) {
        body = ByteBuffer.wrap(replayed.getBytes(), replayed.getStart(), replayed.getLength()).slice();
        bodyHasEnded = true;
    }

    @Override
    protected boolean isRequestBodyFullyRead() {
        if (!bodyHasEnded && !body.hasRemaining() && Native.available(slab) == Native.END) {
            endBody();
        }
        return bodyHasEnded && !body.hasRemaining();
    }

    @Override
    protected void registerReadInterest() {
        Native.wantRead(slab);
    }

    @Override
    protected void disableSwallowRequest() {
        // The server drops the rest of the body.
    }

    @Override
    protected boolean isTrailerFieldsReady() {
        return isRequestBodyFullyRead();
    }

    // --- Events, threads, and facts about the connection.

    @Override
    protected void processSocketEvent(SocketEvent event, boolean dispatch) {
        int current = generation;
        if (dispatch) {
            applications.protocol().getExecutor().execute(() -> event(event, current));
        } else {
            event(event, current);
        }
    }

    @Override
    protected void execute(Runnable runnable) {
        applications.protocol().getExecutor().execute(runnable);
    }

    @Override
    protected void executeDispatches() {
        Iterator<DispatchType> dispatches = getIteratorAndClearDispatches();
        while (dispatches != null && dispatches.hasNext()) {
            processSocketEvent(dispatches.next().getSocketStatus(), true);
        }
    }

    @Override
    protected SocketState dispatchEndRequest() {
        action(ActionCode.CLOSE, null);
        return isUpgrade() ? SocketState.UPGRADING : SocketState.CLOSED;
    }

    @Override
    protected boolean getPopulateRequestAttributesFromSocket() {
        return false;
    }

    @Override
    protected void populateSslRequestAttributes() {
        if (reader.tlsVersion == null) {
            return;
        }
        request.setAttribute(SSLSupport.SECURE_PROTOCOL_KEY, reader.tlsVersion);
        request.setAttribute(SSLSupport.CIPHER_SUITE_KEY, reader.cipherSuite);
        request.setAttribute(SSLSupport.KEY_SIZE_KEY, Integer.valueOf(reader.keyBits));
        if (reader.clientSubject != null) {
            request.setAttribute("org.touchstone.tls.client_subject", reader.clientSubject);
        }
        try {
            Object certificates = reader.certificates();
            if (certificates != null) {
                request.setAttribute(SSLSupport.CERTIFICATE_KEY, certificates);
            }
        } catch (CertificateException exception) {
            LOG.warn("the client's certificate cannot be read: " + applications.name() + " " + what(),
                    exception);
        }
    }

    @Override
    protected ServletConnection getServletConnection() {
        boolean isSecure = (flags & RequestReader.IS_SECURE) != 0;
        return new Connection(Long.toString(reader.connection), alpnName(), isSecure);
    }

    /** The name of the protocol in ALPN (RFC 7301). */
    private String alpnName() {
        String protocol = request.protocol().toString();
        return switch (protocol) {
            case "HTTP/2.0" -> "h2";
            case "HTTP/3.0" -> "h3";
            default -> protocol.toLowerCase(Locale.ROOT);
        };
    }

    @Override
    protected Object getProtocolRequestId() {
        return reader.stream < 0 ? "" : Long.toString(reader.stream);
    }

    /** The facts about the connection for a servlet. */
    private record Connection(String getConnectionId, String getProtocol, boolean isSecure)
            implements ServletConnection {
        @Override
        public String getProtocolConnectionId() {
            return "";
        }
    }

    @Override
    protected void doHttpUpgrade(UpgradeToken token) {
        upgradeToken = token;
    }

    @Override
    public UpgradeToken getUpgradeToken() {
        return upgradeToken;
    }

    @Override
    public boolean isUpgrade() {
        return upgradeToken != null;
    }

    @Override
    public ByteBuffer getLeftoverInput() {
        return null;
    }

    @Override
    public void pause() {
        // The server itself stops accepting requests.
    }

    @Override
    protected Log getLog() {
        return LOG;
    }

    // --- Called by a thread that replaces an application.

    boolean belongsTo(Applications others) {
        return applications == others;
    }

    /**
     * Whether the request is in an application, or may be. Called by another thread than the answering one.
     */
    boolean isIn(Context context) {
        if (!isUnderWay) {
            return false;
        }
        Object found = context();
        return found == null || found == context;
    }

    /**
     * Ends the answer at its present length, if the request is certainly in this application, not in another.
     */
    void cutIfIn(Context context) {
        if (isUnderWay && context() == context) {
            Native.cut(slab);
        }
    }

    /** The application of the request; null if unknown, or if the request has ended there. */
    private Object context() {
        UpgradeToken token = upgradeToken;
        if (token != null) {
            return token.contextBind();
        }
        Object mapped = request.getNote(CoyoteAdapter.ADAPTER_NOTES);
        return mapped instanceof Request known ? known.getContext() : null;
    }

    // --- Called by the connection after a switch of protocols.

    String applicationsName() {
        return applications.name();
    }

    int slab() {
        return slab;
    }

    ReentrantLock lock() {
        return lock;
    }

    ByteBuffer in() {
        return in;
    }

    int generation() {
        return generation;
    }
}
