package org.touchstone.servlet;

import org.apache.catalina.connector.Request;
import org.apache.catalina.connector.Response;
import org.apache.catalina.valves.ErrorReportValve;

/**
 * Error pages of the container that name neither its version nor the application's classes. They show the
 * text that an application passes to {@code sendError(code, text)}, unless that is switched off.
 */
final class QuietErrors extends ErrorReportValve {

    private final WithText withText;

    QuietErrors(boolean showsText) {
        setShowReport(false);
        setShowServerInfo(false);
        withText = showsText ? new WithText() : null;
    }

    @Override
    protected void report(Request request, Response response, Throwable throwable) {
        boolean hasText = throwable == null && response.getMessage() != null;
        if (hasText && withText != null) {
            withText.setContainer(getContainer());
            withText.report(request, response, null);
        } else {
            super.report(request, response, throwable);
        }
    }

    private static final class WithText extends ErrorReportValve {
        WithText() {
            setShowServerInfo(false);
        }

        @Override
        protected void report(Request request, Response response, Throwable throwable) {
            super.report(request, response, throwable);
        }
    }
}
