#!/usr/bin/env bash
# A Docker engine for the Compose simulation on a Debian machine without one, from Debian's own packages. Root only.
#   eval "$(scripts/engine.sh up)"    start one of its own unless an engine answers; prints DOCKER_HOST and DOCKER_CONFIG
#   scripts/engine.sh down            stop that engine, and no other
#   scripts/engine.sh purge           down, and remove its data (docker0 and its firewall chains stay: engines share them)
#   scripts/engine.sh answers         whether some engine answers, or this one was started before
# Everything is under ENGINE_DIR (default: /var/tmp/resurge-engine).
set -euo pipefail
dir=${ENGINE_DIR:-/var/tmp/resurge-engine}
base=python:3.11-slim
say() { echo "engine: $*" >&2; }

install_packages() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$dir/apt.log" 2>&1 ||
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$dir/apt.log" 2>&1; }
}

start_engine() {
    command -v dockerd >/dev/null || { say "installing docker.io" && install_packages docker.io iptables; }
    rm -f "$dir/pid"
    # directories, socket and pid of its own: another engine's state is never touched
    setsid nohup dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" --host "$DOCKER_HOST" \
        </dev/null >"$dir/dockerd.log" 2>&1 &
    for _ in $(seq 150); do
        docker info >/dev/null 2>&1 && return
        sleep 0.2
    done
    say "dockerd did not start:" && tail -20 "$dir/dockerd.log" >&2
    return 1
}

# Debian 12 has only the old Compose; the plugins of the release after it run there as they are.
add_plugins() {
    local work=$dir/plugins mirror options
    say "adding docker compose and buildx"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$DOCKER_CONFIG/cli-plugins"
    mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
    mirror=${mirror:-$(awk '/^deb /{print $2; exit}' /etc/apt/sources.list)}
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/sources.list"
    options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$work" && apt-get "${options[@]}" download docker-compose docker-buildx && for deb in *.deb; do dpkg -x "$deb" x; done)
    install -m 755 "$work"/x/usr/libexec/docker/cli-plugins/* "$DOCKER_CONFIG/cli-plugins/"
}

# Where the image cannot be pulled: Debian's Python 3.11 under the same name, with a current pip.
build_base() {
    local work
    say "building a stand-in for $base"
    command -v mmdebstrap >/dev/null || install_packages mmdebstrap
    work=$(mktemp -d /dev/shm/base.XXXX) # dpkg syncs often; this needs no disk
    # shellcheck disable=SC2064  # this folder, now
    trap "rm -rf '$work'" EXIT
    TMPDIR=$work mmdebstrap -q --variant=apt --include=python3,ca-certificates,libstdc++6 --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' bookworm "$work/rootfs.tar"
    PIP_NO_INDEX=0 python3 -m pip download -q --disable-pip-version-check -d "$work" pip setuptools wheel
    cp /etc/ssl/certs/ca-certificates.crt "$work/" # what this machine trusts
    printf '%s\n' 'FROM scratch' 'ADD rootfs.tar /' 'COPY *.whl /wheels/' \
        'RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && pip=$(ls /wheels/pip-*.whl) && python3 $pip/pip install -q --no-index --find-links /wheels pip setuptools wheel && ln -s /usr/bin/python3 /usr/local/bin/python && rm -rf /wheels /var/cache/apt/*' \
        'COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt' 'CMD ["python3"]' >"$work/Dockerfile"
    docker build -q -t "$base" "$work" >/dev/null
}

up() {
    mkdir -p "$dir"
    if ! docker info >/dev/null 2>&1; then
        export DOCKER_HOST=unix://$dir/docker.sock
        [ "$(id -u)" = 0 ] || { say "no engine answers, and starting one needs root" && return 1; }
        docker info >/dev/null 2>&1 || start_engine
        echo "export DOCKER_HOST=$DOCKER_HOST"
    fi
    if ! docker compose version >/dev/null 2>&1 || ! docker buildx version >/dev/null 2>&1; then
        export DOCKER_CONFIG=$dir/config
        docker compose version >/dev/null 2>&1 || add_plugins
        echo "export DOCKER_CONFIG=$DOCKER_CONFIG"
    fi
    docker image inspect "$base" >/dev/null 2>&1 || docker pull -q "$base" >/dev/null 2>&1 || build_base
    say "$(docker version --format '{{.Server.Version}}'), $(docker compose version | head -1)"
}

down() {
    local pid
    [ -s "$dir/pid" ] || return 0
    pid=$(cat "$dir/pid")
    kill "$pid" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    say "the engine $pid is still ending"
}

case ${1:-} in
    up) up ;;
    down) down ;;
    answers) docker info >/dev/null 2>&1 || DOCKER_HOST=unix://$dir/docker.sock docker info >/dev/null 2>&1 ;;
    purge) down && rm -rf "$dir" ;;
    *) sed -n '2,7s/^# //p' "$0" && exit 2 ;;
esac
