#!/usr/bin/env bash
# Builds the images of the Compose simulation and runs its tests. An engine that it had to start is stopped again; its
# data stays for the next time (scripts/engine.sh purge removes it).
#   PIP_NO_INDEX=1   build from deploy/docker/wheelhouse alone (scripts/wheelhouse.sh fills it)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
scripts/engine.sh answers || trap 'scripts/engine.sh down' EXIT
found=$(scripts/engine.sh up)
eval "$found"
DOCKER_BUILDKIT=1 docker compose build --quiet
"$python" -m pytest -q tests/e2e/compose "$@"
