package org.touchstone.servlet;

/** Writes one object of JSON: names with numbers, texts, objects and lists of objects. */
final class Json {

    private final StringBuilder text = new StringBuilder("{");
    /** The closing brackets of all open objects and arrays. */
    private final StringBuilder open = new StringBuilder("}");

    /** A whole number. */
    void number(String name, long value) {
        name(name);
        text.append(value);
    }

    /** A text. */
    void text(String name, String value) {
        name(name);
        quote(value);
    }

    /** An object, which is written until {@link #end}. */
    void object(String name) {
        name(name);
        begin("{", '}');
    }

    /** A list of objects, which is written until {@link #end}. */
    void list(String name) {
        name(name);
        begin("[", ']');
    }

    /** An object of a list, which is written until {@link #end}. */
    Json object() {
        separate();
        begin("{", '}');
        return this;
    }

    /** Ends the innermost object or list. */
    void end() {
        text.append(open.charAt(open.length() - 1));
        open.setLength(open.length() - 1);
    }

    private void begin(String start, char end) {
        text.append(start);
        open.append(end);
    }

    private void name(String name) {
        separate();
        quote(name);
        text.append(':');
    }

    private void separate() {
        char before = text.charAt(text.length() - 1);
        if (before != '{' && before != '[') {
            text.append(',');
        }
    }

    private void quote(String value) {
        text.append('"');
        for (int at = 0; at < value.length(); at++) {
            char letter = value.charAt(at);
            if (letter == '"' || letter == '\\') {
                text.append('\\').append(letter);
            } else if (letter < 0x20 || letter > 0x7E) {
                text.append(String.format("\\u%04x", (int) letter));
            } else {
                text.append(letter);
            }
        }
        text.append('"');
    }

    @Override
    public String toString() {
        return text.toString();
    }
}
