# Language, warnings, optimisation and the libraries that every folder may use.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")  # CMake's own; what somebody asks for stays
  set(CMAKE_CXX_FLAGS_RELEASE "-O3")
endif()

# bochner_choice(VARIABLE WORD ...): one of these words, or another of CMake's for ON or OFF.
function(bochner_choice variable)
  string(TOUPPER "${${variable}}" value)
  if(value MATCHES "^(1|YES|Y|TRUE)$")
    set(value ON)
  elseif(NOT value OR value MATCHES "^(N|NO|FALSE)$")
    set(value OFF)
  endif()
  if(NOT value IN_LIST ARGN)
    list(JOIN ARGN ", " words)
    message(FATAL_ERROR "${variable}=${${variable}}: it is one of ${words}")
  endif()
  set(${variable} ${value} PARENT_SCOPE)
endfunction()

# bochner_quick_to_compile(TARGET): for code without loops over elements, which -O3 makes no faster, but a third longer to
# compile.
function(bochner_quick_to_compile target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
endfunction()

# bochner_unoptimised(TARGET): for tests, most of whose time passes in what they test.
function(bochner_unoptimised target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_library(BOCHNER_BLAS NAMES openblas REQUIRED
  PATH_SUFFIXES openblas-openmp
  DOC "OpenBLAS; it runs single-threaded inside parallel loops")

add_library(bochner_flags INTERFACE)
target_compile_options(bochner_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
  -march=${BOCHNER_ARCH} -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor $<$<BOOL:${BOCHNER_WERROR}>:-Werror>
  # Mathematics vectorises without these two promises being kept; results do not change.
  -fno-math-errno -fno-trapping-math -fopenmp-simd
  # gcc 12 copies constants of 32 and 64 bytes wrongly whose last words are 0 or -1 and the others equal, as {1, 1, 1, 0}:
  # it takes them for one repeated word. In pieces of 16 bytes they arrive (tests/engine/constants_test.cpp).
  $<$<CXX_COMPILER_ID:GNU>:-mprefer-vector-width=512 -mmove-max=128 -mstore-max=128 -Wno-psabi>
  # Vectors wider than the registers, as on processors without AVX-512, stay within a file, so their ABI does not matter.
  # A loop marked simd that is not vectorised, as under sanitizers, is slow and not wrong.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-psabi -Wno-pass-failed>>)
if(BOCHNER_FUZZERS AND NOT BOCHNER_SANITIZE)
  set(BOCHNER_SANITIZE address,undefined)
endif()
if(BOCHNER_SANITIZE)
  target_compile_options(bochner_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${BOCHNER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1>)
  # lld links such a program in a second, where ld takes five to ten.
  target_link_options(bochner_flags INTERFACE -fsanitize=${BOCHNER_SANITIZE} $<$<CXX_COMPILER_ID:Clang>:-fuse-ld=lld>)
endif()

# bochner_fuzzed(SOURCE ...): parsers whose branches libFuzzer counts, to know which inputs lead further. That slows code down by
# a quarter, so that other files are compiled without. (These are the flags of -fsanitize=fuzzer-no-link, by which name clang
# would refuse precompiled headers.)
function(bochner_fuzzed)
  if(BOCHNER_FUZZERS)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fsanitize-coverage=inline-8bit-counters,pc-table,indirect-calls,trace-cmp)
  endif()
endfunction()
