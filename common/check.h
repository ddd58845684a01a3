// BATON_CHECK guards conditions that only a bug can break: it prints the condition, the place and the streamed message,
// then aborts. Whatever the outside world can break is an absl::Status instead.
#ifndef BATON_COMMON_CHECK_H_
#define BATON_COMMON_CHECK_H_

#include <sstream>

namespace baton::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Gives both arms of the conditional in BATON_CHECK the type void.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace baton::internal

#define BATON_CHECK(condition) \
  (condition)                  \
      ? static_cast<void>(0)   \
      : ::baton::internal::Voidify() & ::baton::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // BATON_COMMON_CHECK_H_
