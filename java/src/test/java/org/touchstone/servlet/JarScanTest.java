package org.touchstone.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.tomcat.JarScanType;
import org.apache.tomcat.util.scan.StandardJarScanFilter;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class JarScanTest {

    @BeforeAll
    static void nameJars() {
        JarScan.nameJars();
    }

    private static String path(String... jars) {
        return String.join(File.pathSeparator, jars);
    }

    @Test
    void theClassPathIsScannedWhereItHasJarsOfOthers() {
        String own = path("/lib/ecj-3.jar", "/lib/tomcat-embed-core-11.jar", "/lib/touchstone-servlet.jar");
        assertFalse(JarScan.hasOthers(own));
        assertTrue(JarScan.hasOthers(path(own, "/drivers/tags.jar")));
        assertTrue(JarScan.hasOthers(path("/build/classes", "/lib/tomcat-embed-core-11.jar")));
        assertFalse(JarScan.scanner(own) instanceof org.apache.tomcat.util.scan.StandardJarScanner scanner
                && scanner.isScanClassPath());
    }

    @Test
    void jarsOfApplicationsAreLeftOutAsInTomcatAndNoOthers() {
        StandardJarScanFilter filter = new StandardJarScanFilter();
        List<String> jars = List.of("commons-io-2.jar", "log4j-core-2.jar", "log4j-taglib-2.jar",
                "log4j-jakarta-web-2.jar", "slf4j-taglib.jar", "commons-shop.jar", "json-pages.jar",
                "jackson-pages.jar", "tomcat-shop.jar", "tomcat-embed-core-11.0.25.jar",
                "touchstone-servlet.jar", "touchstone-shop.jar");
        Set<String> scanned = new TreeSet<>();
        for (String jar : jars) {
            if (filter.check(JarScanType.PLUGGABILITY, jar)) {
                scanned.add(jar);
            }
        }
        assertEquals(new TreeSet<>(List.of("log4j-taglib-2.jar", "log4j-jakarta-web-2.jar",
                "slf4j-taglib.jar", "commons-shop.jar", "json-pages.jar", "jackson-pages.jar",
                "tomcat-shop.jar", "touchstone-shop.jar")), scanned);
    }
}
