// Whether this is a build under AddressSanitizer, which gcc and clang say differently.
#pragma once

#if defined(__has_feature)  // clang
#define BOCHNER_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define BOCHNER_ADDRESS_SANITIZER 1
#else
#define BOCHNER_ADDRESS_SANITIZER 0
#endif
