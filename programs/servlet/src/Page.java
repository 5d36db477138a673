import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The page: 6,250 bytes, as all SPICE programs answer with. */
final class Page {
    static final String[] LINES = lines();
    static final byte[] BYTES = String.join("", LINES).getBytes(StandardCharsets.US_ASCII);

    private Page() {
    }

    private static String[] lines() {
        List<String> lines = new ArrayList<>();
        lines.add("<!DOCTYPE html>\n<html lang=\"en\"><head><title>SPICE</title></head><body>\n");
        for (int line = 0; line < 128; line++) {
            lines.add("The least program that answers with 6,250 bytes\n");
        }
        lines.add("<p>That is all</p>\n");
        lines.add("</body></html>\n");
        return lines.toArray(new String[0]);
    }
}
