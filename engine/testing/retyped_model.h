// A model with its matrices in other types, made in memory: for tests of what quantizing costs and does.
#ifndef BATON_ENGINE_TESTING_RETYPED_MODEL_H_
#define BATON_ENGINE_TESTING_RETYPED_MODEL_H_

#include <functional>
#include <memory>

#include "modelfile/model_file.h"

namespace baton::engine {

// The type that a matrix gets: kF32, or one that QuantizeRow writes.
using TypeChoice = std::function<modelfile::TensorType(const modelfile::TensorView&)>;

// Vectors stay as they are. `source` must outlive it.
std::unique_ptr<modelfile::ModelFile> MakeRetypedModel(const modelfile::ModelFile& source, const TypeChoice& type_of);

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_RETYPED_MODEL_H_
