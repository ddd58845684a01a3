// The part of opcodes that integers share with floats.
#ifndef BATON_TESTS_PTX_INTEGER_OPERATIONS_H_
#define BATON_TESTS_PTX_INTEGER_OPERATIONS_H_

#include "tests/ptx/decoder.h"
#include "tests/ptx/types.h"

namespace baton::ptx {

// Decode add, sub, mul, mad, fma, div, rem, min, max, neg, abs, sad of that type. False where the type has none.
bool DecodeInteger(InstructionDecoder& decoder, Type type);
bool DecodeFloat(InstructionDecoder& decoder, Type type);
bool DecodeHalf(InstructionDecoder& decoder, Type type);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_INTEGER_OPERATIONS_H_
