#!/usr/bin/env bash
# Every check of form: all of them run, and the names of those that failed come last.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
failed=()

check() {
    local name=$1 output
    shift
    if ! output=$("$@" 2>&1); then
        failed+=("$name")
        printf '== %s\n%s\n' "$name" "$output"
    fi
}

check ruff "$bin/ruff" check --quiet .
check format "$bin/ruff" format --check --quiet .
check mypy "$bin/mypy" --no-error-summary libs/common/src services/*/src worker_sdk/src
check house "$bin/python" -m tests.arch
check imports "$bin/lint-imports" --no-logo
if [ -f protos/buf.yaml ]; then check protos scripts/proto.sh check; fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}" >&2
    exit 1
fi
echo "lint: clean"
