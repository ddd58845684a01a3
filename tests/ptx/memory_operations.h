// What instructions that touch memory share.
#ifndef BATON_TESTS_PTX_MEMORY_OPERATIONS_H_
#define BATON_TESTS_PTX_MEMORY_OPERATIONS_H_

#include "tests/ptx/decoder.h"

namespace baton::ptx {

// Of a base register's value.
uint64_t EffectiveAddress(const Instruction& in, uint64_t base);
// kGeneric where no space is named.
Space TakeMemorySpace(InstructionDecoder& decoder);
// Modifiers of ordering, scope and caches.
void TakeOrder(InstructionDecoder& decoder);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_MEMORY_OPERATIONS_H_
