// The block ledger as AdminService tells it.
#ifndef BATON_ROUTER_LEDGER_WIRE_H_
#define BATON_ROUTER_LEDGER_WIRE_H_

#include <cstdint>

#include "baton/v1/admin.pb.h"
#include "common/clock.h"
#include "router/dispatcher.h"

namespace baton::router {

// What fits into one message.
inline constexpr int32_t kMaxListedHolders = 10'000;

// Lists at most `max_holders` of all workers together, and counts the others.
void FillLedger(const Dispatcher& dispatcher, TimeNs now, int32_t max_holders, v1::GetLedgerResponse* response);

}  // namespace baton::router

#endif  // BATON_ROUTER_LEDGER_WIRE_H_
