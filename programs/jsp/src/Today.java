package spice;

import java.time.LocalDate;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** The bean that tells the pages today's date, as in the tests of 1999. */
public final class Today {
    private static final DateTimeFormatter FORM = DateTimeFormatter.ofPattern("dd MMMM yyyy", Locale.ENGLISH);

    /** Today, in letters of one length or another. */
    public String getDate() {
        return LocalDate.now().format(FORM);
    }
}
