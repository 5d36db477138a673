package org.touchstone.servlet;

import org.apache.catalina.valves.ErrorReportValve;

/** Error pages of the container that name neither its version nor the application's classes. */
public final class QuietErrors extends ErrorReportValve {

    /** Made by the host, by name. */
    public QuietErrors() {
        setShowReport(false);
        setShowServerInfo(false);
    }
}
