#!/usr/bin/env bash
# Tries the job script of docs/cluster.md, as it is printed there, under a Slurm of its own on this machine: munge, slurmctld
# and slurmd of Debian with all of their files in a folder that is gone afterwards.
#
#   tests/cluster/slurm_trial.sh [BUILD]        BUILD: a build folder with MPI; otherwise build
#
# A small model is trained in 2 tasks. Slurm sends SIGUSR1 before the time is over, and after the job has been queued again
# and has gone on, `scancel --signal=TERM` stops it once more. The weights must be those of a run that nothing stopped, in one
# process. It takes about eight minutes, and 2 cores that should have nothing else to do; it is no part of continuous
# integration. Exits with 0 if all held.
set -euo pipefail
source=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$source/build}")
fail() { echo "slurm_trial: $1" >&2; exit 1; }

missing=()
for need in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
  PATH=$PATH:/usr/sbin command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
done
((${#missing[@]} == 0)) || fail "these packages are missing: ${missing[*]}"
PATH=$PATH:/usr/sbin
((EUID == 0)) || fail "it must be run as root, as whom slurmd starts the tasks"
(($(nproc) >= 2)) || fail "it needs 2 cores, one for each task"
[[ $("$build/bin/lra" --version 2>/dev/null) == *"MPI:      Open MPI"* ]] || fail "$build/bin/lra is not there, or knows no MPI: ./run --mpi build"

folder=$(mktemp -d)
chmod 755 "$folder"  # munged wants its socket where all can come
daemons=()
job=
clean() {
  local code=$?
  set +e
  if ((code != 0)); then tail -n 20 "$folder"/*.log "$folder"/*.out >&2; fi
  if [[ -n $job ]]; then  # with SIGKILL, since the script would queue the job again
    scancel --quiet --full --signal=KILL "$job"
    scancel --quiet "$job"
    for _ in {1..60}; do [[ -n $(squeue --noheader) ]] && sleep 0.5; done
  fi 2>/dev/null
  kill "${daemons[@]}" 2>/dev/null
  wait
  rm -rf "$folder"
}
trap clean EXIT
mkdir -p "$folder/state" "$folder/spool" "$folder/tmp" "$folder/build/bin"

# ---- the cluster
host=$(hostname -s)
port=$((20000 + RANDOM % 10000))
cat >"$folder/slurm.conf" <<END
ClusterName=trial
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
TmpFS=$folder/tmp
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP
END
export SLURM_CONF=$folder/slurm.conf
start() { "$@" >"$folder/$1.log" 2>&1 & daemons+=($!); }
(umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
start munged --foreground --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munge.log" --seed-file="$folder/munge.seed"
start slurmctld -D -f "$SLURM_CONF"
start slurmd -D -f "$SLURM_CONF"

# until SECONDS WHAT COMMAND...: waits until the command succeeds.
until_() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "waited in vain for $what"
    sleep 1
  done
}
idle() { [[ $(sinfo --noheader --format=%T) == idle ]]; }
until_ 60 "the node to be idle" idle
echo "$(slurmd -V) on $host, with $(munged --version | head -n 1)"

# ---- the job: the document's script, whose build/bin/lra is one that adds the options of a small model
awk 'printing && /^```$/ { exit } printing { print } /^```bash$/ { printing = 1 }' "$source/docs/cluster.md" >"$folder/job.sh"
grep -q '^#SBATCH' "$folder/job.sh" || fail "docs/cluster.md has no job script"
small=(--preset=quick --attention=performer --model.dropout=0.1 --shards=8 --listops.train-examples=400 --listops.valid-examples=90
  --listops.test-examples=70 --optim.warmup=0 --optim.evaluate-every=1000000)
cd "$folder"
export OMPI_MCA_mpi_yield_when_idle=1  # for machines where other programs run, too
sbatch --quiet --wait --ntasks=2 --output=bench.out --wrap="srun --mpi=pmix $build/bin/lra ${small[*]} --threads=1 --bench" || true
shortest_step=$(sed -n 's/.*a training step: .*shortest \([0-9.]*\) ms.*/\1/p' bench.out)
[[ -n $shortest_step ]] || fail "srun does not start build/bin/lra --bench in 2 tasks"
# 45 seconds at least, since Slurm looks only twice a minute what is due.
steps=$(awk -v ms="$shortest_step" 'BEGIN { print int(45000 / ms) }')
small+=(--steps="$steps")
printf '#!/bin/sh\nexec %s "$@" %s\n' "$build/bin/lra" "${small[*]}" >build/bin/lra
chmod +x build/bin/lra

echo "unbroken: $steps steps in one process"
build/bin/lra --task=listops --threads=2 --quiet --out=runs/unbroken >unbroken.out 2>&1
job=$(sbatch --parsable --ntasks=2 --cpus-per-task=1 job.sh)
submitted=$SECONDS
out=$folder/slurm-$job.out

# stopped N: whether the job has been stopped and queued again N times; waiting is what it does next.
stopped() {
  [[ $(scontrol show job "$job") == *"JobState=PENDING "*"Restarts=$1 "* ]] && (($(grep -c 'interrupted at step' "$out") == $1))
}
again() {  # after two minutes, which Slurm takes to forget that it has ended the job
  grep -a 'interrupted at step' "$out" | tail -n 1
  echo "ended with 75, and was queued again: $(scontrol show job "$job" | grep -o 'Restarts=[0-9]*')"
  scontrol update JobId="$job" TimeLimit=04:00:00
}
# went_on N: whether it has gone on after it was queued again N times.
went_on() { (($(grep -c 'processes, into runs/listops' "$out") == $1 + 1)) && tail -n 1 "$out" | grep -q '^step '; }
ended() { [[ $(scontrol show job "$job") == *"JobState=COMPLETED "* ]]; }

until_ 120 "the first steps of the job" went_on 0
scontrol update JobId="$job" TimeLimit=$(((SECONDS - submitted) / 60 + 2))  # so that the document's USR1@120 is due
until_ 120 "SIGUSR1 of Slurm to stop the job" stopped 1
again
until_ 300 "the job to go on" went_on 1
scancel --signal=TERM "$job"
until_ 60 "SIGTERM of scancel to stop the job" stopped 2
again
until_ 1800 "the job to end" ended
job=
tail -n 1 "$out"

# ---- of a checkpoint, the tensors: what follows its header. They are weights and what the optimizer keeps.
tensors() {
  local header
  header=$(od -An -tu8 -N8 "$1")
  tail -c +$((header + 9)) "$1" | sha256sum | cut -d ' ' -f 1
}
unbroken=$(tensors runs/unbroken/checkpoint-last)
stopped=$(tensors runs/listops/checkpoint-last)
echo "SHA-256 of weights: unbroken $unbroken"
echo "             stopped twice $stopped"
[[ $unbroken == "$stopped" ]] || fail "the weights differ"
echo "slurm_trial: passed"
