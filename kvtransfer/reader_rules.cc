#include "kvtransfer/reader_rules.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton::kvtransfer {
namespace {

// Empty when the terms allow what is asked for; else what is wrong with them.
std::string WhyNot(const JobKey& key, const Incarnation& source, const ReaderRules& rules, const CapabilityTerms& terms,
                   int32_t first_block) {
  if (terms.key != key) return absl::StrCat("its capability is for job ", terms.key.ToString());
  if (terms.source != source) return "its capability is for another source";
  if (terms.membership != rules.reader->membership) return "its capability is of another membership";
  const Incarnation& reader = rules.reader->incarnation;
  if (!reader.is_zero() && terms.reader != reader) return "its capability is another reader's";
  if (terms.tenant != rules.tenant) return "its capability is for another tenant";
  if (first_block >= terms.first_block) return "";
  return absl::StrCat("its capability begins with block ", terms.first_block, ", it asks for block ", first_block);
}

}  // namespace

absl::Status CheckReader(const JobKey& key, const Incarnation& source, const ReaderRules& rules,
                         const ReaderProof& proof) {
  const auto refuse = [&key](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat("the Fetch of job ", key.ToString(), " is refused: ", why));
  };
  if (rules.secret != proof.secret) return refuse("it does not know the secret");
  if (!rules.reader.has_value()) return absl::OkStatus();
  if (!proof.terms.ok()) return refuse(proof.terms.status().message());
  const std::string why = WhyNot(key, source, rules, *proof.terms, proof.first_block);
  return why.empty() ? absl::OkStatus() : refuse(why);
}

}  // namespace baton::kvtransfer
