// What an operator reads at start about the path that KV takes.
#ifndef BATON_CLI_TRANSPORT_REPORT_H_
#define BATON_CLI_TRANSPORT_REPORT_H_

#include "kvtransfer/transport.h"

namespace baton::cli {

// Reads from `transport`, which has its region and no thread yet, as a peer on this host would, and logs the path that
// was chosen and the bandwidth that was reached, beside this machine's memcpy.
void LogBandwidth(kvtransfer::Transport& transport, kvtransfer::TransportKind kind);

}  // namespace baton::cli

#endif  // BATON_CLI_TRANSPORT_REPORT_H_
