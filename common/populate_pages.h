// Memory whose pages are there before they are touched.
#ifndef BATON_COMMON_POPULATE_PAGES_H_
#define BATON_COMMON_POPULATE_PAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace baton {

// Has the system back every page of `memory`, which starts at a page, and changes no byte. Others may use the memory
// meanwhile: a page that they touch first costs them a fault, as it does without this call. RESOURCE_EXHAUSTED when
// memory runs out.
absl::Status PopulatePages(absl::Span<uint8_t> memory);

// Maps the pages of `memory`, which starts at a page and is there already, for reading: one call instead of a fault
// each. Best effort: what it does not map is mapped when it is read.
void MapPages(absl::Span<const uint8_t> memory);

}  // namespace baton

#endif  // BATON_COMMON_POPULATE_PAGES_H_
