# Sourced by the others: where the judges are, and how they get there, each in one version, from the package registries.
# Nothing is installed unless RETAKE_TEST_INSTALL=1; then npm and python3 come from Debian's packages where they are missing.
judges=${RETAKE_JUDGES:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/target/judges}
mkdir -p "$judges"

inspector=inspector-2.12.0
conformance=conformance-0.2.0-alpha.12
conformance_legacy=conformance-0.1.16
python_mcp=python-mcp-2.3.0
apps=apps-2.0.4

# Succeeds if all judges are installed.
all_installed() {
  for judge in $inspector $conformance $conformance_legacy $python_mcp $apps; do
    [ -e "$judges/$judge/ready" ] || return 1
  done
  find_chromium >/dev/null || return 1
  has_node_22 || [ -e "$judges/node-22/ready" ]
}

# Prints the path of Chromium.
find_chromium() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
}

may_install() {
  [ "${RETAKE_TEST_INSTALL:-}" = 1 ] || { echo "FAILED: $1 is not installed: set RETAKE_TEST_INSTALL=1 to install it" >&2; return 1; }
}

# needs COMMAND PACKAGE...: installs the packages unless the command succeeds.
needs() {
  sh -c "$1" >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "FAILED: install ${*:2}" >&2; return 1; }
  apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${@:2}" >&2
}

# npm_judge DIR PACKAGE...: prints the directory that has these packages.
npm_judge() {
  local dir=$judges/$1
  shift
  if [ ! -e "$dir/ready" ]; then
    may_install "$1" || return 1
    needs "npm --version" nodejs npm || return 1
    mkdir -p "$dir"
    echo '{"private": true}' >"$dir/package.json"
    (cd "$dir" && npm install --no-audit --no-fund --loglevel=error "$@" >&2) || { echo "FAILED: npm could not install $*" >&2; return 1; }
    touch "$dir/ready"
  fi
  echo "$dir/node_modules"
}

has_node_22() {
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# The judges need a newer Node.js than many machines have; npm has it as a package.
node_22() {
  if has_node_22; then
    command -v node
  else
    echo "$(npm_judge node-22 node@22.23.3)/.bin/node"
  fi
}

# python_judge DIR PACKAGE...: prints the path of a Python that has these packages.
python_judge() {
  local dir=$judges/$1
  shift
  if [ ! -e "$dir/ready" ]; then
    may_install "$1" || return 1
    needs "python3 -m venv --help" python3 python3-venv || return 1
    python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 ||
      { echo "FAILED: pip could not install $*" >&2; return 1; }
    touch "$dir/ready"
  fi
  echo "$dir/bin/python"
}
