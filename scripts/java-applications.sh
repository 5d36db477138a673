#!/usr/bin/env bash
# Fetches web applications of other authors, for the tests of servlets: Tomcat's examples, and two that were
# written for javax.servlet: Jolokia and Hawtio (many filters, names in JNDI, a login of its own); and the
# jars of Micrometer, which a test puts into an application. They are left in java-applications/ below the
# target directory.
#
# Exit codes: 0 they are installed, 1 they could not be fetched, 3 Maven is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

tomcat=11.0.25
jolokia=1.7.2
hawtio=2.17.7
micrometer=1.17.2

main() {
    local to=$target/java-applications
    mkdir -p "$to"
    exec 9>"$to/lock"
    flock 9
    if [ -d "$to/examples" ] && [ -f "$to/jolokia.war" ] && [ -f "$to/hawtio.war" ] &&
        [ -d "$to/micrometer" ]; then
        return 0
    fi
    command -v mvn >/dev/null && command -v unzip >/dev/null || return 3
    rm -rf "$to/micrometer" "$to/fetching"
    local part
    for part in core commons observation; do
        fetch "io.micrometer:micrometer-$part:$micrometer" "$to/fetching"
    done
    mv "$to/fetching" "$to/micrometer"
    fetch "org.apache.tomcat:tomcat:$tomcat:zip"
    fetch "org.jolokia:jolokia-war:$jolokia:war"
    fetch "io.hawt:hawtio-war:$hawtio:war"
    unzip -qo "$to/tomcat-$tomcat.zip" "apache-tomcat-$tomcat/webapps/examples/*" -d "$to"
    rm -rf "$to/examples"
    mv "$to/apache-tomcat-$tomcat/webapps/examples" "$to/examples"
    mv "$to/jolokia-war-$jolokia.war" "$to/jolokia.war"
    mv "$to/hawtio-war-$hawtio.war" "$to/hawtio.war"
    rm -rf "$to/apache-tomcat-$tomcat" "$to/tomcat-$tomcat.zip"
}

fetch() {
    mvn --batch-mode --quiet dependency:copy "-Dartifact=$1" "-DoutputDirectory=${2:-$to}" >&2
}

main
