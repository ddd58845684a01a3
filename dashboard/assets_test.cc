#include "dashboard/assets.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::dashboard {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DashboardAssetsTest, EveryFileOfThePageIsInTheBinaryAsItIs) {
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(BATON_SOURCE_DIR "/dashboard")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".html" && extension != ".js" && extension != ".css") continue;
    const std::string name = entry.path().filename().string();
    const std::string path = name == "index.html" ? "/" : "/" + name;
    paths.insert(path);
    const Asset* asset = FindAsset(path);
    ASSERT_NE(asset, nullptr) << name << " is not in dashboard/CMakeLists.txt";
    EXPECT_EQ(asset->bytes, ReadFile(entry.path())) << name;
  }
  EXPECT_THAT(paths, testing::IsSupersetOf({"/", "/dashboard.js", "/dashboard.css", "/theme.js"}));
  EXPECT_EQ(Assets().size(), paths.size());
}

TEST(DashboardAssetsTest, EveryFileHasItsTypeAndADigestOfItsOwn) {
  std::set<std::string_view> digests;
  for (const Asset& asset : Assets()) {
    EXPECT_THAT(asset.sha256, testing::MatchesRegex("[0-9a-f]{64}")) << asset.path;
    digests.insert(asset.sha256);
    const std::string_view type = asset.path == "/"              ? "text/html; charset=utf-8"
                                  : asset.path.ends_with(".css") ? "text/css; charset=utf-8"
                                                                 : "text/javascript; charset=utf-8";
    EXPECT_EQ(asset.content_type, type) << asset.path;
  }
  EXPECT_EQ(digests.size(), Assets().size());
}

TEST(DashboardAssetsTest, OtherPathsAreNotFound) {
  for (const char* path : {"", "/index.html", "/dashboard", "//", "/../dashboard.js", "/dashboard.js?x", "/assets.h"}) {
    EXPECT_EQ(FindAsset(path), nullptr) << path;
  }
}

}  // namespace
}  // namespace baton::dashboard
