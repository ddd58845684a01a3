// What the entries of a fleet's directory say. Anybody who may write to the store can write them, so whatever cannot be
// read is left out.
#ifndef BATON_DISCOVERY_ANNOUNCEMENTS_H_
#define BATON_DISCOVERY_ANNOUNCEMENTS_H_

#include <string>
#include <vector>

#include "baton/internal/v1/discovery.pb.h"
#include "common/ids.h"
#include "discovery/directory_session.h"

namespace baton::discovery {

// The announcements of one directory that could be read, in order of their keys.
struct Fleet {
  std::vector<internal::v1::RouterAnnouncement> routers;
  std::vector<internal::v1::WorkerAnnouncement> workers;
  // Keys of entries that could not.
  std::vector<std::string> unreadable;
};

// Which entry is the process's. `prefix` has no slash at its end.
std::string RouterKey(const std::string& prefix, const Incarnation& router);
std::string WorkerKey(const std::string& prefix, const Incarnation& worker);

// The value of an entry.
std::string ToJson(const internal::v1::RouterAnnouncement& router);
std::string ToJson(const internal::v1::WorkerAnnouncement& worker);

// The cluster ports of the routers that serve the model, without duplicates, and kMaxRouters at most.
std::vector<std::string> ClusterTargets(const Fleet& fleet, const std::string& model);

Fleet ReadFleet(const std::string& prefix, const Entries& entries);

}  // namespace baton::discovery

#endif  // BATON_DISCOVERY_ANNOUNCEMENTS_H_
