#include "grammar/testing/any_order.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_rules.h"
#include "grammar/json_spelling.h"
#include "grammar/parse_states.h"

namespace baton::grammar {
namespace {

// Where the orders that are allowed so far lead to, without repeats.
using Configurations = std::vector<int32_t>;

void Join(const Configurations& more, Configurations* all) {
  all->insert(all->end(), more.begin(), more.end());
  std::sort(all->begin(), all->end());
  all->erase(std::unique(all->begin(), all->end()), all->end());
}

class OrderWriter {
 public:
  // The grammar must outlive it.
  explicit OrderWriter(const Grammar& grammar)
      : states_(std::shared_ptr<const Grammar>(&grammar, [](const Grammar*) {})) {}

  bool Allows(const JsonValue& value) {
    const Configurations ends = Write(value, {states_.start()});
    return std::any_of(ends.begin(), ends.end(), [this](int32_t end) { return states_.is_complete(end); });
  }

 private:
  Configurations WriteText(std::string_view text, Configurations from) {
    for (const char byte : text) {
      Configurations next;
      for (const int32_t configuration : from) next.push_back(states_.Step(configuration, static_cast<uint8_t>(byte)));
      next.erase(std::remove(next.begin(), next.end(), ParseStates::kDead), next.end());
      from = std::move(next);
    }
    return from;
  }

  Configurations WriteMember(const JsonValue& object, size_t member, bool is_first, const Configurations& from) {
    const std::string key = (is_first ? "" : ",") + SpellJsonString(object.keys[member]) + ":";
    return Write(object.items[member], WriteText(key, from));
  }

  Configurations WriteMembers(const JsonValue& object, const Configurations& from) {
    const size_t count = object.items.size();
    if (count > kMaxOrderedMembers) {
      Configurations behind = from;
      for (size_t member = 0; member < count; ++member) behind = WriteMember(object, member, member == 0, behind);
      return behind;
    }
    // By the set of the members that are written, one bit for each.
    std::vector<Configurations> behind(size_t{1} << count);
    behind[0] = from;
    for (size_t written = 0; written + 1 < behind.size(); ++written) {
      if (behind[written].empty()) continue;
      for (size_t member = 0; member < count; ++member) {
        if ((written >> member & 1) != 0) continue;
        Join(WriteMember(object, member, written == 0, behind[written]), &behind[written | size_t{1} << member]);
      }
    }
    return behind.back();
  }

  Configurations Write(const JsonValue& value, const Configurations& from) {
    switch (value.kind) {
      case JsonValue::Kind::kNull:
        return WriteText("null", from);
      case JsonValue::Kind::kBool:
        return WriteText(value.boolean ? "true" : "false", from);
      case JsonValue::Kind::kNumber:
        return WriteText(SpellNumber(value.text), from);
      case JsonValue::Kind::kString:
        return WriteText(SpellJsonString(value.text), from);
      case JsonValue::Kind::kObject:
        return WriteText("}", WriteMembers(value, WriteText("{", from)));
      case JsonValue::Kind::kArray:
        break;
    }
    Configurations behind = WriteText("[", from);
    for (size_t i = 0; i < value.items.size(); ++i) {
      behind = Write(value.items[i], i == 0 ? behind : WriteText(",", behind));
    }
    return WriteText("]", behind);
  }

  ParseStates states_;
};

}  // namespace

bool AllowsInAnyOrder(const Grammar& grammar, const JsonValue& value) { return OrderWriter(grammar).Allows(value); }

}  // namespace baton::grammar
