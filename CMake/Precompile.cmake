# The standard library's headers, compiled once for each target: a build from nothing takes less time. With clang only, as
# gcc 12 then warns of its own headers; and not beside a compiler cache, which would miss.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile ON)
else()
  set(precompile OFF)
endif()
option(BOCHNER_PRECOMPILE "Compile the standard library's headers once for each target" ${precompile})

# bochner_precompile(TARGET header ...): those of the standard library, and `header ...` besides.
function(bochner_precompile target)
  if(BOCHNER_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring>
      <deque> <filesystem> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string>
      <string_view> <utility> <vector> <fmt/format.h> ${ARGN})
  endif()
endfunction()
