#!/usr/bin/env bash
# Makes $VENV (default .venv) with every distribution of the workspace, editable, and the tools of development.
# Safe to repeat; a second run takes a few seconds.
#   PYTHON                 the interpreter to build on (default: python3.11 or newer, whichever is found)
#   SYSTEM_SITE_PACKAGES=1 see the interpreter's own packages: an installed torch is used as it is
#   TORCH_PIP_ARGS         arguments for the installation of torch by pip, such as the index of its CPU builds
#   SKIP_TORCH=1           install no torch
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
py=$venv/bin/python

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python3.14}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.11 or newer found${PYTHON:+ at $PYTHON}; name one with PYTHON=/path/to/python" >&2
    return 1
}

# uv is fast, but reads no pip configuration: where it cannot reach its registry, pip does the same work.
install() {
    "$venv/bin/uv" pip install --quiet --python "$py" --build-constraints constraints.txt -c constraints.txt "$@" ||
        { echo "setup: uv could not install; trying pip" >&2 && "$py" -m pip install --quiet -c constraints.txt "$@"; }
}

has_torch() { "$py" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; }
has_nvidia() { [ -e /proc/driver/nvidia ] || command -v nvidia-smi >/dev/null; }

if ! "$py" -m pip --version >/dev/null 2>&1; then # none yet, or one that an interruption left half made
    python=$(find_python)
    site=()
    if [ "${SYSTEM_SITE_PACKAGES:-0}" != 0 ]; then site=(--system-site-packages); fi
    if ! "$python" -m venv "${site[@]}" "$venv"; then
        echo "setup: $python cannot make an environment; on Debian: apt-get install python3-venv" >&2
        exit 1
    fi
fi
[ -x "$venv/bin/uv" ] || "$py" -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

echo "setup: installing into $venv; the first time takes some minutes, most of them for torch's download"
install -r requirements-dev.txt \
    -e libs/api -e libs/common -e services/rendezvous -e services/restart_policy -e services/launcher \
    -e services/log_aggregator -e services/host -e worker_sdk

pip_torch() {
    # shellcheck disable=SC2086  # several arguments are meant
    "$py" -m pip install --quiet --disable-pip-version-check ${TORCH_PIP_ARGS:-} -c constraints.txt "$@"
}

# The CPU build, in this order: where pip's own configuration names one; where uv knows one to be; whatever pip finds.
install_cpu_torch() {
    if [ -n "${TORCH_PIP_ARGS:-}" ]; then
        pip_torch "torch==$torch"
    else
        pip_torch "torch==$torch+cpu" 2>/dev/null ||
            "$venv/bin/uv" pip install --quiet --python "$py" -c constraints.txt --torch-backend=cpu "torch==$torch" ||
            pip_torch "torch==$torch"
    fi
}

torch=$(sed -n 's/^torch==//p' constraints.txt)
if [ -n "${SKIP_TORCH:-}" ] || has_torch; then
    :
elif has_nvidia; then
    echo "setup: installing torch for the GPU of this machine: some gigabytes"
    # shellcheck disable=SC2086  # without the constraints: the newest torch that the driver's pip sources offer
    "$py" -m pip install --quiet --disable-pip-version-check ${TORCH_PIP_ARGS:-} torch
else
    echo "setup: installing torch $torch for CPU"
    install_cpu_torch
fi
echo "setup: $("$py" -V) in $venv, torch $("$py" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || echo "not installed")"
