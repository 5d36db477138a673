package spice;

import java.time.LocalDate;
import java.time.format.DateTimeFormatter;

/** The bean that tells the pages today's date, as in the tests of 1999. */
public final class Today {
    private static final DateTimeFormatter FORM = DateTimeFormatter.ISO_LOCAL_DATE;

    /** Today, for example 2026-11-22: the same length on every day. */
    public String getDate() {
        return LocalDate.now().format(FORM);
    }
}
