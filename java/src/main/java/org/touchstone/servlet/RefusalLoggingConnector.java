package org.touchstone.servlet;

import java.io.EOFException;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.connector.Request;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;

/**
 * A connector that logs uploads and forms which Tomcat has refused, or which broke off: applications often
 * only see none.
 */
final class RefusalLoggingConnector extends Connector {

    private static final Log LOG = LogFactory.getLog(RefusalLoggingConnector.class);

    private final Applications applications;

    RefusalLoggingConnector(InProcessProtocol protocol, Applications applications) {
        super(protocol);
        this.applications = applications;
    }

    @Override
    public Request createRequest(org.apache.coyote.Request coyoteRequest) {
        return new RefusalLoggingRequest(coyoteRequest);
    }

    private final class RefusalLoggingRequest extends Request {
        RefusalLoggingRequest(org.apache.coyote.Request coyoteRequest) {
            super(RefusalLoggingConnector.this, coyoteRequest);
        }

        @Override
        public void recycle() {
            Exception refusal = partsParseException != null ? partsParseException : parametersParseException;
            if (refusal != null && isCutOff(refusal)) {
                LOG.info("the form or upload of " + getMethod() + " " + getRequestURI() + " ("
                        + getContentLengthLong() + " bytes) to " + applications.name()
                        + " broke off: the client has left");
            } else if (refusal != null) {
                LOG.warn("the form or upload of " + getMethod() + " " + getRequestURI() + " ("
                        + getContentLengthLong() + " bytes) to " + applications.name() + " was refused: "
                        + refusal.getMessage()
                        + " (limits: form_size of the route, and multipart-config of the application)");
            }
            super.recycle();
        }

        private boolean isCutOff(Throwable refusal) {
            return refusal instanceof EOFException
                    || refusal.getCause() != null && isCutOff(refusal.getCause());
        }
    }
}
