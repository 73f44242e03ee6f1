# A build from nothing takes half the time (docs/building.md) when the headers of the standard library and of fmt are compiled once
# for all libraries and programs, and up to 24 files of a library as one (12 of layers). Not beside a compiler cache, which would miss.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(from_nothing OFF)
else()
  set(from_nothing ON)
endif()
option(BOCHNER_PRECOMPILE "Compile the standard library's headers once for all libraries" ${from_nothing})
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ${from_nothing})
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)

set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <functional>
  <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string> <string_view> <utility> <vector> <fmt/format.h>)

# bochner_precompile(TARGET [test]): TARGET is compiled with the standard headers at hand; tests have gtest's and JSON's besides.
# Libraries of one empty file make them, so that nobody waits for another target to be linked: one for libraries and programs, one
# for tests, and one for what is optimised where the rest is not (compilers accept another level of optimisation, but clang not none).
function(bochner_precompile target)
  if(NOT BOCHNER_PRECOMPILE)
    return()
  endif()
  set(kind library)
  set(headers ${standard_headers})
  if("test" IN_LIST ARGN)
    set(kind test)
    list(APPEND headers <gtest/gtest.h> <nlohmann/json.hpp>)
  elseif(BOCHNER_SANITIZE AND target MATCHES "^bochner_(engine|datasets)(_|$)")
    set(kind optimised)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_compile_options(${target} PRIVATE -fPIC)  # as libraries, not -fPIE
  endif()
  set(maker bochner_precompiled_${kind})
  if(NOT TARGET ${maker})
    set(empty ${PROJECT_BINARY_DIR}/precompiled/${kind}.cpp)
    file(CONFIGURE OUTPUT ${empty} CONTENT "")
    add_library(${maker} OBJECT ${empty})
    target_link_libraries(${maker} PRIVATE bochner_flags fmt::fmt)
    if(kind STREQUAL "optimised")
      target_compile_options(${maker} PRIVATE -O1)
    elseif(kind STREQUAL "test")
      target_link_libraries(${maker} PRIVATE nlohmann_json::nlohmann_json GTest::gtest)
      bochner_unoptimised(${maker})
    endif()
    target_precompile_headers(${maker} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${maker})
  # g++ 12 was seen to warn of headers of its own that were precompiled with gtest; warnings of tests are errors with clang, in
  # the sanitizers' build, and with g++ beside a compiler cache.
  if(kind STREQUAL "test" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-error)
  endif()
endfunction()
