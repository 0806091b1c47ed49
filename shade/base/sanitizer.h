// SHADE_SANITIZED: 1 if AddressSanitizer or ThreadSanitizer instruments this build. They keep freed memory, and start
// too late for functions chosen while a program is loaded.
#pragma once

#if defined(__has_feature)
#define SHADE_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADE_SANITIZED 1
#else
#define SHADE_SANITIZED 0
#endif
