#!/usr/bin/env bash
# Builds h2load with HTTP/3, for `make load-tools`, into the user's cache; the package nghttp2-client has an
# h2load without it.
#
#   scripts/setup-h2load-http3.sh [--brief]      --brief prints nothing when it is installed
#
# The sources are those of Debian's source packages (nghttp2, ngtcp2, nghttp3, libev), and of AWS-LC in the
# crate aws-lc-sys, which cargo fetches for this program anyway. The program is h2load-http3 in
# ${XDG_CACHE_HOME:-~/.cache}/touchstone/bin. It takes some ten minutes of one processor. Environment: JOBS is
# the number of compilers at a time (1); SETUP_INSTALL=no checks and never builds.
#
# Exit codes: 0 it is installed, 1 it could not be built, 3 a tool for the build is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# package version release SHA-256 of the archive of its sources
sources() {
    cat <<'END'
nghttp2 1.64.0 trixie b452dc69a1fcbc9375389b8b154175d8b7b125cdd713fc426774c2b79a1ebd77
ngtcp2 1.11.0 trixie 382c15bf66b630f26021631b25b7eb1feac42c67c1d6826189d61091dfaa4d09
nghttp3 1.15.0 trixie-backports 6da0cd06b428d32a54c58137838505d9dc0371a900bb8070a46b29e1ceaf2e0f
libev 4.33 trixie 507eb7b8d1015fbec5b935f34ebed15bf346bed04a11ab82b8eee848c4205aea
END
}

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
version=$(sources | sed -n 's/^nghttp2 \([^ ]*\) .*/\1/p')
program=$cache/bin/h2load-http3-$version
jobs=${JOBS:-1}

