// How MODEL is resolved to files on disk and names of the model store.
#include "modelfile/model_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/limits.h"
#include "modelfile/model_file.h"
#include "modelfile/testing/smallest_llama.h"

namespace baton::modelfile {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A fresh directory. The destructor restores the environment.
class ModelStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/baton_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      saved_[i].has_value() ? setenv(kNames[i], saved_[i]->c_str(), 1) : unsetenv(kNames[i]);
    }
    std::filesystem::remove_all(directory_);
  }
  std::string Write(const std::string& name, const std::vector<uint8_t>& bytes) {
    const std::string path = directory_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

  static constexpr const char* kNames[] = {"BATON_MODEL_STORE", "XDG_DATA_HOME", "HOME"};
  std::string directory_;
  std::vector<std::optional<std::string>> saved_;
};

TEST_F(ModelStoreTest, OpensAFileAndKeepsItMapped) {
  const std::vector<uint8_t> bytes = TinyLlama();
  const std::string path = Write("m.gguf", bytes);
  const auto file = OpenModelFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  unlink(path.c_str());
  EXPECT_EQ((*file)->WeightsDigest(), (*Parse(bytes))->WeightsDigest());
}

TEST_F(ModelStoreTest, OpenErrorsNameThePath) {
  const auto error = [](const std::string& path, absl::StatusCode code) {
    const auto file = OpenModelFile(path);
    EXPECT_EQ(file.status().code(), code) << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path + ": "));
    return std::string(file.status().message());
  };
  EXPECT_THAT(error(directory_ + "/absent.gguf", absl::StatusCode::kNotFound), HasSubstr("No such file"));
  EXPECT_THAT(error(directory_, absl::StatusCode::kNotFound), HasSubstr("config.json"));
  EXPECT_THAT(error("/dev/null", kInvalid), HasSubstr("not a regular file"));
  EXPECT_THAT(error(Write("empty.gguf", {}), kInvalid), HasSubstr("empty"));
  EXPECT_THAT(error(Write("text.gguf", {'h', 'e', 'l', 'l', 'o'}), kInvalid), HasSubstr("not a GGUF file"));
  std::vector<uint8_t> cut = TinyLlama();
  cut.resize(cut.size() / 2);
  EXPECT_THAT(error(Write("cut.gguf", cut), kInvalid), HasSubstr("fetch the file again"));
  const std::string pipe = directory_ + "/pipe.gguf";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error(pipe, kInvalid), HasSubstr("not a regular file"));
}

TEST_F(ModelStoreTest, FilesLargerThanTheLimitAreRefused) {
  const std::string path = Write("huge.gguf", TinyLlama());
  if (truncate(path.c_str(), static_cast<off_t>(kMaxFileBytes + 1)) != 0) {
    GTEST_SKIP() << "this file system does not hold sparse files of " << kMaxFileBytes << " bytes";
  }
  const auto file = OpenModelFile(path);
  EXPECT_EQ(file.status().code(), kInvalid);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("limit 4398046511104"));
}

TEST_F(ModelStoreTest, ResolvesPathsAndNames) {
  const std::string path = Write("some-model.gguf", TinyLlama());
  EXPECT_EQ(*ResolveModel(path), path);
  setenv("BATON_MODEL_STORE", directory_.c_str(), 1);
  setenv("HOME", "/nonexistent", 1);
  EXPECT_EQ(*ResolveModel("some-model"), path);
}

TEST_F(ModelStoreTest, ResolvesDirectoriesAsPathsAndByName) {
  setenv("BATON_MODEL_STORE", directory_.c_str(), 1);
  const std::string path = directory_ + "/dir";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(*ResolveModel(path), path);
  EXPECT_EQ(*ResolveModel("dir"), path);
}

TEST_F(ModelStoreTest, StoreIsFoundByItsThreeVariablesInOrder) {
  const auto where = [] { return std::string(ResolveModel("no-such-model").status().message()); };
  EXPECT_THAT(where(), HasSubstr("there is no model store"));
  setenv("HOME", "/h", 1);
  EXPECT_THAT(where(), HasSubstr("/h/.local/share/baton/models;"));
  setenv("XDG_DATA_HOME", "/x", 1);
  EXPECT_THAT(where(), HasSubstr("in /x/baton/models;"));
  setenv("BATON_MODEL_STORE", "/s", 1);
  EXPECT_THAT(where(), HasSubstr("in /s;"));
  setenv("BATON_MODEL_STORE", "", 1);
  EXPECT_THAT(where(), HasSubstr("in /x/baton/models;"));
}

