// What the service manager hears that started this process: systemd, or whoever else speaks its protocol
// (sd_notify(3)).
#ifndef BATON_CLI_SERVICE_MANAGER_H_
#define BATON_CLI_SERVICE_MANAGER_H_

#include <string_view>

namespace baton::cli {

// Names the socket of the service manager. It is for this process alone and not for its children.
inline constexpr char kNotifySocketVariable[] = "NOTIFY_SOCKET";

// Sends assignments such as "READY=1", one a line. Does nothing when no manager listens, and never blocks: a manager
// that does not read misses the message. Any thread may call it, while none changes the environment.
void NotifyServiceManager(std::string_view assignments);

}  // namespace baton::cli

#endif  // BATON_CLI_SERVICE_MANAGER_H_
