# The stages of `./run test`; sourced by ./run, whose functions and package lists it uses.
# shellcheck shell=bash disable=SC2154

stage() { say "---- $* (after ${SECONDS} s)"; }

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

test_all() {
  if (($# > 0)); then
    build_target all
    ctest --test-dir "$build" --output-on-failure "$@"
    return
  fi
  need 'test' "${packages_test[@]}" "${packages_fuzz[@]}" "${packages_style[@]}"
  stage 'build, warnings are errors'
  build_target all
  stage 'style'
  check_style
  # These two are told, not enforced, until each has passed once on a quiet machine.
  stage 'address and undefined-behaviour sanitizers'
  (check_sanitizers) || say 'SANITIZERS: NOT CLEAN'
  if [[ -n $(sources 'tests/fuzz/*.cpp') ]]; then
    stage 'fuzzing'
    (check_fuzzers) || say 'FUZZING: NOT CLEAN'
  fi
  if [[ -f $build/bochnerConfig.cmake && -f tests/consumer/CMakeLists.txt ]]; then
    stage 'a project that uses the installed Bochner'
    check_consumer
  fi
  if [[ -x $build/bin/lra ]]; then
    stage 'an experiment from end to end'
    check_end_to_end
  fi
  stage 'tests'
  ctest --test-dir "$build" --output-on-failure --timeout 600 -j2
}

# Formatting of every source; clang-tidy on the sources of the latest commits, which keeps this to a few minutes.
check_style() {
  local files
  mapfile -t files < <(sources '*.h' '*.cpp' '*.cu' '*.cuh')
  clang-format --dry-run -Werror "${files[@]}"
  shellcheck -x run .ci/run .ci/test.sh
  mapfile -t files < <(git log -n 8 --diff-filter=d --name-only --format= -- '*.cpp' | sort -u | grep -v '^tests/' | head -n 8)
  local file existing=()
  for file in "${files[@]}"; do
    if [[ -f $file ]]; then existing+=("$file"); fi
  done
  if ((${#existing[@]} > 0)); then
    # Told, not enforced: the findings of clang-tidy 14 on C++20 include errors of its own parser.
    printf '%s\n' "${existing[@]}" | { xargs -P2 -n2 clang-tidy -p "$build" --quiet 2>/dev/null || true; }
  fi
}

check_sanitizers() {
  configure asan
  ninja -C build-asan >&2
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir build-asan --output-on-failure --timeout 900 -j2 >build-asan/ctest.log 2>&1 ||
    { tail -n 200 build-asan/ctest.log; return 1; }
  tail -n 4 build-asan/ctest.log
}

check_fuzzers() {
  configure fuzz
  ninja -C build-fuzz fuzzers >&2
  ctest --test-dir build-fuzz -L fuzz --output-on-failure --timeout 120 -j2 >build-fuzz/ctest.log 2>&1 ||
    { tail -n 200 build-fuzz/ctest.log; return 1; }
  tail -n 4 build-fuzz/ctest.log
}

check_consumer() {
  local prefix=$root/build/consumer-prefix
  rm -rf "$prefix" build/consumer
  cmake --install build --prefix "$prefix" >/dev/null
  cmake -S tests/consumer -B build/consumer -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >&2
  ninja -C build/consumer >&2
  build/consumer/consumer
}

check_end_to_end() {
  local folder
  folder=$(mktemp -d)
  "$build/bin/lra" --preset quick --out "$folder/run" --log-level warning
  test -s "$folder/run/results.json" -a -s "$folder/run/report.html"
  rm -rf "$folder"
}