TEST_F(ModelStoreTest, ResolveErrorsSayWhatToDo) {
  setenv("BATON_MODEL_STORE", directory_.c_str(), 1);
  const auto error = [](std::string_view model, absl::StatusCode code) {
    const auto path = ResolveModel(model);
    EXPECT_EQ(path.status().code(), code) << path.status();
    return std::string(path.status().message());
  };
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  EXPECT_THAT(error("gemma-3-270m", kNotFound), HasSubstr("; run `baton pull gemma-3-270m`"));
  EXPECT_THAT(error("gemma-4", kNotFound),
              AllOf(HasSubstr("there is no model gemma-4 in " + directory_),
                    HasSubstr("a model that `baton pull` gets: smollm2-135m-instruct, gemma-3-270m"),
                    Not(HasSubstr("pull gemma-4"))));
  EXPECT_THAT(error("no/such.gguf", kNotFound), HasSubstr("there is no model file no/such.gguf"));
  EXPECT_THAT(error("../secret name", kNotFound), HasSubstr("there is no model file"));
  EXPECT_THAT(error("bad name\n", kNotFound), HasSubstr("bad name\\n"));
  EXPECT_THAT(error(std::string(kMaxModelNameBytes, 'm'), kNotFound), HasSubstr("in " + directory_));
  EXPECT_THAT(error(std::string(kMaxModelNameBytes + 1, 'm'), kNotFound), HasSubstr("no model file"));
  EXPECT_THAT(error(std::string_view("a\0b", 3), kInvalid), HasSubstr("NUL"));
  EXPECT_THAT(error("", kInvalid), HasSubstr("empty"));
}

std::vector<std::string> ListedNames() {
  const auto models = ListModelStore();
  EXPECT_TRUE(models.ok()) << models.status();
  std::vector<std::string> names;
  for (const StoredModel& model : *models) names.push_back(model.name);
  return names;
}

TEST_F(ModelStoreTest, AListHasFilesAndDirectoriesOfModelsInTheOrderOfTheirNames) {
  setenv("BATON_MODEL_STORE", directory_.c_str(), 1);
  EXPECT_THAT(ListedNames(), IsEmpty());
  Write("second.gguf", TinyLlama());
  Write("first/config.json", {'{', '}'});
  Write("second/config.json", {'{', '}'});
  Write("folder/of-something-else.txt", {});
  Write("notes.txt", {});
  Write(".hidden.gguf", {});
  Write(".pull-third.gguf/model", {});
  Write("two words.gguf", {});
  EXPECT_THAT(ListedNames(), ElementsAre("first", "second"));
  EXPECT_EQ((*ListModelStore())[1].path, *ResolveModel("second")) << "a file hides a directory of its name";
}

TEST_F(ModelStoreTest, AStoreThatIsNotThereIsEmpty) {
  setenv("BATON_MODEL_STORE", (directory_ + "/not-yet").c_str(), 1);
  EXPECT_THAT(ListedNames(), IsEmpty());
  unsetenv("BATON_MODEL_STORE");
  EXPECT_THAT(std::string(ListModelStore().status().message()), HasSubstr("there is no model store"));
}

TEST_F(ModelStoreTest, WhatIsRemovedIsGoneAndNothingElse) {
  setenv("BATON_MODEL_STORE", directory_.c_str(), 1);
  const std::string kept = Write("kept.gguf", TinyLlama());
  Write("file.gguf", TinyLlama());
  Write("folder/config.json", {'{', '}'});
  Write("folder/below/model.safetensors", {});
  std::filesystem::create_symlink(kept, directory_ + "/link.gguf");
  for (const char* name : {"file", "folder", "link"}) {
    const auto model = FindInModelStore(name);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE(RemoveFromModelStore(*model).ok());
    EXPECT_FALSE(FindInModelStore(name).ok());
  }
  EXPECT_THAT(ListedNames(), ElementsAre("kept"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(ModelStoreTest, WhatIsNotInTheStoreIsNotFoundThere) {
  setenv("BATON_MODEL_STORE", (directory_ + "/store").c_str(), 1);
  Write("store/folder/notes.txt", {});
  Write("outside.gguf", TinyLlama());
  for (const char* name : {"absent", "../outside", "outside.gguf", "folder", "", ".", "..", "store"}) {
    EXPECT_TRUE(absl::IsNotFound(FindInModelStore(name).status())) << name;
  }
}

TEST_F(ModelStoreTest, ADirectoryTakesWhatItsFilesTake) {
  EXPECT_EQ(BytesOnDisk(Write("m.gguf", TinyLlama())), static_cast<int64_t>(TinyLlama().size()));
  Write("folder/a", std::vector<uint8_t>(3));
  Write("folder/below/b", std::vector<uint8_t>(4));
  EXPECT_EQ(BytesOnDisk(directory_ + "/folder"), 7);
  EXPECT_EQ(BytesOnDisk(directory_ + "/absent"), 0);
}

}  // namespace
}  // namespace baton::modelfile
