# Sourced by the others: where the judges are kept, and how they get there, each of one version, from the package
# registries. Needs npm or python3 only for the judge that is run, and installs them on Debian when it may.
judges=${RETAKE_JUDGES:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/target/judges}
mkdir -p "$judges"

# needs COMMAND PACKAGE...: sees to it that the command is there.
needs() {
  sh -c "$1" >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "FAILED: install ${*:2}" >&2; return 1; }
  apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${@:2}" >&2
}

# npm_judge DIR PACKAGE...: the directory with those packages.
npm_judge() {
  local dir=$judges/$1
  shift
  if [ ! -e "$dir/ready" ]; then
    needs "npm --version" nodejs npm || return 1
    mkdir -p "$dir"
    echo '{"private": true}' >"$dir/package.json"
    (cd "$dir" && npm install --no-audit --no-fund --loglevel=error "$@" >&2) || { echo "FAILED: npm could not install $*" >&2; return 1; }
    touch "$dir/ready"
  fi
  echo "$dir/node_modules"
}

# The judges need a newer Node than many machines have; npm has it as a package.
node_22() {
  if node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 19) ? 0 : 1)' 2>/dev/null; then
    command -v node
  else
    echo "$(npm_judge node-22 node@22.23.3)/.bin/node"
  fi
}

# python_judge DIR PACKAGE...: a Python that has those packages.
python_judge() {
  local dir=$judges/$1
  shift
  if [ ! -e "$dir/ready" ]; then
    needs "python3 -m venv --help" python3 python3-venv || return 1
    python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 ||
      { echo "FAILED: pip could not install $*" >&2; return 1; }
    touch "$dir/ready"
  fi
  echo "$dir/bin/python"
}
