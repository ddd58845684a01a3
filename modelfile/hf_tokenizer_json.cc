#include "modelfile/hf_tokenizer_json.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/hf_tokenizer_steps.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

// Receives the parser's events. Parsing ends when a function returns false: for damaged text, and for a form that does
// not fit HfTokenizerJson.
class TokenizerHandler {
 public:
  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (where_ != Where::kVocab) return Add(value);
    file_.vocab->emplace_back(std::move(key_), value);
    return true;
  }
  bool number_float(Json::number_float_t value, const std::string&) { return Add(value); }
  bool binary(Json::binary_t&) { return false; }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

  bool string(std::string& value) {
    if (where_ == Where::kMerges) {
      file_.merges->push_back(std::move(value));
      return true;
    }
    if (where_ != Where::kMergePair) return Add(std::move(value));
    if (++pair_parts_ == 1) {
      file_.merges->push_back(std::move(value));
    } else {
      absl::StrAppend(&file_.merges->back(), " ", value);
    }
    return pair_parts_ <= 2;
  }

  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) {
    if (where_ != Where::kJson) return false;
    if (!InModel() || key_ != "vocab") return Open(Json::object());
    where_ = Where::kVocab;
    // JSON keeps only the last of two members with the same name; this parser would join them.
    if (file_.vocab.has_value()) return false;
    file_.vocab.emplace();
    return true;
  }

  bool end_object() {
    if (where_ == Where::kVocab) {
      where_ = Where::kJson;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool start_array(size_t) {
    if (where_ == Where::kMerges) {
      where_ = Where::kMergePair;
      pair_parts_ = 0;
      return true;
    }
    if (where_ != Where::kJson) return false;
    if (!InModel() || key_ != "merges") return Open(Json::array());
    where_ = Where::kMerges;
    if (file_.merges.has_value()) return false;
    file_.merges.emplace();
    return true;
  }

  bool end_array() {
    if (where_ == Where::kMergePair) {
      where_ = Where::kMerges;
      return pair_parts_ == 2;
    }
    if (where_ == Where::kMerges) {
      where_ = Where::kJson;
    } else {
      open_.pop_back();
    }
    return true;
  }

  HfTokenizerJson Take() && { return std::move(file_); }

 private:
  enum class Where : uint8_t { kJson, kVocab, kMerges, kMergePair };

  bool InModel() const { return open_.size() == 2 && open_.back() == model_; }

  // Adds a value to the innermost open one.
  bool Add(Json value) {
    if (where_ != Where::kJson || open_.empty()) return false;
    Place(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (open_.empty()) {
      file_.json = std::move(value);
      open_.push_back(&file_.json);
      return file_.json.is_object();
    }
    const bool is_model = open_.size() == 1 && key_ == "model";
    if (is_model && model_ != nullptr) return false;
    Json* const placed = Place(std::move(value));
    if (is_model) model_ = placed;
    open_.push_back(placed);
    return true;
  }

  // The returned value stays valid until another one is added to the same open value.
  Json* Place(Json value) {
    Json& top = *open_.back();
    if (top.is_array()) {
      top.push_back(std::move(value));
      return &top.back();
    }
    Json& member = top[key_];
    member = std::move(value);
    return &member;
  }

  HfTokenizerJson file_;
  Where where_ = Where::kJson;
  std::string key_;
  int pair_parts_ = 0;
  // The open values, from the root inwards.
  std::vector<Json*> open_;
  const Json* model_ = nullptr;
};

}  // namespace

absl::StatusOr<HfTokenizerJson> ParseHfTokenizer(std::string_view text) {
  BATON_RETURN_IF_ERROR(CheckJsonText(text, kTokenizerFile, kMaxHfTokenizerBytes));
  TokenizerHandler handler;
  if (Json::sax_parse(text.begin(), text.end(), &handler)) return std::move(handler).Take();
  // The text is unusual or damaged. Whoever reads the values says what is wrong with them.
  BATON_ASSIGN_OR_RETURN(Json json, ParseJsonObject(text, kTokenizerFile, kMaxHfTokenizerBytes));
  return HfTokenizerJson{.json = std::move(json)};
}

}  // namespace baton::modelfile