main() {
    if [ -x "$program" ]; then
        [ "${1:-}" = --brief ] || echo "setup: h2load $version with HTTP/3 is installed"
        return 0
    fi
    if [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: h2load with HTTP/3 is missing: scripts/setup-h2load-http3.sh"
        return 0
    fi
    local tool absent=
    for tool in apt-get cmake gcc g++ make cargo; do
        command -v $tool >/dev/null || absent+=" $tool"
    done
    [ -e /usr/include/zlib.h ] || absent+=" zlib1g-dev"
    if [ -n "$absent" ]; then
        echo "setup: h2load with HTTP/3 is not built, for lack of:$absent"
        return 3
    fi
    # A failure is recorded, so that only a call without --brief tries again.
    local failed=$target/setup-h2load-http3-failed
    [ "${1:-}" != --brief ] || [ ! -e "$failed" ] || return 1
    rm -f "$failed"
    mkdir -p "$cache/bin"
    work=$(mktemp -d "$cache/building-h2load.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "setup: building h2load $version with HTTP/3 (some ten minutes)"
    if fetch >"$work/log" 2>&1 && build >>"$work/log" 2>&1; then
        mv "$work/h2load" "$program"
        ln -sfn "${program##*/}" "$cache/bin/h2load-http3"
        echo "setup: $program: $("$program" --version)"
    else
        mkdir -p "$target" && touch "$failed"
        tail -n 15 "$work/log"
        echo "setup: h2load with HTTP/3 could not be built (it needs Debian's sources, and crates.io)"
        return 1
    fi
}

# The archives, from the releases that have these versions, with separate lists: the machine's package lists
# do not change. Failures end the function by themselves, because `set -e` has no effect in a condition.
fetch() {
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" || return
    local mirror release package number sha256
    # shellcheck disable=SC2016  # the words are apt-get's
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's|^Debian ||p' | grep -v security | head -n 1 || true)
    for release in $(sources | cut -d ' ' -f 3 | sort -u); do
        echo "deb-src ${mirror:-http://deb.debian.org/debian} $release main"
    done >"$work/sources.list"
    local options=(-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root -qq)
    cd "$work" && apt-get "${options[@]}" update || return
    while read -r package number release sha256; do
        apt-get "${options[@]}" source --download-only --tar-only "$package/$release" || return
        echo "$sha256  $(echo "${package}_$number".orig.tar.*z)" | sha256sum --check || return
        tar -xf "${package}_$number".orig.tar.*z || return
    done < <(sources)
    # cargo checks the crate by Cargo.lock.
    cd "$top" && cargo fetch --locked || return
    local crate
    crate=aws-lc-sys-$(grep -A1 '^name = "aws-lc-sys"' Cargo.lock | sed -n 's/^version = "\(.*\)"/\1/p')
    cp -r "${CARGO_HOME:-${HOME:-/root}/.cargo}/registry/src/"*"/$crate/aws-lc" "$work/aws-lc"
}

# with_cmake SOURCE TARGET OPTION...: builds the target in SOURCE/built.
with_cmake() {
    local source=$1 goal=$2
    shift 2
    cmake -S "$work/$source" -B "$work/$source/built" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX="$work/usr" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$work/usr" \
        -DBUILD_SHARED_LIBS=OFF -DENABLE_SHARED_LIB=OFF -DENABLE_STATIC_LIB=ON "$@" || return
    cmake --build "$work/$source/built" --parallel "$jobs" --target "$goal"
}

# All libraries are static, so that the program needs none of them later.
build() {
    local usr=$work/usr nghttp2=nghttp2-$version nghttp3 ngtcp2 quic
    nghttp3=$(basename "$work"/nghttp3-*/) ngtcp2=$(basename "$work"/ngtcp2-*/)
    with_cmake aws-lc install -DBUILD_TOOL=OFF -DDISABLE_GO=ON -DDISABLE_PERL=ON || return
    (cd "$work"/libev-*/ && ./configure --prefix="$usr" --disable-shared && make -j "$jobs" install) || return
    with_cmake "$nghttp3" install -DENABLE_LIB_ONLY=ON || return
    with_cmake "$ngtcp2" install -DENABLE_OPENSSL=OFF -DENABLE_BORINGSSL=ON \
        -DBORINGSSL_INCLUDE_DIR="$usr/include" \
        "-DBORINGSSL_LIBRARIES=$usr/lib/libssl.a;$usr/lib/libcrypto.a;stdc++;pthread" \
        -DCMAKE_DISABLE_FIND_PACKAGE_Libev=ON -DCMAKE_DISABLE_FIND_PACKAGE_Libnghttp3=ON || return
    quic=$usr/lib/libngtcp2_crypto_boringssl.a
    sed -i 's/^  nghttp2$/  nghttp2_static/' "$work/$nghttp2/src/CMakeLists.txt" || return
    # CMake of nghttp2 knows the QUIC of OpenSSL's forks by the name quictls only; AWS-LC has BoringSSL's.
    sed -i 's/^#cmakedefine HAVE_LIBNGTCP2_CRYPTO_QUICTLS$/#define HAVE_LIBNGTCP2_CRYPTO_BORINGSSL 1/' \
        "$work/$nghttp2/cmakeconfig.h.in" || return
    # A file of unit tests, which are not built, and which Debian's archive does not have.
    mkdir -p "$work/$nghttp2/tests/munit" && touch "$work/$nghttp2/tests/munit/munit.c" || return
    with_cmake "$nghttp2" h2load -DENABLE_APP=ON -DENABLE_HTTP3=ON -DENABLE_HPACK_TOOLS=OFF \
        -DENABLE_EXAMPLES=OFF -DENABLE_DOC=OFF -DBUILD_STATIC_LIBS=ON -DWITH_LIBXML2=OFF -DWITH_JEMALLOC=OFF \
        -DCMAKE_DISABLE_FIND_PACKAGE_Libbrotlienc=ON -DCMAKE_DISABLE_FIND_PACKAGE_Libbrotlidec=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_Libcares=ON -DCMAKE_DISABLE_FIND_PACKAGE_Jansson=ON \
        -DOPENSSL_ROOT_DIR="$usr" -DOPENSSL_USE_STATIC_LIBS=ON -DHAVE_SSL_PROVIDE_QUIC_DATA=1 \
        -DLIBNGTCP2_CRYPTO_QUICTLS_INCLUDE_DIR="$usr/include" \
        "-DLIBNGTCP2_CRYPTO_QUICTLS_LIBRARY=$quic;$usr/lib/libngtcp2.a" || return
    strip -o "$work/h2load" "$work/$nghttp2/built/src/h2load"
}

main "$@"
