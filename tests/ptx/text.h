// Concatenation that takes std::string_view, which Debian's abseil does not.
#ifndef BATON_TESTS_PTX_TEXT_H_
#define BATON_TESTS_PTX_TEXT_H_

#include <string>
#include <string_view>
#include <type_traits>

namespace baton::ptx {

template <class... Parts>
std::string Text(const Parts&... parts) {
  std::string text;
  auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += std::string_view(part);
    }
  };
  (add(parts), ...);
  return text;
}

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_TEXT_H_
