// Lays out registers, memory and code of a kernel and of the functions that it calls.
#ifndef BATON_TESTS_PTX_KERNEL_BUILDER_H_
#define BATON_TESTS_PTX_KERNEL_BUILDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/ptx/decoder.h"

namespace baton::ptx {

class KernelBuilder {
 public:
  KernelBuilder(const Module& module, const Addresses& addresses) : module_(module), addresses_(addresses) {}

  absl::StatusOr<KernelProgram> Build(const Function& entry);

  void Fail(int line, std::string_view what);
  const absl::Status& status() const { return status_; }
  const Function& function() const { return *function_; }
  const Module& module() const { return module_; }
  KernelProgram& program() { return program_; }

  Slot Constant(uint64_t value);
  Slot Special(const std::string& name);
  // Of a register of the function: a predicate has a number of its own.
  Slot RegisterSlot(int index) const { return slots_.at(function_)[index]; }
  Slot SinkSlot();
  Slot SinkPredicate();
  // Lays the variable out where that has not been done.
  uint64_t Address(const Variable& variable);
  bool IsEntryParam(const Variable& variable) const { return params_.contains(&variable); }
  int32_t Label(const std::string& name, int line);
  int32_t EntryOf(const Function& function) const { return starts_.at(&function); }

 private:
  void LayOutParams(const Function& entry);
  void LayOutShared();
  // Callees before callers.
  void Collect(const Function& function, std::vector<const Function*>& path);
  void AssignSlots(const Function& function);
  void Decode(const Function& function);
  void DecodeStatement(const Statement& statement);
  uint64_t Place(std::vector<uint8_t>& layout, uint64_t base, const Variable& variable);

  const Module& module_;
  const Addresses& addresses_;
  KernelProgram program_;
  absl::Status status_;
  const Function* function_ = nullptr;
  std::vector<const Function*> order_;
  std::map<const Function*, std::vector<Slot>> slots_;
  std::map<const Function*, int32_t> starts_;
  std::map<uint64_t, Slot> constants_;
  std::map<std::string, Slot> specials_;
  std::map<const Variable*, uint64_t> places_;
  std::map<const Variable*, uint64_t> params_;
  Slot sink_ = -1;
  Slot sink_predicate_ = -1;
  uint64_t dynamic_base_ = 0;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_KERNEL_BUILDER_H_
