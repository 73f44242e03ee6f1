# The stages of `./run test`; sourced by ./run, whose functions and package lists it uses.
# shellcheck shell=bash disable=SC2154

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

# What is checked, in this order: a function and what it does.
stages=(
  'check_style        style, and the door'
  'check_build        build, warnings are errors'
  'check_kernels      CUDA kernels, by nvcc'
  'check_tests        tests'
  'check_end_to_end   an experiment from end to end'
  'check_documents    every command that a document prints'
  'check_consumer     projects that use the library'
  'check_sanitizers   address and undefined-behaviour sanitizers'
  'check_alone        each file by itself, as beside a compiler cache'
  'check_tidy         clang-tidy'
  'check_fuzzers      fuzzing'
)

test_all() {
  if (($# > 0)); then
    build_target all
    local asked=(--no-tests=error)
    if [[ " $* " =~ \ (-N|--show-only)[\ =] ]]; then asked=(); fi  # ctest takes it for a run
    ctest --test-dir "$build" --output-on-failure "${asked[@]}" "$@"
    return
  fi
  build_options+=(BOCHNER_WERROR=ON BOCHNER_CUDA_CHECK=ON)
  git ls-files >/dev/null || die "the checks ask git for the project's files: they need a clone of your own, and git"
  need 'test' "${packages_test[@]}" "${packages_fuzz[@]}" "${packages_style[@]}"
  mkdir -p "$build"
  local i name what began times=$build/test-times
  : >"$times.new"
  for ((i = 0; i < ${#stages[@]}; i++)); do
    read -r name what <<<"${stages[i]}"
    say "---- $((i + 1)) of ${#stages[@]}: $what (after $SECONDS s$(remaining "$times" "${stages[@]:i}"))"
    began=$SECONDS
    "$name"
    echo "$name $((SECONDS - began))" >>"$times.new"
  done
  mv "$times.new" "$times"
  say "---- all is well (after $SECONDS s)"
}

# remaining TIMES STAGE...: `, about 12 min left`, from the times of the last run that ended well, where there was one.
remaining() {
  local times=$1 stage sum=0 seconds
  shift
  if [[ ! -s $times ]]; then return; fi
  for stage in "$@"; do
    seconds=$(sed -n "s/^${stage%% *} //p" "$times")
    sum=$((sum + ${seconds:-0}))
  done
  printf ', about %d min left' $(((sum + 59) / 60))
}

check_build() { build_target all; }

check_documents() { .ci/documents.py; }

check_style() {
  local files
  mapfile -t files < <(sources '*.h' '*.cpp' '*.cu' '*.cuh')
  clang-format --dry-run -Werror "${files[@]}"
  shellcheck -x run .ci/run .ci/test.sh tests/gpu/*.sh tests/door/*.sh tests/cluster/*.sh
  tests/door/door_test.sh
}

# Without a card: every kernel is compiled for the cards that it is tuned for, and linked.
check_kernels() {
  if [[ -d $build/engine/CMakeFiles/bochner_kernels.dir ]]; then
    build_target check_kernels
  else
    say 'nvcc was not found: the kernels are not compiled, but run emulated among the tests'
  fi
}

# Tests by folders, the longest first. What ctest alone knows of, such as the documents' tests, it runs itself.
check_tests() {
  local folders=(experiments layers card autograd engine datasets)
  run_tests "$build" "${folders[@]}"
  OMP_NUM_THREADS=1 ctest --test-dir "$build" --output-on-failure --timeout 600 -j2 -LE "^($(IFS='|'; echo "${folders[*]}"))$" 2>&1 |
    show_progress >&2
}

# run_tests BUILD FOLDER... : each half of a test program in one process, on one thread but where tests ask for more: a process
# takes longer to start than most tests. Three at a time, as some of those of experiments wait. GTEST_FILTER says which tests.
run_tests() {
  local bin=$1/bin folder count all=0
  shift
  for folder in "$@"; do
    count=$("$bin/test_$folder" --gtest_list_tests | grep -c '^  ')
    all=$((all + count))
  done
  # shellcheck disable=SC2016
  for folder in "$@"; do printf '%s 0\n%s 1\n' "$folder" "$folder"; done |
    OMP_NUM_THREADS=1 xargs -P3 -L1 bash -c '
      set -o pipefail
      GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$2 timeout 1500 "$0/test_$1" 2>&1 | sed -u "s/^/test_$1 $2: /"' "$bin" |
    only_failures "$all" | show_progress >&2
}

# only_failures ALL: of lines `PROGRAM: LINE` of Google Test those of tests that failed, or that were never done, and for others
# a line as ctest's.
only_failures() {
  local line program text name done=0
  local -A running=() said=()
  while IFS= read -r line; do
    program=${line%%: *}
    text=${line#*: }
    case $text in
      *'[ RUN      ] '*)
        running[$program]=${text#*'] '}
        said[$program]=
        ;;
      *'[       OK ] '* | *'[  SKIPPED ] '*' ms)' | *'[  FAILED  ] '*' ms)')
        if [[ -z ${running[$program]:-} ]]; then continue; fi
        if [[ $text == *'[  FAILED  ] '* ]]; then printf '%s' "${said[$program]}$line"$'\n'; fi
        done=$((done + 1))
        echo "$done/$1 Test #$done: ${running[$program]} Passed  "
        running[$program]=
        ;;
      *)
        if [[ -n ${running[$program]:-} ]]; then
          said[$program]+=$line$'\n'
        elif [[ ! $text =~ ^(\[.*\]\ |Running\ main|Note:\ |$) ]]; then
          printf '%s\n' "$line"
        fi
        ;;
    esac
  done
  for program in "${!running[@]}"; do
    name=${running[$program]}
    if [[ -n $name ]]; then printf '%s%s: ended within %s\n' "${said[$program]}" "$program" "$name"; fi
  done
}

# The parsers of foreign bytes. They read the flags of the sanitizers' build, which is by clang and knows them all, but not its
# precompiled headers: the checks read each header, and files include a part of those.
check_tidy() {
  local files folder=build-sanitize/tidy
  mapfile -t files < <(sources 'engine/io/*.cpp' | xargs ls -S)  # the longest first
  mkdir -p $folder
  sed 's/-Xclang -include-pch -Xclang [^ ]* -Xclang -include -Xclang [^ ]*//' build-sanitize/compile_commands.json >$folder/compile_commands.json
  printf '%s\n' "${files[@]}" | xargs -P2 -n1 clang-tidy -p $folder --quiet 2>build-sanitize/clang-tidy.log
}

# Left out are statistics, descents of many steps over few places, a block of ViT-B/16, which runs what small ones run, and what is
# measured or compared by other programs.
# An allocation's stack is kept to four functions, which saves a tenth of the time; for a whole one, run the test that failed by itself.
check_sanitizers() {
  local folders=(engine experiments layers autograd datasets)  # the longest ones first
  local long='Ridge.EqualsTheOptimumOfGradientDescent:UniversalFeatures.AreUnbiased:UniversalFeatures.VarianceIs*'
  long+=':PathfinderDrawing.StatisticsOfASet:Pretrain.Learns*:QpnnProgram.Finds*:SparsityProgram.LearnsToSum'
  long+=':VitProgram.ABlockOfTheSizeOfViTB16*:Limits.*:Table.EqualsThatOfAnIndependentScript'
  configure sanitize
  ninja -C build-sanitize "${folders[@]/#/test_}" fuzzers 2>&1 | show_progress >&2
  GTEST_FILTER="-$long" ASAN_OPTIONS=malloc_context_size=4 UBSAN_OPTIONS=print_stacktrace=1 run_tests build-sanitize "${folders[@]}"
}

# With a compiler cache the builds above have compiled each file by itself already.
check_alone() {
  if ! command -v ccache >/dev/null; then .ci/alone.py build-sanitize; fi
}

# libFuzzer on the parsers of foreign bytes, the same inputs every time; built with the sanitizers' tests.
check_fuzzers() {
  ctest --test-dir build-sanitize -L fuzz --output-on-failure --timeout 120 -j2 2>&1 | tee build-sanitize/fuzz.log |
    show_progress >&2
}

# The program of the README by each of the ways of docs/library.md. By add_subdirectory and FetchContent the whole library
# would be compiled again, so that its own archives are lent to them.
check_consumer() {
  local prefix=$build/consumer/prefix way folder
  rm -rf "$build/consumer"
  build_target library
  cmake --install build --component library --prefix "$prefix" >/dev/null
  for way in package folder fetch; do
    folder=$build/consumer/$way
    cmake -S tests/consumer -B "$folder" -G Ninja -DBOCHNER_FROM=$way -DCMAKE_PREFIX_PATH="$prefix" >"$folder.log" 2>&1 ||
      { cat "$folder.log"; return 1; }
    if [[ $way == package ]]; then
      ninja -C "$folder" 2>&1 | show_progress >&2
      "$folder/own_attention"
    else
      link_consumer "$folder"
    fi
    "$folder/consumer"
  done
  local flags
  read -ra flags < <(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs bochner)
  g++ -O1 tests/consumer/main.cpp "${flags[@]}" -o "$build/consumer/by-pkg-config"
  "$build/consumer/by-pkg-config"
}

# link_consumer FOLDER: with the archives of build/ in the place of those that it would compile, and without anything else.
link_consumer() {
  local from
  if ninja -C "$1" -t targets all | grep -E '(test_|lra|fuzz_|kernels:)'; then
    say 'a project around Bochner builds its tests or programs'
    return 1
  fi
  ninja -C "$1" CMakeFiles/consumer.dir/main.cpp.o >&2
  for from in engine autograd layers datasets; do
    cp "$build/$from"/libbochner_*.a "$1/bochner/$from/"
  done
  (cd "$1" && bash -c "$(ninja -t commands consumer | tail -n 1)")
}

# A few dozen steps of the demo's runs.
check_end_to_end() {
  local folder
  folder=$(mktemp -d)
  "$build/bin/lra" --preset quick --attention performer,softmax --steps 30 --listops.train-examples 2000 \
    --listops.valid-examples 200 --listops.test-examples 200 --data "$folder/data" --out "$folder/run" --log-level warning
  test -s "$folder/run/report.html" -a -s "$folder/run/performer/results.json" -a -s "$folder/run/softmax/results.json"
  "$build/bin/data" check --data "$folder/data" >/dev/null
  rm -rf "$folder"
}
