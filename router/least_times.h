// The least time that work of some size took lately: what more of it needs at the very least. A larger size takes no
// less than a smaller one; whatever makes some of the large ones quick, such as a prefix cache, shows in what was seen.
#ifndef BATON_ROUTER_LEAST_TIMES_H_
#define BATON_ROUTER_LEAST_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace baton::router {

// Used by one thread.
class LeastTimes {
 public:
  // A time is remembered while so many of about its size come, and for at most twice as many.
  static constexpr int kRemembered = 256;
  // Fewer of about a size say nothing: all of them may have been slow.
  static constexpr int kFewest = 16;

  // A size is not negative.
  void Add(int64_t size, int64_t elapsed_ns);
  // 0: too little is known of this size and smaller ones.
  int64_t Of(int64_t size) const;

 private:
  // Measurements whose sizes lie between one power of two and the next.
  struct Sizes {
    int seen = 0;
    // The least time of the last `seen` measurements, and of those before them; 0: none.
    int64_t least_ns = 0;
    int64_t earlier_least_ns = 0;
  };
  static constexpr size_t kSizes = 32;
  static size_t IndexOf(int64_t size);

  std::array<Sizes, kSizes> sizes_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_LEAST_TIMES_H_
