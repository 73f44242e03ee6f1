#!/usr/bin/env bash
# Tests of ./run without a build: a tree with its folders, with programs that print what they were given, and with a ninja
# and a dpkg-query that are always content.   tests/door/door_test.sh
set -euo pipefail
source=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# expect WHAT GOT WANTED: WANTED is a pattern of bash.
expect() {
  # shellcheck disable=SC2053
  if [[ $2 != $3 ]]; then
    printf 'door_test: %s\n  got:    %s\n  wanted: %s\n' "$1" "$2" "$3" >&2
    failures=$((failures + 1))
  fi
}

# program FILE: reads its text from stdin.
program() {
  mkdir -p "$(dirname "$1")"
  cat >"$1"
  chmod +x "$1"
}

mkdir -p "$tree/tools" "$tree/build"
cp "$source/run" "$tree/run"
cp -r "$source/.ci" "$tree/.ci"
touch "$tree/build/build.ninja"
for main in "$source"/experiments/*/main.cpp; do
  name=$(basename "$(dirname "$main")")
  mkdir -p "$tree/experiments/$name"
  touch "$tree/experiments/$name/main.cpp"
  cp "$source/experiments/$name/README.md" "$tree/experiments/$name/"
  program "$tree/build/bin/$name" <<<"#!/bin/sh
echo $name \"\$@\""
done
program "$tree/tools/ninja" <<<'#!/bin/sh
echo "ninja: no work to do."'
program "$tree/tools/dpkg-query" <<<'#!/bin/sh
printf "install ok installed"'
PATH=$tree/tools:$PATH
unset COLUMNS

# run OPTION...: what it says, and the exit code.
run() {
  local code=0
  "$tree/run" "$@" 2>&1 </dev/null || code=$?
  echo "exit $code"
}

# Every name that is listed is found, every time.
names=$("$tree/run" list | sed -n 's/^\([^ ]\+\) .*/\1/p')
expect 'names in the list' "$(wc -w <<<"$names")" "$(find "$source"/experiments/*/main.cpp | grep -vcE '/(data|tokenize)/')"
for name in $names data tokenize; do
  for _ in 1 2 3; do expect "./run $name" "$(run "$name" --steps=1 'a b')" "$name --steps=1 a b"$'\n'"exit 0"; done
done
for name in nothing ../experiments/lra common; do
  expect "./run '$name'" "$(run "$name")" "run: no command or experiment '$name'; experiments: *lra*exit 2"
done

for options in '' --help -h help; do
  # shellcheck disable=SC2086
  expect "./run $options" "$(run $options)" $'Usage: ./run *\nexit 0'
done
expect './run --version' "$(run --version)" $'tokenize --version\nexit 0'
expect './run --nothing' "$(run --nothing)" $'run: unknown option --nothing; see ./run --help\nexit 2'

for pair in lre:lra unic:uci tokenise:tokenize tets:test 'kernel_estimation:kernel-estimation' pretrian:pretrain; do
  expect "./run ${pair%:*}" "$(run "${pair%:*}")" "run: no command or experiment '${pair%:*}'; did you mean ${pair#*:}? All experiments: *exit 2"
done
expect './run nothing' "$(run nothing)" "run: no command or experiment 'nothing'; experiments: *exit 2"

# The demo replaces the folder of the demo before with its own, and nothing else does.
demo=$tree/runs/demo
program "$tree/build/bin/lra" <<<'#!/bin/sh
case "$*" in *--help*) echo help; exit 0 ;; *--mistake*) exit 2 ;; esac
test -e runs/demo && echo "there is a folder"
mkdir -p runs/demo && echo new >runs/demo/report.html'
expect 'first demo' "$(run demo)" $'\nWhat to try next:*exit 0'
expect 'its report' "$(cat "$demo/report.html")" new
echo old >"$demo/report.html"
expect 'help' "$(run demo --help)" $'help\nexit 0'
expect 'the report after --help' "$(cat "$demo/report.html")" old
expect 'a mistake' "$(run demo --mistake)" 'exit 2'
expect 'the report after a mistake' "$(cat "$demo/report.html")" old
expect 'to resume' "$(run demo --resume)" $'there is a folder\n*'
echo old >"$demo/report.html"
expect 'second demo' "$(run demo)" $'\nWhat to try next:*exit 0'
expect 'its report' "$(cat "$demo/report.html")" new
echo old >"$demo/report.html"
mv "$demo" "$demo.before"  # as a killed demo leaves it
expect 'help after a killed demo' "$(run demo --help)" $'help\nexit 0'
expect 'the report after it' "$(cat "$demo/report.html")" old
expect 'folders left' "$(ls "$tree/runs")" demo

exec 7>"$tree/runs/.demo-lock"
flock 7
expect 'a demo beside another' "$(run demo)" $'run: another ./run demo is running; *exit 2'
expect 'the report of the other' "$(cat "$demo/report.html")" old
exec 7>&-

# What says how to build stands in front of the name.
for option in --cuda --mpi --no-install; do
  expect "./run lra $option" "$(run lra --steps=1 $option)" "run: $option goes before the name: ./run $option lra ..."$'\nexit 2'
done

