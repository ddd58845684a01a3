// Where an OpenAI server listens.
#ifndef BATON_BENCH_LOAD_BASE_URL_H_
#define BATON_BENCH_LOAD_BASE_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton::bench {

// "http://127.0.0.1:8080/v1" taken apart.
struct BaseUrl {
  std::string host;
  std::string port;
  // Without a slash at its end.
  std::string path;
};

// INVALID_ARGUMENT for anything but http://HOST[:PORT][/PATH].
absl::StatusOr<BaseUrl> ParseBaseUrl(std::string_view url);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_BASE_URL_H_
