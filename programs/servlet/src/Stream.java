import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** The SPICE program for servlets: 6,250 bytes of HTML that are there already, through the output stream. */
@WebServlet("/stream")
public final class Stream extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/html");
        response.setContentLength(Page.BYTES.length);
        response.getOutputStream().write(Page.BYTES);
    }
}
