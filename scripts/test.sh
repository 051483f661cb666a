#!/usr/bin/env bash
# The whole suite on CPU, two tests at a time, or three where tests wait for half of their time; those that measure time
# or use a whole machine run alone at the end. TEST_PROCESSES=2 says how many for all.
# All layers run, also after one failed. Arguments are passed to every pytest.
# A machine is shared with strangers, and threads and processes are late there: a test that fails is run once more, and
# both are told (RERUN in the summary). TEST_RERUNS=0 counts the first failure.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
export GRPC_ENABLE_FORK_SUPPORT=0
failed=()

layer() { # layer NAME PYTEST_ARGUMENTS... : folders that do not exist are left out
    local name=$1 rc=0
    shift
    echo "== $name"
    "$python" -m pytest -q "$@" || rc=$?
    # 5: no test was collected in this layer, which is no failure of a test
    if [ $rc -ne 0 ] && [ $rc -ne 5 ]; then failed+=("$name"); fi
}

present() {
    local folder
    for folder in "$@"; do if [ -d "tests/$folder" ]; then echo "tests/$folder"; fi; done
}

echo "== lint"
scripts/lint.sh || failed+=(lint)
pure=$(present arch unit props sim contract)
real=$(present integration e2e)
reruns=(--reruns "${TEST_RERUNS:-1}")
alone=(
    tests/integration/launcher/test_speed.py tests/integration/launcher/test_death_watch.py
    tests/integration/launcher/test_hangs.py tests/integration/launcher/test_last_words.py
    tests/integration/launcher/test_standalone.py tests/e2e/test_endurance.py tests/e2e/test_netns.py tests/e2e/compose
)
# shellcheck disable=SC2086  # several folders are meant
[ -z "$pure" ] || layer "pure layers" -n "${TEST_PROCESSES:-2}" --dist worksteal "${reruns[@]}" $pure "$@"
# shellcheck disable=SC2086
[ -z "$real" ] || layer "layers with real processes" -n "${TEST_PROCESSES:-3}" --dist loadfile --durations=15 \
    --durations-min=2 "${reruns[@]}" $real "${alone[@]/#/--ignore=}" "$@"
[ -z "$real" ] || layer "tests that want the machine alone" --durations=10 --durations-min=2 "${reruns[@]}" \
    "${alone[@]}" "$@"

if [ ${#failed[@]} -gt 0 ]; then
    echo "test: failed: ${failed[*]}" >&2
    exit 1
fi
echo "test: all layers passed"
