import io.micrometer.core.instrument.Measurement;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.tomcat.TomcatMetrics;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.PrintWriter;

/** What Micrometer finds of the Tomcat that it runs in: a line for each figure, its name and its value. */
@WebServlet("/")
public class Meters extends HttpServlet {
    private static final SimpleMeterRegistry REGISTRY = new SimpleMeterRegistry();

    @Override
    public void init() {
        new TomcatMetrics(null, Tags.empty()).bindTo(REGISTRY);
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/plain");
        PrintWriter out = response.getWriter();
        for (Meter meter : REGISTRY.getMeters()) {
            for (Measurement measurement : meter.measure()) {
                String name = meter.getId().getName();
                boolean isTimer = meter.getId().getType() == Meter.Type.TIMER;
                out.println(name + (isTimer ? "." + measurement.getStatistic() : "") + " "
                        + measurement.getValue());
            }
        }
    }
}
