package org.touchstone.servlet;

import java.net.InetSocketAddress;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.net.AbstractEndpoint;
import org.apache.tomcat.util.net.SocketEvent;
import org.apache.tomcat.util.net.SocketProcessorBase;
import org.apache.tomcat.util.net.SocketWrapperBase;

/** The endpoint that Tomcat requires for a connection after a switch of protocols. It has no listener. */
final class NoEndpoint extends AbstractEndpoint<Integer, Integer> {

    private static final Log LOG = LogFactory.getLog(NoEndpoint.class);

    NoEndpoint() {
        // The server always accepts whole writes, so there are no later completions.
        setUseAsyncIO(false);
    }

    @Override
    protected InetSocketAddress getLocalAddress() {
        return null;
    }

    @Override
    protected SocketProcessorBase<Integer> createSocketProcessor(
            SocketWrapperBase<Integer> wrapper, SocketEvent event) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void bind() {
    }

    @Override
    public void unbind() {
    }

    @Override
    public void startInternal() {
    }

    @Override
    public void stopInternal() {
    }

    @Override
    protected Log getLog() {
        return LOG;
    }

    @Override
    protected void doCloseServerSocket() {
    }

    @Override
    protected Integer serverSocketAccept() {
        throw new UnsupportedOperationException();
    }

    @Override
    protected boolean setSocketOptions(Integer socket) {
        return false;
    }

    @Override
    protected void destroySocket(Integer socket) {
    }
}
