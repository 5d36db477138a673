package org.touchstone.servlet;

/** What to do about faults whose messages say only that something is missing. */
enum Hint {

    /** An application that another server has brought the tags for. */
    TAGS("Tomcat has no JSTL: put jakarta.servlet.jsp.jstl and its API, version 3.0, into WEB-INF/lib of the "
            + "application, or name both jars in class_path of [java]",
            "cannot be resolved in either web.xml or the jar files", "java.sun.com/jsp/jstl",
            "jakarta.tags."),

    /** An application of before Jakarta EE 9 that was not recognised. */
    OLD_NAMES("the application was written for javax.servlet: set convert = \"yes\" for its route",
            "", "NoClassDefFoundError: javax/servlet/", "ClassNotFoundException: javax.servlet.",
            "javax.servlet cannot be resolved",
            "imported. javax.servlet.");

    private final String advice;
    private final String always;
    private final String[] oneOf;

    /**
     * @param advice what to do
     * @param always what the message says in any case
     * @param oneOf of which it says one
     */
    Hint(String advice, String always, String... oneOf) {
        this.advice = advice;
        this.always = always;
        this.oneOf = oneOf;
    }

    private boolean isFor(String message) {
        if (!message.contains(always)) {
            return false;
        }
        for (String one : oneOf) {
            if (message.contains(one)) {
                return true;
            }
        }
        return false;
    }

    /** The advice for a message, in front of which it is to stand in the log; empty: there is none. */
    static String forMessage(String message) {
        for (Hint hint : values()) {
            if (hint.isFor(message)) {
                return "(" + hint.advice + ") ";
            }
        }
        return "";
    }
}
