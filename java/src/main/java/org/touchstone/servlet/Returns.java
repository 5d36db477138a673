package org.touchstone.servlet;

import jakarta.servlet.ServletException;
import java.io.IOException;
import org.apache.catalina.connector.Request;
import org.apache.catalina.connector.Response;
import org.apache.catalina.valves.ValveBase;

/**
 * Tells an {@link Exchange} that the application has returned: an answer that is closed before that is sent
 * at once.
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
            }
        }
    }
}
