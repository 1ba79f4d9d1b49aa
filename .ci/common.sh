# What both checks share; sourced, never run. Everything is set up by make.

# The interpreter of that version, wherever this machine keeps it: on PATH, or among pyenv's.
interpreter() {
  local found
  for found in "python$1" "$(command -v pyenv >/dev/null && pyenv root)/versions/$1".*/bin/python; do
    if "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" >/dev/null 2>&1; then
      "$found" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

# So many seconds at most, where this machine can say so.
limited() {
  if command -v timeout >/dev/null; then timeout "$@"; else "${@:2}"; fi
}

# Say whether PostgreSQL is here; where it is not, and this is root of a Debian, try to install it first.
postgres_here() {
  postgres_found && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { limited 120 apt-get update && limited 300 apt-get install --yes --no-install-recommends postgresql; } >/dev/null 2>&1 || true
    postgres_found && return
  fi
  echo "it cannot be had, so the tests that need it are skipped"
}

postgres_found() {
  local found
  for found in "$(command -v postgres)" /usr/lib/postgresql/*/bin/postgres; do
    [ -x "$found" ] && "$found" --version && return
  done
  return 1
}

# Files of tests lie in memory where the machine has plenty: to flush each write to a disk takes half the time.
files_in_memory() {
  local free
  free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -1) || true
  if [ "${free:-0}" -ge 8388608 ] && [ -w /dev/shm ]; then
    TMPDIR=$(mktemp -d /dev/shm/jazz-ci-XXXXXX)
    export TMPDIR
    chmod 711 "$TMPDIR"  # a PostgreSQL that root starts runs as another user
    trap 'rm -rf "$TMPDIR"' EXIT
  fi
}

# Run two commands that keep one core busy each, side by side; print what the first one says once both have ended.
side_by_side() {
  local log process failed=0
  log=$(mktemp)
  (eval "$1") >"$log" 2>&1 &
  process=$!
  (eval "$2") || { failed=1; echo "failed: $2"; }
  wait "$process" || { failed=1; echo "failed: $1"; }
  cat "$log"
  rm -f "$log"
  return "$failed"
}

# Say what begins, and how many minutes are gone.
step() {
  printf -- '--- %s (minute %d)\n' "$1" "$((SECONDS / 60))"
}

# The version of the Python in the environment that make chose.
home_version() {
  .venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}
