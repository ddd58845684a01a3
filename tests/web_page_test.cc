// The files of the web pages in the binary.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/web_asset.h"
#include "dashboard/assets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "webchat/assets.h"

namespace baton {
namespace {

struct Page {
  const char* folder;
  std::span<const WebAsset> assets;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WebPageTest : public testing::TestWithParam<Page> {
 protected:
  std::span<const WebAsset> assets() const { return GetParam().assets; }
  const WebAsset* Find(std::string_view path) const {
    const auto found =
        std::find_if(assets().begin(), assets().end(), [path](const WebAsset& asset) { return asset.path == path; });
    return found == assets().end() ? nullptr : &*found;
  }
};

INSTANTIATE_TEST_SUITE_P(, WebPageTest,
                         testing::Values(Page{"dashboard", dashboard::Assets()}, Page{"webchat", webchat::Assets()}),
                         [](const auto& info) { return std::string(info.param.folder); });

TEST_P(WebPageTest, EveryFileOfThePageIsInTheBinaryAsItIs) {
  std::set<std::string> paths;
  // What all pages share is in web/.
  for (const char* folder : {GetParam().folder, "web"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(BATON_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".html" && extension != ".js" && extension != ".css") continue;
      const std::string name = entry.path().filename().string();
      const std::string path = name == "index.html" ? "/" : "/" + name;
      paths.insert(path);
      const WebAsset* asset = Find(path);
      ASSERT_NE(asset, nullptr) << name << " is not in CMakeLists.txt";
      EXPECT_EQ(asset->bytes, ReadFile(entry.path())) << name;
    }
  }
  EXPECT_THAT(paths, testing::IsSupersetOf({"/", "/theme.js"}));
  EXPECT_EQ(assets().size(), paths.size());
}

TEST_P(WebPageTest, EveryFileHasItsTypeAndADigestOfItsOwn) {
  std::set<std::string_view> digests;
  for (const WebAsset& asset : assets()) {
    EXPECT_THAT(asset.sha256, testing::MatchesRegex("[0-9a-f]{64}")) << asset.path;
    digests.insert(asset.sha256);
    const std::string_view type = asset.path == "/"              ? "text/html; charset=utf-8"
                                  : asset.path.ends_with(".css") ? "text/css; charset=utf-8"
                                                                 : "text/javascript; charset=utf-8";
    EXPECT_EQ(asset.content_type, type) << asset.path;
  }
  EXPECT_EQ(digests.size(), assets().size());
}

}  // namespace
}  // namespace baton
