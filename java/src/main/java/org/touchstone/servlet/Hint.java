package org.touchstone.servlet;

/** Advice for errors whose messages state only that a class is missing. */
enum Hint {

    /** An application whose tag libraries another server has provided. */
    TAGS("Tomcat has no JSTL: put jakarta.servlet.jsp.jstl and its API, version 3.0, into WEB-INF/lib of the "
            + "application, or name both jars in class_path of [java]",
            "cannot be resolved in either web.xml or the jar files", "java.sun.com/jsp/jstl",
            "jakarta.tags."),

    /** An application from before Jakarta EE 9 that was not recognised. */
    OLD_NAMES("the application was written for javax.servlet: set convert = \"yes\" for its route",
            "", "NoClassDefFoundError: javax/servlet/", "ClassNotFoundException: javax.servlet.",
            "javax.servlet cannot be resolved",
            "imported. javax.servlet.");

    private final String advice;
    private final String always;
    private final String[] oneOf;

    /**
     * @param advice the advice
     * @param always a text that the message must contain
     * @param oneOf texts of which the message must contain one
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

    /** The advice for a message, which is logged before it; empty: none. */
    static String forMessage(String message) {
        for (Hint hint : values()) {
            if (hint.isFor(message)) {
                return "(" + hint.advice + ") ";
            }
        }
        return "";
    }
}
