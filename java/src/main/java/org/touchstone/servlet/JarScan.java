package org.touchstone.servlet;

import java.io.File;
import org.apache.tomcat.JarScanner;
import org.apache.tomcat.util.scan.StandardJarScanner;

/** Which jars are scanned for tag libraries, fragments and annotations when an application starts. */
final class JarScan {

    /**
     * Libraries without any of these, from Tomcat's own conf/catalina.properties. The same names are skipped
     * as in Tomcat, and no others: an application may have such classes in any of its jars.
     */
    private static final String LEFT_OUT = "annotations-api.jar,ant-junit*.jar,ant-launcher*.jar,ant*.jar,"
            + "asm-*.jar,aspectj*.jar,bcel*.jar,biz.aQute.bnd*.jar,bootstrap.jar,catalina-ant.jar,"
            + "catalina-ha.jar,catalina-ssi.jar,catalina-storeconfig.jar,catalina-tribes.jar,catalina.jar,"
            + "cglib-*.jar,cobertura-*.jar,commons-beanutils*.jar,commons-codec*.jar,"
            + "commons-collections*.jar,commons-compress*.jar,commons-daemon.jar,commons-dbcp*.jar,"
            + "commons-digester*.jar,commons-fileupload*.jar,commons-httpclient*.jar,commons-io*.jar,"
            + "commons-lang*.jar,commons-logging*.jar,commons-math*.jar,commons-pool*.jar,derby-*.jar,"
            + "dom4j-*.jar,easymock-*.jar,ecj-*.jar,el-api.jar,geronimo-spec-jaxrpc*.jar,h2*.jar,"
            + "ha-api-*.jar,hamcrest-*.jar,hibernate*.jar,httpclient*.jar,icu4j-*.jar,"
            + "jakartaee-migration-*.jar,jasper-el.jar,jasper.jar,jaspic-api.jar,jaxb-*.jar,jaxen-*.jar,"
            + "jaxws-rt-*.jar,jdom-*.jar,jetty-*.jar,jmx-tools.jar,jmx.jar,jsp-api.jar,jstl.jar,jta*.jar,"
            + "junit-*.jar,junit.jar,log4j*.jar,mail*.jar,objenesis-*.jar,oraclepki.jar,"
            + "org.hamcrest.core_*.jar,org.junit_*.jar,oro-*.jar,servlet-api-*.jar,servlet-api.jar,"
            + "slf4j*.jar,taglibs-standard-spec-*.jar,tagsoup-*.jar,tomcat-api.jar,tomcat-coyote.jar,"
            + "tomcat-coyote-ffm.jar,tomcat-dbcp.jar,tomcat-i18n-*.jar,tomcat-jdbc.jar,tomcat-jni.jar,"
            + "tomcat-juli-adapters.jar,tomcat-juli.jar,tomcat-util-scan.jar,tomcat-util.jar,"
            + "tomcat-websocket.jar,tools.jar,unboundid-ldapsdk-*.jar,websocket-api.jar,"
            + "websocket-client-api.jar,wsdl4j*.jar,xercesImpl.jar,xml-apis.jar,xmlParserAPIs-*.jar,"
            + "xmlParserAPIs.jar,xom-*.jar";

    /** The jars of these names that must be scanned. */
    private static final String LOOKED_THROUGH =
            "log4j-taglib*.jar,log4j-jakarta-web*.jar,log4javascript*.jar,slf4j-taglib*.jar";

    /** The jars that contain this class. */
    private static final String OWN = "touchstone-servlet.jar,tomcat-messages.jar,tomcat-embed-*.jar,"
            + "tomcat-annotations-api-*.jar,tomcat-jdbc-*.jar";

    private static final String PROPERTY = "tomcat.util.scan.StandardJarScanFilter.";

    private JarScan() {
    }

    /** Sets the names, unless the options of the machine do. Must be called before any application starts. */
    static void nameJars() {
        if (System.getProperty(PROPERTY + "jarsToSkip") == null) {
            System.setProperty(PROPERTY + "jarsToSkip", LEFT_OUT + "," + OWN);
        }
        if (System.getProperty(PROPERTY + "jarsToScan") == null) {
            System.setProperty(PROPERTY + "jarsToScan", LOOKED_THROUGH);
        }
    }

    /** The scanner of one application; its own context.xml may name another one. */
    static JarScanner scanner(String classPath) {
        StandardJarScanner scanner = new StandardJarScanner();
        scanner.setScanClassPath(hasOthers(classPath));
        return scanner;
    }

    /** Whether a class path has jars besides those that contain this class, which need no scan. */
    static boolean hasOthers(String classPath) {
        String own = null;
        String[] entries = classPath.split(File.pathSeparator);
        for (String entry : entries) {
            File file = new File(entry);
            if (file.getName().equals("touchstone-servlet.jar")) {
                own = file.getParent();
            }
        }
        for (String entry : entries) {
            if (own == null || !own.equals(new File(entry).getParent())) {
                return true;
            }
        }
        return false;
    }
}
