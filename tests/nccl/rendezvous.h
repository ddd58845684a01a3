// How the two ranks of a communicator find each other: by a port of loopback in the unique id, at which the process
// that drew the id listens. It forms rank 0; NCCL does not ask for that.
#ifndef BATON_TESTS_NCCL_RENDEZVOUS_H_
#define BATON_TESTS_NCCL_RENDEZVOUS_H_

#include <functional>
#include <optional>

#include "kvtransfer/transports/nccl/nccl_types.h"

namespace baton::nccl_stand_in {

namespace nccl = kvtransfer::nccl;

// Sockets to the other rank, one for what it receives and one for what it sends. -1 where there is none.
struct Connection {
  int sending = -1;
  int receiving = -1;
};

// Listens. False when it cannot.
bool DrawId(nccl::UniqueId& id);
// Waits for the other rank until `is_given_up` says otherwise.
std::optional<Connection> Meet(const nccl::UniqueId& id, int rank, const std::function<bool()>& is_given_up);

}  // namespace baton::nccl_stand_in

#endif  // BATON_TESTS_NCCL_RENDEZVOUS_H_
