// What the log tells an operator at start about the path that KV takes.
#ifndef BATON_CLI_TRANSPORT_REPORT_H_
#define BATON_CLI_TRANSPORT_REPORT_H_

#include "kvtransfer/transport.h"

namespace baton::cli {

// Reads from `transport` as a peer on this host would. Logs the path that the transport chose and the bandwidth that it
// reached beside this machine's memcpy; of a device's memory only whether others of this host read it. `transport` was
// made with `options`, has its region, and no thread may use it yet.
void LogBandwidth(kvtransfer::Transport& transport, const kvtransfer::TransportOptions& options);

}  // namespace baton::cli

#endif  // BATON_CLI_TRANSPORT_REPORT_H_
