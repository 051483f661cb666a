#!/usr/bin/env bash
# Makes $VENV (default .venv) with every distribution of the workspace, editable, and the tools of development.
# Safe to repeat; a second run takes a few seconds.
#   PYTHON                 the interpreter to build on (default: python3.11 or newer, whichever is found)
#   SYSTEM_SITE_PACKAGES=1 see the interpreter's own packages: an installed torch is used as it is
#   TORCH_PIP_ARGS         more arguments for the installation of torch, such as the index of its CPU builds
#   SKIP_TORCH=1           install no torch
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
py=$venv/bin/python

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.11 or newer found; name one with PYTHON=/path/to/python" >&2
    return 1
}

# uv is fast, but reads no pip configuration: where it cannot reach its registry, pip does the same work.
install() {
    "$venv/bin/uv" pip install --quiet --python "$py" --build-constraints constraints.txt -c constraints.txt "$@" ||
        { echo "setup: uv could not install; trying pip" >&2 && "$py" -m pip install --quiet -c constraints.txt "$@"; }
}

has_torch() { "$py" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; }
has_nvidia() { [ -e /proc/driver/nvidia ] || command -v nvidia-smi >/dev/null; }

if [ ! -x "$py" ]; then
    python=$(find_python)
    if ! "$python" -m venv ${SYSTEM_SITE_PACKAGES:+--system-site-packages} "$venv"; then
        rm -rf "$venv"
        echo "setup: $python cannot make an environment; on Debian: apt-get install python3-venv" >&2
        exit 1
    fi
fi
[ -x "$venv/bin/uv" ] || "$py" -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

echo "setup: installing into $venv"
install -r requirements-dev.txt \
    -e libs/api -e libs/common -e services/rendezvous -e services/restart_policy -e services/launcher -e services/host \
    -e worker_sdk

# torch by plain pip: it reads the machine's own configuration, where a CPU build may be named.
if [ -n "${SKIP_TORCH:-}" ] || has_torch; then
    :
elif has_nvidia; then
    echo "setup: installing torch for the GPU of this machine: some gigabytes"
    # shellcheck disable=SC2086  # several arguments are meant
    "$py" -m pip install --quiet --disable-pip-version-check ${TORCH_PIP_ARGS:-} torch
else
    echo "setup: installing torch for CPU"
    # shellcheck disable=SC2086
    "$py" -m pip install --quiet --disable-pip-version-check ${TORCH_PIP_ARGS:-} -c constraints.txt torch==2.13.0
fi
echo "setup: $("$py" -V) in $venv, torch $("$py" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || echo "not installed")"
