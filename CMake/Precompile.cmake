# The standard library's headers and fmt's, compiled once and used by every library: a build from nothing takes a third less
# time (docs/building.md). Not beside a compiler cache, which would miss.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(BOCHNER_PRECOMPILE "Compile the standard library's headers once for all libraries" ${precompile})

# bochner_precompile(TARGET header ...): those of the standard library, and `header ...` besides. Targets without `header ...`
# share what the first one made: compilers accept it at another level of optimisation, but clang does not with none.
function(bochner_precompile target)
  if(NOT BOCHNER_PRECOMPILE)
    return()
  endif()
  set(maker bochner_precompiled_by)
  if(BOCHNER_SANITIZE AND target STREQUAL "bochner_engine")  # optimised, and the others are not
    set(maker bochner_precompiled_by_engine)
  endif()
  get_property(first GLOBAL PROPERTY ${maker})
  if(first AND NOT ARGN)
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  if(NOT ARGN)
    set_property(GLOBAL PROPERTY ${maker} ${target})
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring>
    <deque> <filesystem> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h> ${ARGN})
  # Tests. g++ 12 was seen to warn of headers of its own that were precompiled with gtest; warnings of tests are errors with
  # clang, in the sanitizers' build, and with g++ beside a compiler cache.
  if(ARGN AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-error)
  endif()
endfunction()
