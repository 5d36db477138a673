#!/usr/bin/env bash
# Builds the Java side of servlets: jars in java/ below the target directory, Tomcat's among them, where the
# server searches for them. Maven fetches its dependencies once.
#
#   scripts/java.sh            builds, and runs the tests of the Java side
#   scripts/java.sh --test     only runs these tests
#   scripts/java.sh --brief    builds only after a change, without the tests; prints nothing
#
# Exit codes: 0 built, 1 failed, 3 a JDK of version 17 or Maven is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

main() {
    local brief=no
    [ "${1:-}" != --brief ] || brief=yes
    if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
        [ $brief = yes ] || echo "java: no Maven or no JDK: install maven and openjdk-17-jdk-headless" >&2
        return 3
    fi
    # A separate directory: jars that are in use must not be written.
    if [ "${1:-}" = --test ]; then
        mvn --batch-mode --quiet --file java/pom.xml "-Dtouchstone.build=$target/java-test" test
        return
    fi
    local jars=$target/java stamp=$target/java/built
    if [ $brief = yes ] && [ -f "$stamp" ] &&
        [ -z "$(find java/pom.xml java/src/main -newer "$stamp" -type f | head -n 1)" ]; then
        return 0
    fi
    # Only one at a time: several concurrent tests may start a build of the jars.
    mkdir -p "$target/java"
    exec 9>"$target/java/lock"
    flock 9
    if [ $brief = yes ] && [ -f "$stamp" ] &&
        [ -z "$(find java/pom.xml java/src/main -newer "$stamp" -type f | head -n 1)" ]; then
        return 0
    fi
    local arguments=(--batch-mode --quiet --file java/pom.xml "-Dtouchstone.build=$target/java-build")
    [ $brief = no ] || arguments+=(-DskipTests)
    # Maven leaves the jars of earlier versions there, and they would be in the class path as well.
    rm -rf "$target/java-build/lib"
    mvn "${arguments[@]}" package
    rm -f "$jars"/*.jar
    cp "$target/java-build/lib/"*.jar "$target/java-build/tomcat/"*/lib/tomcat-dbcp.jar \
        "$target/java-build/touchstone-servlet.jar" "$jars/"
    later_messages "$jars"
    share_classes "$jars"
    touch "$stamp"
    [ $brief = yes ] || echo "java: $jars"
}

# Generates a class LocalStrings for each package of Tomcat with messages; LaterMessages.java has the reason.
later_messages() {
    local made=$target/java-build/messages directory
    rm -rf "$made"
    mkdir -p "$made/sources" "$made/classes"
    for jar in "$1"/tomcat-*.jar; do
        # Only names: `jar` prints them unchanged.
        jar --list --file "$jar" | sed -n 's|/LocalStrings\.properties$||p'
    done | sort -u | while read -r directory; do
        mkdir -p "$made/sources/$directory"
        printf 'package %s;\n\n/** Messages. */\npublic final class LocalStrings extends %s {\n}\n' \
            "${directory//\//.}" org.touchstone.servlet.LaterMessages \
            >"$made/sources/$directory/LocalStrings.java"
    done
    find "$made/sources" -name '*.java' >"$made/list"
    javac --release 17 -cp "$1/touchstone-servlet.jar" -d "$made/classes" "@$made/list"
    # The same classes give the same bytes at any time.
    jar --create --date 2026-01-01T00:00:00Z --file "$1/tomcat-messages.jar" -C "$made/classes" .
}

# Writes an archive of the classes of Tomcat for class-data sharing, which halves the time of a start. The
# archive is valid only for the Java of this machine; another Java starts without it.
share_classes() {
    local class_path
    class_path=$(printf '%s\n' "$1"/*.jar | LC_ALL=C sort | paste -sd:)
    local home
    home=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
    rm -f "$1/classes.jsa" "$1/classes.key"
    java "-XX:ArchiveClassesAtExit=$1/classes.jsa" -Xlog:cds=off -Xlog:cds+dynamic=off -cp "$class_path" \
        org.touchstone.servlet.Training >"$target/java-build/training.log" 2>&1 || {
        echo "java: the class archive could not be written; see $target/java-build/training.log" >&2
        return 0
    }
    # The Java and the jars of the archive, in the format that crates/servlet/src/class_archive.rs reads.
    printf '%s\n%s\n%s\n' "$home" "$(grep -m 1 '^JAVA_RUNTIME_VERSION=' "$home/release" || true)" \
        "$class_path" >"$1/classes.key"
}

main "$@"
