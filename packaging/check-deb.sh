#!/usr/bin/env bash
# Checks the Debian package of target/dist with lintian, and installs, runs, upgrades, removes and purges it here.
# Needs root on Debian; refuses if retake is already installed.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(ls target/dist/retake_*.deb)
if dpkg -s retake > /dev/null 2>&1; then
    echo "error: the package retake is installed already" >&2
    exit 1
fi

echo "== lintian"
lintian --fail-on error "$package"

echo "== install"
dpkg -i "$package"
work=$(mktemp -d)
trap 'rm -rf "$work"; dpkg --purge retake > /dev/null 2>&1 || true' EXIT
cd "$work"
export RETAKE_WORKSPACE="$work/workspace"
retake --version
retake record "a fox" --seed 1
man --warnings --locale=C --pager=cat retake-record > page.txt 2> page.err
[ ! -s page.err ] || { cat page.err; exit 1; }
grep -q 'retake-record' page.txt
for file in /usr/share/bash-completion/completions/retake /usr/share/zsh/vendor-completions/_retake \
    /usr/share/fish/vendor_completions.d/retake.fish /usr/share/doc/retake/copyright /usr/share/doc/retake/NOTICES.txt \
    /usr/lib/systemd/user/retake-serve.service /usr/lib/systemd/user/retake-watch@.service; do
    [ -e "$file" ] || { echo "error: $file is missing" >&2; exit 1; }
done
if command -v systemd-analyze > /dev/null; then
    for unit in retake-serve retake-watch@; do
        XDG_RUNTIME_DIR="$work" systemd-analyze --user verify "/usr/lib/systemd/user/$unit.service"
    done
fi

echo "== upgrade keeps the workspace"
mkdir -p newer
dpkg-deb -R "$OLDPWD/$package" newer/files
sed -i 's/^Version: .*/&+test/' newer/files/DEBIAN/control
dpkg-deb -Znone -b newer/files newer/retake.deb > /dev/null
dpkg -i newer/retake.deb
retake show latest | grep -q 'a fox'

echo "== remove and purge"
dpkg -L retake > files
dpkg --remove retake
# Without configuration files and maintainer scripts, nothing is left to purge; dpkg then forgets the package.
dpkg --purge retake 2> /dev/null
! dpkg -s retake > /dev/null 2>&1 || { echo "error: dpkg still knows the package" >&2; exit 1; }
while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || { echo "error: $file is left" >&2; exit 1; }
done < files
[ ! -e /usr/share/doc/retake ] || { echo "error: /usr/share/doc/retake is left" >&2; exit 1; }
[ -d "$RETAKE_WORKSPACE/journal" ]
echo "the package installs, runs, upgrades and is removed; the workspace stays"
