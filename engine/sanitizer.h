// Whether this is a build with AddressSanitizer; gcc and clang report it in different ways.
#pragma once

#if defined(__has_feature)  // clang
#define BOCHNER_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define BOCHNER_ADDRESS_SANITIZER 1
#else
#define BOCHNER_ADDRESS_SANITIZER 0
#endif

namespace bochner {
/// Builds with AddressSanitizer keep only some of many similar things (test cases with different numbers, unrolled loop
/// sizes): they take up to ten times as long to compile and run, and check addresses rather than numbers.
inline constexpr bool kAddressSanitizer = BOCHNER_ADDRESS_SANITIZER;
}  // namespace bochner
