// Is this a build under AddressSanitizer? gcc and clang say it differently.
#pragma once

#if defined(__has_feature)  // clang
#define BOCHNER_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define BOCHNER_ADDRESS_SANITIZER 1
#else
#define BOCHNER_ADDRESS_SANITIZER 0
#endif

namespace bochner {
/// What is many and alike (cases of a test that differ in digits, unrolled sizes of a loop) is some of it here, where
/// compiling and running take up to ten times as long: AddressSanitizer looks at places, not at digits.
inline constexpr bool kAddressSanitizer = BOCHNER_ADDRESS_SANITIZER;
}  // namespace bochner
