// What a worker of a small model says first.
#ifndef BATON_ROUTER_TESTING_WORKER_HELLO_H_
#define BATON_ROUTER_TESTING_WORKER_HELLO_H_

#include <cstdint>
#include <string>

#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"

namespace baton::router {

// Of process `n`, at "host:n". Every one of them has the model "tiny" and the same fingerprint.
inline internal::v1::Hello MakeHello(uint64_t n, internal::v1::WorkerRole role) {
  internal::v1::Hello hello;
  hello.set_protocol_version(rpc::kProtocolVersion);
  hello.set_incarnation(rpc::ToBytes({.high = 3, .low = n}));
  hello.set_role(role);
  hello.set_target("host:" + std::to_string(n));
  hello.set_model("tiny");
  hello.set_fingerprint("f");
  hello.set_total_blocks(100);
  hello.set_max_sequences(16);
  hello.set_chunk_tokens(64);
  hello.set_context_length(4096);
  hello.set_full_groups(1);
  return hello;
}

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_WORKER_HELLO_H_
