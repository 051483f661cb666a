#!/usr/bin/env bash
# A Slurm cluster of N nodes on this one machine: slurmctld and N slurmd, nothing of systemd, no munge. Root only.
#   eval "$(scripts/slurm.sh up 3)"   prints SLURM_CONF
#   scripts/slurm.sh down             end what it started, by pid, and remove its files
#   scripts/slurm.sh install          Debian's packages, if they are missing
# Everything is under SLURM_SIM_DIR (default: /var/tmp/resurge-slurm).
set -euo pipefail
dir=${SLURM_SIM_DIR:-/var/tmp/resurge-slurm}
nodes=${2:-3}
say() { echo "slurm: $*" >&2; }

configure() {
    local host memory
    host=$(hostname -s)
    memory=$(($(awk '/MemTotal/{print $2}' /proc/meminfo) / 1024 / nodes))
    cat >"$dir/slurm.conf" <<CONF
ClusterName=resurge
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${SLURMCTLD_PORT:-26917}
# a job id is a job's name: never the same for two clusters of this machine
FirstJobId=$(date +%s | tail -c 8 | sed 's/^0*//')
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=15
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
# more processors than the machine has, so that every node can take a task
SlurmdParameters=config_overrides
CONF
    for i in $(seq 0 $((nodes - 1))); do
        echo "NodeName=node$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((27100 + i)) CPUs=4 RealMemory=$memory State=UNKNOWN"
    done >>"$dir/slurm.conf"
    echo "PartitionName=all Nodes=node[0-$((nodes - 1))] Default=YES MaxTime=INFINITE State=UP" >>"$dir/slurm.conf"
}

install_packages() {
    command -v slurmctld >/dev/null && command -v srun >/dev/null && return
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || { say "only root on Debian can install slurm-wlm here" && return 1; }
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm >/dev/null
}

up() {
    local idle
    [ "$(id -u)" = 0 ] || { say "needs root" && return 1; }
    command -v slurmctld >/dev/null || { say "not installed; scripts/slurm.sh install" && return 1; }
    mkdir -p "$dir"/{state,log,run}
    configure
    export SLURM_CONF=$dir/slurm.conf
    timeout 20 slurmctld -f "$SLURM_CONF" >&2 || { say "slurmctld did not start" && return 1; }
    for i in $(seq 0 $((nodes - 1))); do
        mkdir -p "$dir/spool/node$i"
        timeout 20 slurmd -N "node$i" -f "$SLURM_CONF" >&2 || { say "slurmd of node$i did not start" && return 1; }
    done
    for _ in $(seq 100); do
        idle=$(sinfo -h -N -o '%T' 2>/dev/null | grep -c '^idle' || true)
        [ "$idle" != "$nodes" ] || { echo "export SLURM_CONF=$SLURM_CONF" && return; }
        sleep 0.2
    done
    say "not all nodes became idle:" && sinfo -N >&2
    return 1
}

down() {
    local file pid
    for file in "$dir"/run/slurmd-*.pid "$dir/run/slurmctld.pid"; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
    done
    for file in "$dir"/run/*.pid; do
        [ -s "$file" ] || continue
        pid=$(cat "$file" 2>/dev/null) || continue
        for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null && sleep 0.1 || break; done
        ! kill -0 "$pid" 2>/dev/null || kill -9 "$pid"
    done
    rm -rf "$dir"
}

case ${1:-} in
    up) up ;;
    down) down ;;
    install) install_packages ;;
    *) sed -n '2,6s/^# //p' "$0" && exit 2 ;;
esac
