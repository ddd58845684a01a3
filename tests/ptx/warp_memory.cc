// Memory as the lanes of a warp see it, with its checks.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/ptx/block.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/text.h"
#include "tests/ptx/warp.h"

namespace baton::ptx {
namespace {

constexpr uint32_t kThreadMask = (1U << kThreadBits) - 1;

template <class Word>
bool WordWritten(const uint8_t* states) {
  Word word = 0;
  std::memcpy(&word, states, sizeof(word));
  return word == static_cast<Word>(0x0101010101010101);
}

bool AllWritten(const uint8_t* states, uint32_t bytes) {
  switch (bytes) {
    case 1:
      return *states == kWritten;
    case 2:
      return WordWritten<uint16_t>(states);
    case 4:
      return WordWritten<uint32_t>(states);
    case 8:
      return WordWritten<uint64_t>(states);
    case 16:
      return WordWritten<uint64_t>(states) && WordWritten<uint64_t>(states + 8);
    default:
      return std::all_of(states, states + bytes, [](uint8_t state) { return state == kWritten; });
  }
}

bool AnyRed(const uint8_t* states, uint32_t bytes) { return std::memchr(states, kRedZone, bytes) != nullptr; }

}  // namespace

const uint8_t* Warp::Read(const Instruction& in, uint64_t address, uint32_t bytes, int lane) {
  return Access(in, address, bytes, lane, Use::kRead);
}
uint8_t* Warp::Write(const Instruction& in, uint64_t address, uint32_t bytes, int lane) {
  return Access(in, address, bytes, lane, Use::kWrite);
}
uint8_t* Warp::Update(const Instruction& in, uint64_t address, uint32_t bytes, int lane) {
  return Access(in, address, bytes, lane, Use::kUpdate);
}

uint8_t* Warp::Access(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use) {
  if ((address & (bytes - 1)) != 0) {
    Report(FindingKind::kMisaligned, in, lane, Text("address ", address & ~kWindowMask, " of ", bytes, " bytes"));
    return nullptr;
  }
  switch (in.space) {
    case Space::kGlobal:
    case Space::kConst:
      return AccessGlobal(in, address, bytes, lane, use);
    case Space::kShared:
      return AccessShared(in, address, bytes, lane, use);
    case Space::kLocal:
      return AccessLocal(in, address, bytes, lane, use);
    case Space::kParam:
      return AccessParam(in, address, bytes, lane, use);
    case Space::kGeneric:
      break;
  }
  const uint64_t inside = address & ~kWindowMask;
  switch (address & kWindowMask) {
    case kSharedWindow:
      return AccessShared(in, inside, bytes, lane, use);
    case kLocalWindow:
      return AccessLocal(in, inside, bytes, lane, use);
    case kParamWindow:
      return AccessParam(in, inside, bytes, lane, use);
    default:
      return AccessGlobal(in, address, bytes, lane, use);
  }
}

bool Warp::CheckStates(const Instruction& in, uint8_t* states, uint32_t bytes, int lane, Use use,
                       std::string_view memory) {
  if (use == Use::kWrite) {
    std::memset(states, kWritten, bytes);
    return true;
  }
  if (AllWritten(states, bytes) || !launch->options.check_uninitialized) return true;
  for (uint32_t i = 0; i < bytes; ++i) {
    if (states[i] != kUnwritten) continue;
    Report(FindingKind::kUninitialized, in, lane,
           Text("byte ", i, " of ", bytes, " of ", memory, " memory was never written"));
    return false;
  }
  return true;
}

uint8_t* Warp::AccessGlobal(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use) {
  Allocation* allocation = last_allocation_;
  if (allocation == nullptr || !allocation->Contains(address, bytes)) {
    allocation = launch->memory->Find(address);
    if (allocation == nullptr || !allocation->Contains(address, bytes)) {
      const std::string where = allocation == nullptr ? "no allocation is there"
                                                      : Text("byte ", address - allocation->base,
                                                             allocation->freed ? " of a freed" : " of an",
                                                             " allocation of ", allocation->size, " bytes");
      Report(FindingKind::kOutOfBounds, in, lane, Text("global memory, ", bytes, " bytes: ", where));
      return nullptr;
    }
    last_allocation_ = allocation;
  }
  if (use != Use::kRead && allocation->read_only) {
    Report(FindingKind::kOutOfBounds, in, lane, "constant memory is written");
    return nullptr;
  }
  const uint64_t offset = address - allocation->base;
  CheckStates(in, allocation->written.get() + offset, bytes, lane, use, "global");
  if (!allocation->accesses.empty()) CheckGlobalRace(in, *allocation, offset, bytes, lane, use);
  return allocation->data.get() + offset;
}

void Warp::CheckGlobalRace(const Instruction& in, Allocation& allocation, uint64_t offset, uint32_t bytes, int lane,
                           Use use) {
  if ((in.flags & kStrong) != 0) return;
  const auto me = static_cast<uint32_t>(block->number() + 1);
  for (uint64_t i = offset; i < offset + bytes; ++i) {
    GlobalAccess& access = allocation.accesses[i];
    if (access.launch != launch->number) access = {launch->number, 0, 0};
    const bool other_wrote = access.writer != 0 && access.writer != me;
    const bool other_read = access.reader != 0 && access.reader != me;
    if (other_wrote || (use != Use::kRead && other_read)) {
      return Report(FindingKind::kGlobalRace, in, lane,
                    Text("byte ", i, " of an allocation of ", allocation.size, " bytes was ",
                         other_wrote ? "written" : "read", " by another block of the launch"));
    }
    uint32_t& record = use == Use::kRead ? access.reader : access.writer;
    record = record == 0 || record == me ? me : GlobalAccess::kSeveral;
  }
}

uint8_t* Warp::AccessShared(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use) {
  SharedMemory& shared = block->shared();
  const uint64_t offset = address - kSharedBase;
  const uint64_t size = shared.data.size();
  if (offset >= size || bytes > size - offset || AnyRed(shared.states.data() + offset, bytes)) {
    Report(FindingKind::kOutOfBounds, in, lane,
           Text("shared memory, ", bytes, " bytes at ", address, ", of which there are ", size, " from ", kSharedBase));
    return nullptr;
  }
  CheckShared(in, static_cast<uint32_t>(offset), bytes, lane, use);
  CheckStates(in, shared.states.data() + offset, bytes, lane, use, "shared");
  return shared.data.data() + offset;
}

bool Warp::Ordered(Stamp stamp, int lane) const {
  const auto thread = static_cast<int>(stamp & kThreadMask);
  const uint32_t then = stamp >> kThreadBits;
  if (stamp == 0 || thread == index * kLanes + lane) return true;
  if (thread / kLanes == index) return then <= lane_floor || then <= lane_seen_[lane][thread % kLanes];
  return then <= block->Seen(index, thread / kLanes);
}

void Warp::RecordRead(SharedByte& byte, Stamp now) const {
  const uint32_t thread = now & kThreadMask;
  const uint32_t last = byte.read & kThreadMask;
  if (byte.read != 0 && last != thread)
    (last / kLanes == thread / kLanes ? byte.read_of_lane : byte.read_of_warp) = byte.read;
  byte.read = now;
}

void Warp::CheckShared(const Instruction& in, uint32_t offset, uint32_t bytes, int lane, Use use) {
  SharedMemory& shared = block->shared();
  const bool races = !shared.accesses.empty();
  const bool strong = (in.flags & kStrong) != 0;
  const Stamp now = Now(lane);
  // Neighbours were mostly written by one thread, so what was found ordered is not asked again.
  Stamp ordered = 0;
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    if (shared.pending[i] != 0) {
      return Report(FindingKind::kUnwaitedCopy, in, lane,
                    Text("shared address ", i + kSharedBase, " is the target of a cp.async that is not waited for"));
    }
    if (!races) continue;
    SharedByte& byte = shared.accesses[i];
    Stamp other = byte.write == ordered || Ordered(byte.write, lane) ? 0 : byte.write;
    if (other == 0) ordered = byte.write;
    const char* what = "wrote";
    if (other == 0 && byte.strong != 0 && !strong && !Ordered(byte.strong, lane)) other = byte.strong;
    if (other == 0 && use != Use::kRead) {
      what = "read";
      for (const Stamp read : {byte.read, byte.read_of_lane, byte.read_of_warp})
        other = Ordered(read, lane) ? other : read;
    }
    if (use == Use::kRead) {
      if (!strong) RecordRead(byte, now);
    } else {
      (strong ? byte.strong : byte.write) = now;
    }
    if (other == 0) continue;
    return Report(FindingKind::kSharedRace, in, lane,
                  Text("shared address ", i + kSharedBase, ": thread ", other & kThreadMask, " of the block ", what,
                       " it, and nothing orders that before this ", use == Use::kRead ? "read" : "write"));
  }
}