# A run is exported by its own program; of a folder of several, each is named.
for seed in 1 2; do
  mkdir -p "$tree/runs/two/seed$seed"
  echo 'experiment = glue' >"$tree/runs/two/seed$seed/config.ini"
done
expect 'a run' "$(run export runs/two/seed1 --to=a)" $'glue --export=runs/two/seed1 --to=a\nexit 0'
expect 'a folder of runs' "$(run export runs/two --to=a)" \
  $'run: export: there is no run in runs/two itself; name one of those below it: runs/two/seed1 runs/two/seed2\nexit 2'
expect 'no run' "$(run export nowhere --to=a)" $'run: export: there is no run in nowhere\nexit 2'
echo 'experiment = uci' >"$tree/runs/two/config.ini"
expect 'a run of another program' "$(run export runs/two --to=a)" $'run: export: runs/two is a run of uci; only those of glue, vit and pretrain are written for transformers\nexit 2'
rm "$tree/runs/two/config.ini"
echo '{}' >"$tree/runs/two/config.json"
expect 'a model' "$(run export runs/two --to=a)" \
  $'run: export: runs/two holds a model already, as ./run convert writes it; use it as it is\nexit 2'
rm -r "$tree/runs/two"

# Only what is named is built.
program "$tree/tools/ninja" <<<'#!/bin/sh
echo "ninja $*"'
expect './run build' "$(run build)" $'ninja -C */build all\nexit 0'
expect './run build NAME' "$(run build lra uci)" $'ninja -C */build lra uci\nexit 0'
program "$tree/tools/ninja" <<<'#!/bin/sh
echo "ninja: no work to do."'

# A build is configured when it is new, and again when --cuda asks for kernels that it was made without.
program "$tree/tools/cmake" <<<'#!/bin/sh
echo "cmake $*" >>configured
echo "BOCHNER_CUDA:STRING=ON" >build/CMakeCache.txt'
run data >/dev/null
expect 'a build that is there' "$(cat "$tree/configured" 2>&1)" '*No such file*'
expect '--cuda' "$(run --cuda data)" $'data*\nexit 0'
run --cuda data >/dev/null
expect '--cuda, twice' "$(cat "$tree/configured")" 'cmake --preset default *-DBOCHNER_WERROR=OFF -DBOCHNER_CUDA=ON'
echo 'BOCHNER_WERROR:BOOL=ON' >>"$tree/build/CMakeCache.txt"
run --mpi data >/dev/null
expect 'warnings stay errors' "$(tail -n 1 "$tree/configured")" '*-DBOCHNER_WERROR=ON -DBOCHNER_MPI=ON'
program "$tree/tools/cmake" <<<'#!/bin/sh
echo no compiler; exit 1'
rm "$tree/build/build.ninja"
expect 'a build that cannot be configured' "$(run data)" $'run: first build: this takes some minutes\nno compiler\nrun: *exit 2'
touch "$tree/build/build.ninja"

# Of a build and of tests only what went wrong is shown, at once; how far they are is told once a minute at most.
program "$tree/tools/ninja" <<<'#!/bin/sh
echo "[1/20, 0.1s] Building a"
echo "FAILED: b"
echo "b.cpp:1: error: wrong"
exit 1'
expect 'a build that fails' "$(run data)" $'FAILED: b\nb.cpp:1: error: wrong\nexit 1'
# A library of functions, as for .ci/test.sh.
sed '/^while \[\[/,$d' "$tree/run" >"$tree/functions"
# shellcheck disable=SC1091
functions() { (cd "$tree" && BASH_ARGV0=$tree/run && source ./functions && source .ci/test.sh && "$@") }
tests() {
  printf '%s\n' '    Start 1: a' ' 1/9 Test #1: a ....   Passed    0.01 sec' ' 2/9 Test #2: b ....***Failed    0.01 sec' \
    'b_test.cpp:3: Failure' ' 3/9 Test #3: c ....***Skipped   0.01 sec' ' 4/9 Test #4: d ....***Timeout   0.01 sec'
}
expect 'tests that fail' "$(tests | functions show_progress)" $' 2/9 Test #2: b*Failed*\nb_test.cpp:3: Failure\n 4/9 Test #4: d*'
expect 'the time left' "$(functions time_left 10 40 15)" '10 of 40, 15 s, about 45 s left'
expect 'the time left, of long ones' "$(functions time_left 10 40 200)" '10 of 40, 3 min, about 10 min left'
expect 'the time left, at the beginning' "$(functions time_left 1 40 15)" '1 of 40, 15 s'
expect 'the time left of stages' "$(functions remaining /dev/null 'check_tests tests')" ''
printf '%s\n' 'check_style 50' 'check_tests 60' 'check_tidy 70' >"$tree/times"
expect 'the time left of stages' "$(functions remaining "$tree/times" 'check_tests    tests' 'check_tidy  tidy')" ', about 3 min left'

# Packages that are missing are named, and nothing else is done, where they may not be installed.
program "$tree/tools/dpkg-query" <<<'#!/bin/sh
case "$*" in *ninja-build) printf "deinstall ok config-files" ;; *) printf "install ok installed" ;; esac'
expect 'a missing package' "$(run --no-install lra)" 'run: packages missing to build: ninja-build (*'

if ((failures > 0)); then exit 1; fi
echo "door_test: passed"
