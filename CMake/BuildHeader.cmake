# Writes OUTPUT, a header with the version, commit, compiler and flags, where it would change.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --match=NoTag
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-prefix
  OUTPUT_VARIABLE below OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed OR below)  # sources without a repository, or below another one's
  set(commit unknown)
endif()
string(STRIP "${FLAGS}" flags)
string(REPLACE "GNU " "g++ " compiler "${COMPILER}")
string(REPLACE "Clang " "clang++ " compiler "${compiler}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[// Written by CMake/BuildHeader.cmake.
#pragma once
#define BOCHNER_BUILD_VERSION "@VERSION@"
#define BOCHNER_BUILD_COMMIT "@commit@"
#define BOCHNER_BUILD_COMPILER "@compiler@"
#define BOCHNER_BUILD_FLAGS "@flags@"
]] @ONLY)
