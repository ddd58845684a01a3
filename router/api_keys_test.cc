#include "router/api_keys.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(const std::string& tenant, const std::string& key) {
  return absl::StrCat(tenant, ": ", ApiKeyHashText(key), "\n");
}

TEST(ApiKeysTest, AHashIsSha256InHexadecimal) {
  EXPECT_EQ(ApiKeyHashText("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ApiKeysTest, AKeyNamesItsTenant) {
  const auto table = ApiKeyTable::Parse(
      absl::StrCat("# keys\n\n", Line("alice", "a1"), Line("alice", "a2"), "  ", Line("bob@house/7", "b")));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 3);
  EXPECT_EQ(table->TenantOf("a1"), "alice");
  EXPECT_EQ(table->TenantOf("a2"), "alice");
  EXPECT_EQ(table->TenantOf("b"), "bob@house/7");
  for (const std::string& key : {std::string(), std::string("a"), std::string("a1 "), std::string("A1"),
                                 std::string("c"), ApiKeyHashText("a1"), std::string(kMaxApiKeyBytes + 1, 'x')}) {
    EXPECT_EQ(table->TenantOf(key), std::nullopt) << key;
  }
}

TEST(ApiKeysTest, KeysAreKnownToTheirLongest) {
  const std::string longest(kMaxApiKeyBytes, 'x');
  EXPECT_EQ(ApiKeyTable::Parse(Line("a", longest))->TenantOf(longest), "a");
  EXPECT_EQ(ApiKeyTable::Parse(Line("a", longest + "x"))->TenantOf(longest + "x"), std::nullopt);
}

TEST(ApiKeysTest, OneHashThatDiffersInAnyBitIsNotThatKey) {
  const std::string hash = ApiKeyHashText("key");
  for (size_t i = 0; i < hash.size(); ++i) {
    std::string other = hash;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_EQ(ApiKeyTable::Parse("t: " + other)->TenantOf("key"), std::nullopt) << i;
  }
}

TEST(ApiKeysTest, AWrongLineIsNamedAndNotRepeated) {
  for (const std::string& line :
       {std::string("the-key-itself"), std::string("alice: the-key-itself"), "al ice: " + ApiKeyHashText("k"),
        ": " + ApiKeyHashText("k"), ApiKeyHashText("k"), Line("alice", "k") + Line("bob", "k"),
        Line(std::string(kMaxTenantBytes + 1, 'a'), "k")}) {
    const auto table = ApiKeyTable::Parse("# first\n" + line);
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr("line "));
    EXPECT_THAT(std::string(table.status().message()), Not(HasSubstr("the-key")));
  }
  EXPECT_TRUE(ApiKeyTable::Parse(Line(std::string(kMaxTenantBytes, 'a'), "k")).ok());
}

TEST(ApiKeysTest, TheNumberOfKeysIsBounded) {
  std::string text;
  for (size_t i = 0; i < kMaxApiKeys; ++i) text += Line("t", std::to_string(i));
  const auto table = ApiKeyTable::Parse(text);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->TenantOf(std::to_string(kMaxApiKeys - 1)), "t");
  EXPECT_FALSE(ApiKeyTable::Parse(text + Line("t", "more")).ok());
}

TEST(ApiKeysTest, DrawnKeysDiffer) {
  std::set<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(DrawApiKey());
  EXPECT_EQ(keys.size(), 1000);
  EXPECT_EQ(keys.begin()->size(), std::string("baton_").size() + 43);
}

class ApiKeysFileTest : public ::testing::Test {
 protected:
  ApiKeysFileTest() { Write(Line("alice", "a")); }
  ~ApiKeysFileTest() override { std::filesystem::remove(path_); }

  void Write(const std::string& text, std::filesystem::perms mode = std::filesystem::perms::owner_read) {
    std::ofstream(path_ + ".new") << text;
    std::filesystem::permissions(path_ + ".new", mode);
    std::filesystem::rename(path_ + ".new", path_);
  }
  static void Await(const ApiKeys& keys, const std::string& key, const std::optional<std::string>& tenant) {
    const TimeNs deadline = After(MonotonicClock().Now(), 20'000);
    while (keys.TenantOf(key) != tenant) {
      ASSERT_LT(MonotonicClock().Now(), deadline) << "the file is not read again";
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  const std::string path_ = (std::filesystem::temp_directory_path() / absl::StrCat("baton_keys_", getpid())).string();
};

TEST_F(ApiKeysFileTest, AFileIsReadAgainWhenItChanges) {
  const auto keys = ApiKeys::Create(path_, /*watch_interval_ms=*/5);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->TenantOf("a"), "alice");
  Write(Line("bob", "b"));
  Await(**keys, "b", "bob");
  EXPECT_EQ((*keys)->TenantOf("a"), std::nullopt);
}

TEST_F(ApiKeysFileTest, AFileThatIsWrongChangesNothing) {
  const auto keys = ApiKeys::Create(path_);
  ASSERT_TRUE(keys.ok()) << keys.status();
  Write("nonsense");
  (*keys)->Reload();
  EXPECT_EQ((*keys)->TenantOf("a"), "alice");
  std::filesystem::remove(path_);
  (*keys)->Reload();
  EXPECT_EQ((*keys)->TenantOf("a"), "alice");
  Write(Line("bob", "b"));
  (*keys)->Reload();
  EXPECT_EQ((*keys)->TenantOf("a"), std::nullopt);
  EXPECT_EQ((*keys)->TenantOf("b"), "bob");
}

TEST_F(ApiKeysFileTest, AFileThatEverybodyMayReadIsRefused) {
  Write(Line("alice", "a"), std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  const auto keys = ApiKeys::Create(path_);
  EXPECT_THAT(std::string(keys.status().message()), HasSubstr("run chmod o-rwx"));
}

}  // namespace
}  // namespace baton::router
