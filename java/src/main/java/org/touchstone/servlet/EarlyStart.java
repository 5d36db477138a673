package org.touchstone.servlet;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.catalina.core.StandardContext;
import org.apache.catalina.startup.ContextConfig;
import org.apache.juli.logging.Log;
import org.apache.juli.logging.LogFactory;
import org.apache.tomcat.util.bcel.classfile.ClassParser;
import org.apache.tomcat.util.descriptor.tld.TldParser;
import org.apache.tomcat.util.descriptor.web.WebXml;
import org.apache.tomcat.util.descriptor.web.WebXmlParser;
import org.xml.sax.InputSource;

/**
 * Does on its own thread what the start of the first application would do later: it initializes slow classes
 * and parsers, in the order in which they are needed. Tomcat itself starts at the same time. If a class is
 * still being initialized when it is needed, Java waits for it. On a single processor this has no advantage,
 * so it is not done.
 */
final class EarlyStart {

    private static final Log LOG = LogFactory.getLog(EarlyStart.class);

    /** Their initializers read locale data, search all security providers, and so on. */
    private static final String[] CLASSES = {
        "org.apache.tomcat.util.http.CookieProcessorBase",
        "org.apache.catalina.util.SessionIdGeneratorBase",
        "org.apache.tomcat.util.descriptor.DigesterFactory",
        "org.apache.catalina.webresources.StandardRoot",
        "org.apache.catalina.loader.WebappClassLoaderBase",
        "org.apache.catalina.core.ApplicationContext",
    };

    /** Classes that are needed last. */
    private static final String[] LATER_CLASSES = {
        "org.apache.catalina.servlets.DefaultServlet",
        "org.apache.jasper.servlet.JasperInitializer",
        "org.apache.jasper.servlet.JspServlet",
        "org.apache.jasper.servlet.TldScanner",
        "org.apache.tomcat.websocket.server.WsSci",
        "org.apache.tomcat.websocket.server.WsServerContainer",
        "org.apache.catalina.authenticator.NonLoginAuthenticator",
        "org.apache.catalina.connector.Response",
        "org.apache.coyote.Response",
    };

    private EarlyStart() {
    }

    /** Starts, if there is a second processor. */
    static void begin() {
        if (Runtime.getRuntime().availableProcessors() < 2) {
            return;
        }
        Thread thread = new Thread(EarlyStart::run, "servlet-early");
        thread.setDaemon(true);
        thread.start();
    }

    private static void run() {
        for (String name : CLASSES) {
            step(() -> Class.forName(name));
        }
        step(StandardContext::new);
        step(ContextConfig::new);
        step(EarlyStart::parseDescriptor);
        step(EarlyStart::parseClass);
        step(() -> new TldParser(true, false, true));
        for (String name : LATER_CLASSES) {
            step(() -> Class.forName(name));
        }
    }

    /** A step that may fail: the code that needs it later reports why. */
    private interface Step {
        void run() throws Exception;
    }

    private static void step(Step step) {
        try {
            step.run();
        } catch (Exception | LinkageError failure) {
            LOG.debug("a preparation for the start of applications failed", failure);
        }
    }

    private static void parseDescriptor() throws IOException {
        WebXmlParser parser = new WebXmlParser(false, false, true);
        String descriptor = "<web-app version=\"6.1\"><welcome-file-list/></web-app>";
        byte[] bytes = descriptor.getBytes(StandardCharsets.US_ASCII);
        InputSource source = new InputSource(new ByteArrayInputStream(bytes));
        source.setSystemId("early:/web.xml");
        parser.parseWebXml(source, new WebXml(), false);
    }

    private static void parseClass() throws IOException {
        try (InputStream in = EarlyStart.class.getResourceAsStream("EarlyStart.class")) {
            new ClassParser(in).parse();
        }
    }
}
