package org.touchstone.tck;

import java.nio.file.Files;
import java.nio.file.Path;
import org.jboss.arquillian.container.spi.ConfigurationException;
import org.jboss.arquillian.container.spi.client.container.ContainerConfiguration;

/** Where the server that runs has its applications and its log, and the port on which it answers. */
public final class ServerConfiguration implements ContainerConfiguration {
    private String deployments;
    private String log;
    private int port;

    @Override
    public void validate() {
        if (deployments == null || !Files.isDirectory(Path.of(deployments)) || log == null || port == 0) {
            throw new ConfigurationException(
                    "tck.deployments, tck.log and tck.port must name a server that runs: use 'make tck'");
        }
    }

    Path directory() {
        return Path.of(deployments);
    }

    Path logFile() {
        return Path.of(log);
    }

    int port() {
        return port;
    }

    public void setDeployments(String deployments) {
        this.deployments = deployments;
    }

    public void setLog(String log) {
        this.log = log;
    }

    public void setPort(int port) {
        this.port = port;
    }
}
