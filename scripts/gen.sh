#!/usr/bin/env bash
# Generates the Python code of protos/ into the folder given. The generator is old on purpose: code made by it loads on
# protobuf 6.31 to 7.x, while a new one would ask every user for its own runtime. It needs an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/gen.sh OUTPUT_FOLDER}
env=.venv-gen
if ! cmp --silent scripts/gen-requirements.txt $env/.ready; then
    rm -rf $env
    "${PYTHON:-${VENV:-.venv}/bin/python}" -m venv $env
    $env/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/gen-requirements.txt
    cp scripts/gen-requirements.txt $env/.ready
fi
mkdir -p "$out"
find "$out/resurge_api" \( -name '*_pb2.py' -o -name '*_pb2.pyi' -o -name '*_pb2_grpc.py' \) -delete 2>/dev/null || true
mapfile -t files < <(find protos/resurge_api -name '*.proto' | LC_ALL=C sort)
$env/bin/python -m grpc_tools.protoc -I protos --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" "${files[@]}"
