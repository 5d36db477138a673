package org.touchstone.tck;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import org.jboss.arquillian.container.spi.client.container.DeployableContainer;
import org.jboss.arquillian.container.spi.client.container.DeploymentException;
import org.jboss.arquillian.container.spi.client.protocol.ProtocolDescription;
import org.jboss.arquillian.container.spi.client.protocol.metadata.HTTPContext;
import org.jboss.arquillian.container.spi.client.protocol.metadata.ProtocolMetaData;
import org.jboss.arquillian.container.spi.client.protocol.metadata.Servlet;
import org.jboss.shrinkwrap.api.Archive;
import org.jboss.shrinkwrap.api.asset.StringAsset;
import org.jboss.shrinkwrap.api.exporter.ZipExporter;
import org.jboss.shrinkwrap.descriptor.api.Descriptor;

/**
 * A server that runs already and starts the WARs that are put into a directory: Touchstone or Tomcat. Whether
 * an application runs, its log says.
 */
public final class DirectoryContainer implements DeployableContainer<ServerConfiguration> {

    /** How long an application may take to start or to stop. */
    private static final long PATIENCE_NANOS = 60_000_000_000L;

    /** What a server writes of an application, behind its name, when it runs, has failed, or is gone. */
    private static final List<String> RUNS = List.of(" runs ", "has finished in");
    private static final List<String> HAS_FAILED =
            List.of("could not be started", "Error deploying", "startup failed");
    private static final List<String> IS_GONE = List.of("is stopped", "Undeploying context");

    /** What the kit takes for granted, and Tomcat has as a choice: both servers get the same. */
    private static final String CONTEXT = "<Context crossContext=\"true\" alwaysAccessSession=\"true\""
            + " contextGetResourceRequiresSlash=\"true\" useRelativeRedirects=\"false\">"
            + "<Manager sessionActivityCheck=\"true\" sessionLastAccessAtStart=\"true\"/></Context>";

    private ServerConfiguration configuration;

    @Override
    public Class<ServerConfiguration> getConfigurationClass() {
        return ServerConfiguration.class;
    }

    @Override
    public void setup(ServerConfiguration wanted) {
        configuration = wanted;
    }

    @Override
    public void start() {
    }

    @Override
    public void stop() {
    }

    @Override
    public ProtocolDescription getDefaultProtocol() {
        return new ProtocolDescription("Servlet 6.0");
    }

    @Override
    public ProtocolMetaData deploy(Archive<?> archive) throws DeploymentException {
        String name = archive.getName().replaceFirst("\\.war$", "");
        if (archive.get("META-INF/context.xml") == null) {
            archive.add(new StringAsset(CONTEXT), "META-INF/context.xml");
        }
        try {
            long before = Files.size(configuration.logFile());
            // Beside the directory, so that the server never sees half of it.
            Path beside = configuration.directory().resolveSibling(name + ".new");
            archive.as(ZipExporter.class).exportTo(beside.toFile(), true);
            Files.move(beside, war(name), StandardCopyOption.REPLACE_EXISTING);
            if (!awaits(name, before, RUNS, HAS_FAILED)) {
                throw new DeploymentException(name + " has not started; see " + configuration.logFile());
            }
        } catch (IOException exception) {
            throw new DeploymentException(name + " could not be put into place", exception);
        }
        HTTPContext context = new HTTPContext("localhost", configuration.port());
        context.add(new Servlet("default", "/" + name));
        return new ProtocolMetaData().addContext(context);
    }

    @Override
    public void undeploy(Archive<?> archive) throws DeploymentException {
        String name = archive.getName().replaceFirst("\\.war$", "");
        try {
            long before = Files.size(configuration.logFile());
            if (Files.deleteIfExists(war(name))) {
                awaits(name, before, IS_GONE, List.of());
            }
        } catch (IOException exception) {
            throw new DeploymentException(name + " could not be taken away", exception);
        }
    }

    @Override
    public void deploy(Descriptor descriptor) {
        throw new UnsupportedOperationException("descriptors alone are not deployed");
    }

    @Override
    public void undeploy(Descriptor descriptor) {
        throw new UnsupportedOperationException("descriptors alone are not deployed");
    }

    private Path war(String name) {
        return configuration.directory().resolve(name + ".war");
    }

    /** Waits until the log says one thing or another of an application; whether it has said the first. */
    private boolean awaits(String name, long from, List<String> good, List<String> bad) throws IOException {
        long until = System.nanoTime() + PATIENCE_NANOS;
        while (System.nanoTime() - until < 0) {
            for (String line : logFrom(from).split("\n")) {
                boolean isOfIt = line.contains("/" + name + ".war") || line.contains("/" + name + " (")
                        || line.contains("[/" + name + "]");
                if (isOfIt && bad.stream().anyMatch(line::contains)) {
                    return false;
                }
                if (isOfIt && good.stream().anyMatch(line::contains)) {
                    return true;
                }
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException exception) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return false;
    }

    private String logFrom(long from) throws IOException {
        try (RandomAccessFile log = new RandomAccessFile(configuration.logFile().toFile(), "r")) {
            byte[] bytes = new byte[(int) Math.max(0, log.length() - from)];
            log.seek(from);
            log.readFully(bytes);
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
