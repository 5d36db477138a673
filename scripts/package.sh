#!/usr/bin/env bash
# Builds the Debian package of the release build, and checks its content.
#
#   scripts/package.sh                    builds the program and the package
#   scripts/package.sh --built PROFILE    packages the program that this profile (dev, release) has built
#   scripts/package.sh --program FILE     packages this program, for example that of scripts/pgo.sh, which
#                                         takes the place of that of the release build
#
# The package is in debian/ below the target directory. cargo-deb is installed if it is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# The version of cargo-deb that builds with the pinned Rust.
cargo_deb_version=3.8.0
# The maximum size of the packaged program: a larger one contains debug information, which has its own file.
most_bytes=64000000

main() {
    local profile=release
    local given=
    if [ "${1:-}" = --built ]; then
        profile=${2:?--built needs a profile}
    elif [ "${1:-}" = --program ]; then
        given=$(realpath "${2:?--program needs a file}")
    elif [ "$#" != 0 ]; then
        echo "package: unknown argument $1" >&2
        return 2
    fi
    if ! cargo deb --version >/dev/null 2>&1; then
        echo "package: installing cargo-deb $cargo_deb_version (some minutes, once)"
        cargo install cargo-deb --locked --version "$cargo_deb_version"
    fi
    [ "$#" != 0 ] || cargo build --release --locked -p touchstone --features wasm

    # cargo-deb packages the files of the directory of the profile.
    local built=$target/$profile program
    [ "$profile" != dev ] || built=$target/debug
    if [ -n "$given" ]; then
        mkdir -p "$built"
        rm -f "$built/touchstone" "$built/touchstone.debug"
        cp "$given" "$built/touchstone"
        [ ! -f "$given.debug" ] || cp "$given.debug" "$built/touchstone.debug"
    fi
    for program in cgi:cgi-bin fastcgi:fastcgi nsapi:nsapi; do
        make --no-print-directory --silent -C "programs/${program%%:*}" OUT="$built/programs/${program##*:}"
    done

    make_pages "$built/touchstone"
    # Less than a third of the program is code; the build of the tests is not changed.
    [ "$profile" = dev ] || scripts/split-debug.sh "$built/touchstone"

    # The build of servlets for the package needs Maven.
    scripts/java.sh --brief || { echo "package: the jars for servlets cannot be built" >&2; return 1; }
    for program in servlet jsp; do
        make --no-print-directory --silent -C "programs/$program" \
            OUT="$built/programs/$program" JARS="$target/java"
    done
    # cargo-deb finds them there, for any target directory.
    rm -rf packaging/java && mkdir packaging/java && cp "$target/java/"*.jar packaging/java/
    mkdir -p "$target/debian"
    local package
    package=$(cargo deb --package touchstone --no-build --no-dbgsym --no-strip --profile "$profile" \
        --output "$target/debian/" | tail -n 1)
    look_into "$package"
    if [ -f "$built/touchstone.debug" ] && [ "$profile" != dev ]; then
        cp "$built/touchstone.debug" "${package%.deb}.debug"
        echo "package: line tables and symbols are in ${package%.deb}.debug; installed as" \
            "/usr/lib/debug/usr/bin/touchstone.debug they are found"
    fi
    echo "$package"
}

# Manual pages and completions, which the program generates from its definitions.
make_pages() {
    rm -rf packaging/generated
    "$1" man packaging/generated/man1 >/dev/null
    "$1" completions bash >packaging/generated/touchstone.bash
    "$1" completions zsh >packaging/generated/_touchstone
    "$1" completions fish >packaging/generated/touchstone.fish
}

# Unpacks the package and checks it: the build does not detect faults of a package.
look_into() {
    local root file missing=0
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory as it is now
    trap "rm -rf '$root'" EXIT
    dpkg-deb --extract "$1" "$root"
    for file in usr/bin/touchstone etc/touchstone/touchstone.toml usr/lib/systemd/system/touchstone.service \
        usr/lib/systemd/system/touchstone.socket usr/lib/sysusers.d/touchstone.conf \
        etc/logrotate.d/touchstone \
        usr/share/man/man1/touchstone.1.gz usr/share/man/man1/touchstone-serve.1.gz \
        usr/share/bash-completion/completions/touchstone usr/share/zsh/vendor-completions/_touchstone \
        usr/share/fish/vendor_completions.d/touchstone.fish \
        usr/share/touchstone/config.schema.json usr/share/touchstone/www/index.html \
        usr/lib/touchstone/programs/cgi-bin/spice usr/lib/touchstone/programs/fastcgi/spice \
        usr/lib/touchstone/programs/nsapi/nsapi-send.so usr/lib/touchstone/programs/python/spice_wsgi.py \
        usr/lib/touchstone/programs/wasm/spice.wasm \
        usr/share/touchstone/java/touchstone-servlet.jar; do
        [ -f "$root/$file" ] || { echo "package: $file is missing" >&2; missing=1; }
    done
    for file in etc/touchstone/touchstone.toml etc/logrotate.d/touchstone; do
        dpkg-deb --info "$1" conffiles | grep -qx "/$file" ||
            { echo "package: /$file is not a conffile" >&2; missing=1; }
    done
    [ $missing = 0 ] || return 1
    if [ "$profile" != dev ] && [ "$(stat -c %s "$root/usr/bin/touchstone")" -gt "$most_bytes" ]; then
        echo "package: the program has more than $most_bytes bytes:" \
            "is something in it that belongs into the .debug file?" >&2
        return 1
    fi
    "$root/usr/bin/touchstone" --version
    # The units are checked with the package as the root, because the programs that they start must exist.
    if command -v systemd-analyze >/dev/null; then
        sed "s|=/usr/bin/touchstone|=$root/usr/bin/touchstone|" \
            "$root/usr/lib/systemd/system/touchstone.service" >"$root/touchstone.service"
        cp "$root/usr/lib/systemd/system/touchstone.socket" "$root/touchstone.socket"
        (cd "$root" && systemd-analyze verify --man=no ./touchstone.service ./touchstone.socket)
    fi
}

main "$@"
