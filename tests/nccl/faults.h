// What a test lets go wrong in the stand-in of NCCL. BATON_STAND_IN_NCCL_FAULT, or a call of batonStandInSetFault, says
// one of these; those with a number strike whenever the process has received so many further bytes:
//
//   init-fails       ncclCommInitRankConfig returns ncclSystemError, as without a network that works
//   init-hangs       the communicator stays in progress, as when the other rank never comes
//   network-error:N  ncclRemoteError, asynchronously, as when a connection breaks
//   silent-peer:N    an operation makes no progress, as with a peer that hangs or a cable that is cut
//   bit-flip:N       one received bit differs from what was sent; each is a line on stderr
//   process-dies:N   the process is killed
#ifndef BATON_TESTS_NCCL_FAULTS_H_
#define BATON_TESTS_NCCL_FAULTS_H_

#include <cstdint>
#include <string>

namespace baton::nccl_stand_in {

enum class Fault : uint8_t { kNone, kInitFails, kInitHangs, kNetworkError, kSilentPeer, kBitFlip, kProcessDies };

// Any thread. An unknown word ends the process: the test is wrong.
void SetFault(const std::string& words);
// kInitFails, kInitHangs, or none.
Fault FaultOfInit();
// What strikes with these received bytes, if anything.
Fault FaultOfBytes(uint64_t received);

}  // namespace baton::nccl_stand_in

#endif  // BATON_TESTS_NCCL_FAULTS_H_
