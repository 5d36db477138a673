# shellcheck shell=bash
# Fetches a Java program from Maven Central into the user's cache, once. Sourced by the scripts that set up
# such a program.
#
#   fetch_archive NAME VERSION URL SHA256 HOME FILE ARGUMENT
#
# HOME is the installation directory, with the name of the directory in the archive; FILE exists after the
# archive is unpacked; ARGUMENT is the calling script's first argument (--brief prints nothing when it is
# installed). Returns 0 if it is installed at the end. Otherwise it prints the reason. SETUP_INSTALL=no never
# fetches. A failure is recorded, so that only `make setup` and CI try again.
fetch_archive() {
    local name=$1 version=$2 url=$3 sha256=$4 home=$5 file=$6 argument=$7
    if [ -e "$home/$file" ]; then
        [ "$argument" = --brief ] || echo "setup: $name $version is installed"
        return 0
    fi
    if [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: $name $version is missing: scripts/setup-${name,,}.sh"
        return 1
    fi
    if ! command -v java >/dev/null; then
        echo "setup: java is missing: $name is not fetched (install default-jre-headless)"
        return 1
    fi
    # shellcheck disable=SC2154  # from environment.sh
    local failed=$target/setup-${name,,}-failed
    [ "$argument" != --brief ] || [ "${CI:-}" = true ] || [ ! -e "$failed" ] || return 1
    rm -f "$failed"
    echo "setup: fetching $name $version"
    mkdir -p "$(dirname "$home")"
    local beside
    beside=$(mktemp -d "$(dirname "$home")/fetching.XXXXXX")
    # Unpacked beside it and renamed, so that the directory is complete or missing.
    if curl --silent --show-error --fail --location --max-time 300 --retry 2 \
        --output "$beside/archive.tar.gz" "$url" &&
        echo "$sha256  $beside/archive.tar.gz" | sha256sum --check --quiet &&
        tar -xzf "$beside/archive.tar.gz" -C "$beside"; then
        mv -T "$beside/$(basename "$home")" "$home" 2>/dev/null || true
    fi
    rm -rf "$beside"
    [ ! -e "$home/$file" ] || return 0
    mkdir -p "$target" && touch "$failed"
    echo "setup: $name could not be fetched from $url"
    return 1
}
