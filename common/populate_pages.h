// Backs and maps pages of memory before their first use.
#ifndef BATON_COMMON_POPULATE_PAGES_H_
#define BATON_COMMON_POPULATE_PAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace baton {

// Makes the system back every page of `memory`, which must begin at a page. No byte changes. Other threads may use the
// memory meanwhile; a page that they touch first costs them a fault, as it would without this call. RESOURCE_EXHAUSTED
// when memory runs out.
absl::Status PopulatePages(absl::Span<uint8_t> memory);

// Maps the pages of `memory` for reading: one call instead of one fault per page. `memory` must begin at a page and be
// backed already. Best effort: a page that it does not map is mapped when it is first read.
void MapPages(absl::Span<const uint8_t> memory);

}  // namespace baton

#endif  // BATON_COMMON_POPULATE_PAGES_H_
