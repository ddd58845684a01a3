#include "bench/load/base_url.h"

#include "gtest/gtest.h"

namespace baton::bench {
namespace {

TEST(ParseBaseUrl, TakesHostPortAndPath) {
  const auto full = ParseBaseUrl("http://127.0.0.1:8080/v1/");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->host, "127.0.0.1");
  EXPECT_EQ(full->port, "8080");
  EXPECT_EQ(full->path, "/v1");
  const auto plain = ParseBaseUrl("http://server");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->port, "80");
  EXPECT_EQ(plain->path, "");
}

TEST(ParseBaseUrl, RefusesWhatItCannotReach) {
  for (const char* url : {"https://a/v1", "127.0.0.1:8080", "http://", "http://:80/v1", "http://a:/v1"}) {
    EXPECT_FALSE(ParseBaseUrl(url).ok()) << url;
  }
}

}  // namespace
}  // namespace baton::bench