uint8_t* Warp::AccessLocal(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use) {
  const uint64_t frame = kernel->local_layout.size();
  const uint64_t offset = address - kLocalBase;
  const bool inside = offset < frame && bytes <= frame - offset;
  uint8_t* states = local_states_.data() + lane * frame + (inside ? offset : 0);
  if (!inside || AnyRed(states, bytes)) {
    Report(FindingKind::kOutOfBounds, in, lane, Text("local memory, ", bytes, " bytes at ", address));
    return nullptr;
  }
  CheckStates(in, states, bytes, lane, use, "local");
  return local_.data() + lane * frame + offset;
}

uint8_t* Warp::AccessParam(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use) {
  const uint64_t size = launch->params.size();
  if (use != Use::kRead || address >= size || bytes > size - address) {
    Report(FindingKind::kOutOfBounds, in, lane, Text("parameters, ", bytes, " bytes at ", address, " of ", size));
    return nullptr;
  }
  return launch->params.data() + address;
}

void Warp::CopyLater(const Instruction& in, uint32_t to, const uint8_t* data, uint32_t bytes, int lane) {
  SharedMemory& shared = block->shared();
  const uint64_t offset = uint64_t{to} - kSharedBase;
  if ((to & (bytes - 1)) != 0) return Report(FindingKind::kMisaligned, in, lane, Text("shared address ", to));
  const uint64_t size = shared.data.size();
  const bool inside = offset < size && bytes <= size - offset && !AnyRed(shared.states.data() + offset, bytes);
  if (!inside) return Report(FindingKind::kOutOfBounds, in, lane, Text("shared memory, ", bytes, " bytes at ", to));
  CheckShared(in, static_cast<uint32_t>(offset), bytes, lane, Use::kWrite);
  PendingCopy copy = {
      static_cast<uint8_t>(lane), static_cast<uint8_t>(bytes), copy_group_[lane], static_cast<uint32_t>(offset), {}};
  std::memcpy(copy.data, data, bytes);
  for (uint32_t i = 0; i < bytes; ++i) ++shared.pending[offset + i];
  copies_.push_back(copy);
}

void Warp::CommitCopies(uint32_t mask) {
  ForLanes(mask, [&](int lane) { ++copy_group_[lane]; });
}

void Warp::LandCopies(const Instruction& in, uint32_t mask, int64_t left) {
  SharedMemory& shared = block->shared();
  auto lands = [&](const PendingCopy& copy) {
    return (mask >> copy.lane & 1) != 0 && (left < 0 || copy.group + left < copy_group_[copy.lane]);
  };
  for (const PendingCopy& copy : copies_) {
    if (!lands(copy)) continue;
    std::memcpy(shared.data.data() + copy.to, copy.data, copy.bytes);
    std::memset(shared.states.data() + copy.to, kWritten, copy.bytes);
    for (uint32_t i = copy.to; i < copy.to + copy.bytes; ++i) {
      --shared.pending[i];
      if (!shared.accesses.empty()) shared.accesses[i].write = Now(copy.lane);
    }
  }
  std::erase_if(copies_, lands);
}

}  // namespace baton::ptx
