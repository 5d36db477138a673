// Streams of server-sent events, and WebSockets with one message, by Gatling. The percentiles are asked for
// as assertions that always hold, because Gatling prints their real values in the open edition only so.

import static io.gatling.javaapi.core.CoreDsl.*;
import static io.gatling.javaapi.http.HttpDsl.*;

import io.gatling.javaapi.core.Assertion;
import io.gatling.javaapi.core.OpenInjectionStep;
import io.gatling.javaapi.core.ScenarioBuilder;
import io.gatling.javaapi.core.Simulation;
import io.gatling.javaapi.http.SseConnectActionBuilder;
import java.util.ArrayList;
import java.util.List;

public class GatlingStreams extends Simulation {
    private static final int EVENTS = 5;
    private static final int LONG_S = 60;
    // The time of a group is the sum of those of its requests and checks.
    private static final String WHOLE = "whole";

    private static ScenarioBuilder events() {
        SseConnectActionBuilder open = sse("open").get("/events")
            .await(LONG_S).on(sse.checkMessage("first event").check(regex("data")));
        for (int number = 1; number < EVENTS; number++) {
            open = open.await(LONG_S).on(sse.checkMessage("next event").check(regex("data")));
        }
        return scenario("events").exec(group(WHOLE).on(exec(open)), sse("close").close());
    }

    private static ScenarioBuilder sockets() {
        return scenario("sockets").exec(
            group(WHOLE).on(
                exec(
                    ws("open").connect("/"),
                    ws("send").sendText("hello")
                        .await(LONG_S).on(ws.checkTextMessage("answer").check(regex("hello"))))),
            ws("close").close());
    }

    private static List<Assertion> figures(boolean isEvents) {
        List<Assertion> figures = new ArrayList<>();
        List<Assertion.WithPath> parts = new ArrayList<>(List.of(details(WHOLE)));
        if (isEvents) {
            parts.add(details(WHOLE, "first event"));
            parts.add(details(WHOLE, "next event"));
        }
        for (Assertion.WithPath part : parts) {
            for (double percent : List.of(50.0, 95.0, 99.0)) {
                figures.add(part.responseTime().percentile(percent).gte(0));
            }
            figures.add(part.successfulRequests().count().gte(0L));
        }
        return figures;
    }

    {
        boolean isEvents = System.getProperty("streams").equals("events");
        int rate = Integer.getInteger("rate");
        OpenInjectionStep arrivals = rate == 0
            ? atOnceUsers(1)
            : constantUsersPerSec(rate).during(Integer.getInteger("seconds"));
        setUp((isEvents ? events() : sockets()).injectOpen(arrivals))
            .protocols(http.baseUrl(System.getProperty("url")).wsBaseUrl(System.getProperty("url")))
            .assertions(figures(isEvents));
    }
}
