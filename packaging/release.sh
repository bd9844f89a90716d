#!/usr/bin/env bash
# Makes everything a release consists of, in target/dist: archive, Debian package, MCP bundle, npm and Python packages,
# notices, bill of materials, checksums. The same commit and toolchain give the same bytes.
#
# usage: packaging/release.sh [--strict]     --strict: fail if a tool is missing, instead of leaving its package out
set -euo pipefail
cd "$(dirname "$0")/.."
strict=${1:-}
[ -z "$strict" ] || [ "$strict" = --strict ] || { echo "usage: packaging/release.sh [--strict]" >&2; exit 2; }

dist=target/dist
target=$(rustc -vV | sed -n 's/^host: //p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
RETAKE_COMMIT=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH RETAKE_COMMIT
# Neither the checkout's path nor the home directory may reach the binary.
export RUSTFLAGS="--remap-path-prefix=$PWD=/retake --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
if [ -n "$(git status --porcelain)" ]; then
    echo "warning: the checkout has changes that are not committed" >&2
fi

echo "== binary"
cargo build --release --locked --bin retake
rm -rf "$dist"
mkdir -p "$dist" target/extras
binary=target/release/retake

echo "== manual pages, completions, notices, bill of materials"
"$binary" man target/extras/man
mkdir -p target/extras/completions
"$binary" completions bash > target/extras/completions/retake
"$binary" completions zsh > target/extras/completions/_retake
"$binary" completions fish > target/extras/completions/retake.fish
python3 packaging/notices.py --target "$target" > target/extras/NOTICES.txt
python3 packaging/sbom.py --target "$target" > "$dist/sbom.cdx.json"

echo "== archive, npm package, Python wheel, MCP bundle"
python3 packaging/bundle.py "$binary" "$dist" --target "$target" --extras target/extras

echo "== Debian package"
if command -v cargo-deb > /dev/null; then
    cargo deb --no-build --no-strip --output "$dist"
elif [ -n "$strict" ]; then
    echo "error: cargo-deb is missing: cargo install cargo-deb" >&2
    exit 1
else
    echo "left out: cargo-deb is missing (cargo install cargo-deb)"
fi

echo "== checksums"
(cd "$dist" && sha256sum -- * > SHA256SUMS && cat SHA256SUMS)
