#!/usr/bin/env bash
# Every check of form, side by side: all of them run, and the names of those that failed come last.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
names=()
pids=()

check() {
    local name=$1
    shift
    "$@" >"$said/$name" 2>&1 </dev/null &
    names+=("$name")
    pids+=($!)
}

# the slowest first, the others beside it
check mypy "$bin/mypy" --no-error-summary libs/common/src services/*/src worker_sdk/src
check ruff "$bin/ruff" check --quiet .
check format "$bin/ruff" format --check --quiet .
check house "$bin/python" -m tests.arch
check imports "$bin/lint-imports" --no-logo
if [ -f protos/buf.yaml ]; then check protos scripts/proto.sh check; fi

failed=()
for number in "${!names[@]}"; do
    if ! wait "${pids[$number]}"; then
        failed+=("${names[$number]}")
        printf '== %s\n%s\n' "${names[$number]}" "$(cat "$said/${names[$number]}")"
    fi
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}" >&2
    exit 1
fi
echo "lint: clean"
