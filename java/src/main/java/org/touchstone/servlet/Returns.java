package org.touchstone.servlet;

import jakarta.servlet.RequestDispatcher;
import jakarta.servlet.ServletException;
import java.io.IOException;
import org.apache.catalina.connector.Request;
import org.apache.catalina.connector.Response;
import org.apache.catalina.valves.ValveBase;

/**
 * Notifies an {@link Exchange} that the application has returned: an answer that is closed before that is
 * sent at once. An exchange whose asynchronous request has failed is not used again.
 */
final class Returns extends ValveBase {

    Returns() {
        super(true);
    }

    @Override
    public void invoke(Request request, Response response) throws IOException, ServletException {
        try {
            getNext().invoke(request, response);
        } finally {
            if (request.getCoyoteRequest().getNote(Exchange.NOTE) instanceof Exchange exchange) {
                exchange.hasReturned();
                if (request.getAsyncContextInternal() != null
                        && request.getAttribute(RequestDispatcher.ERROR_EXCEPTION) != null) {
                    exchange.hasFailed();
                }
            }
        }
    }
}
