#!/usr/bin/env bash
# Holds the protos to their promise: check = lint, and no change that breaks the wire; baseline = promise them as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=${VENV:-.venv}/bin/buf
[ -x "$buf" ] || buf=buf
case ${1:-} in
    check)
        "$buf" lint protos
        if [ -f protos/baseline.binpb ]; then "$buf" breaking protos --against protos/baseline.binpb; fi
        ;;
    baseline) "$buf" build protos --exclude-source-info -o protos/baseline.binpb ;;
    *) echo "usage: scripts/proto.sh check|baseline" >&2 && exit 2 ;;
esac
