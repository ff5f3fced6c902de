// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer is compiled in: it has the heap for itself, and programs take several times as long.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BASCULE_TEST_IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define BASCULE_TEST_IS_SANITIZED
#endif
#endif

namespace bascule::test {

#ifdef BASCULE_TEST_IS_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace bascule::test
