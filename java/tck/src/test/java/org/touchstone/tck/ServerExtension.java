package org.touchstone.tck;

import org.jboss.arquillian.container.spi.client.container.DeployableContainer;
import org.jboss.arquillian.core.spi.LoadableExtension;

/** Makes {@link DirectoryContainer} known to Arquillian. */
public final class ServerExtension implements LoadableExtension {
    @Override
    public void register(ExtensionBuilder builder) {
        builder.service(DeployableContainer.class, DirectoryContainer.class);
    }
}
