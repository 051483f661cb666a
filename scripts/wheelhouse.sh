#!/usr/bin/env bash
# Fills deploy/docker/wheelhouse, so that the images build without any network (PIP_NO_INDEX=1). The wheels are for this
# machine's Python, which must be that of the images: 3.11.
#   SKIP_TORCH=1   only what the services need
set -euo pipefail
cd "$(dirname "$0")/.."
pip=("${PYTHON:-python3.11}" -m pip download --quiet --disable-pip-version-check --only-binary :all: --dest deploy/docker/wheelhouse)
"${pip[@]}" -c constraints.txt -r deploy/docker/requirements-services.txt hatchling
if [ -z "${SKIP_TORCH:-}" ]; then
    # the example reads one data file of scikit-learn, and imports nothing of it
    "${pip[@]}" --no-deps "$(grep '^scikit-learn==' constraints.txt)"
    torch=$(sed -n 's/^torch==//p' constraints.txt)
    # shellcheck disable=SC2086  # several arguments are meant
    "${pip[@]}" -c constraints.txt ${TORCH_PIP_ARGS:-} numpy "torch==$torch+cpu" ||
        "${pip[@]}" -c constraints.txt ${TORCH_PIP_ARGS:-} numpy "torch==$torch"
fi
echo "wheelhouse: $(find deploy/docker/wheelhouse -name '*.whl' | wc -l) wheels, $(du -sh deploy/docker/wheelhouse | cut -f1)"
