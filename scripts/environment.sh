# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts. Sets `top`, `target`, `pinned_rust` and PATH, chooses the Rust toolchain, and
# changes to the top of the tree.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top" || exit 1

# Debian keeps servers in /usr/sbin, which is not in every user's PATH; rustup puts cargo below the home
# directory, and so does Go with its programs.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
PATH="$PATH:/usr/local/go/bin:${GOBIN:-${GOPATH:-${HOME:-/root}/go}/bin}"
# The directory for fetched programs that are not packages.
PATH="$PATH:${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone/bin"
export PATH

target=${CARGO_TARGET_DIR:-$top/target}

# The toolchain that rust-toolchain.toml pins, for example 1.95.0.
pinned_rust=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)

# rustup would fetch the pinned toolchain if it is not installed under exactly that name. If the toolchain
# that is installed as "stable" is the same version, use it: then rustup fetches nothing.
if [ -z "${RUSTUP_TOOLCHAIN:-}" ] && command -v rustup >/dev/null; then
    toolchains=$(rustup toolchain list 2>/dev/null || true)
    case $toolchains in
        *"$pinned_rust"*) ;;
        *stable*)
            case $(RUSTUP_TOOLCHAIN=stable rustc --version 2>/dev/null) in
                "rustc $pinned_rust "*) export RUSTUP_TOOLCHAIN=stable ;;
            esac ;;
    esac
fi
