#include "common/random.h"

#include <sys/random.h>

#include "common/check.h"

namespace baton {
namespace {

class OsRandom final : public RandomSource {
 public:
  uint64_t Next64() override {
    uint64_t value = 0;
    const ssize_t got = getrandom(&value, sizeof(value), 0);
    BATON_CHECK(got == sizeof(value)) << "getrandom gave " << got;
    return value;
  }
};

}  // namespace

Id128 RandomSource::NextId() {
  Id128 id;
  do {
    id = {Next64(), Next64()};
  } while (id.is_zero());
  return id;
}

uint64_t SeededRandom::Next64() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

RandomSource& SystemRandom() {
  static OsRandom random;
  return random;
}

}  // namespace baton
