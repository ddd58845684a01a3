// Whether a sanitizer makes this build many times slower, so that long tests run a part of what they run otherwise.
#ifndef BATON_COMMON_TESTING_SLOW_BUILD_H_
#define BATON_COMMON_TESTING_SLOW_BUILD_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BATON_SLOW_BUILD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BATON_SLOW_BUILD 1
#endif

namespace baton {

#ifdef BATON_SLOW_BUILD
inline constexpr bool kIsSlowBuild = true;
#else
inline constexpr bool kIsSlowBuild = false;
#endif

}  // namespace baton

#endif  // BATON_COMMON_TESTING_SLOW_BUILD_H_
