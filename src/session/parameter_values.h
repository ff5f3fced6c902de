// SPDX-License-Identifier: Apache-2.0
// Values of parameters and of the optimizer's states, as tensors of a checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "kernels/elements.h"
#include "kernels/table.h"
#include "src/base/check.h"
#include "src/base/span.h"
#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/graph/parameters.h"
#include "src/models/model.h"
#include "src/runtime/start_work.h"
#include "src/update/optimizer_states.h"

namespace bascule {

// The values of the parameters in the arena: loading them from a checkpoint, making fresh ones, and listing them for
// one to be written. Before the seal (the lists are used after it). Loading and making are added to the work that all
// threads share; the values are there when it has run.

// The ranges that a layout describes.
struct ParameterMemory {
  const ParameterSet* set = nullptr;
  const ParameterLayout* layout = nullptr;
  float *trained = nullptr, *fixed = nullptr;
  std::uint16_t* rounded = nullptr;

  Elements elements(int parameter) const {
    const ParameterLayout::Place& place = layout->places[static_cast<std::size_t>(parameter)];
    return place.rounded ? Elements(rounded + place.offset)
                         : Elements((place.trained ? trained : fixed) + place.offset);
  }
  // The values of a parameter that is not stored as bf16.
  float* at(int parameter) const {
    const Elements place = elements(parameter);
    BASCULE_CHECK(!place.is_bf16());
    return place.float32();
  }
};

// Fills `count` floats, the tensor's elements from `first` on, by its law: a function of (seed, name,
// element), not of when or where it is computed.
void fill_initial(float* destination, std::int64_t first, std::int64_t count, const InitialValue& law,
                  std::uint64_t seed, const std::string& name) noexcept;
void initialise_parameters(StartWork* work, const ParameterMemory& memory, std::uint64_t seed);

// Reads all parameters of the model: those of the part (Graph::set_part), or of the only model. A missing tensor is an
// Error kData, or, where the model says that it may be fresh, initialised and named in `missing`. has_new_classes: what
// depends on them is initialised too. source: outlives the work.
LoadReport load_parameters(StartWork* work, const TensorSource& source, const ParameterMemory& memory,
                           const Model& model, std::uint64_t seed, bool has_new_classes = false,
                           const std::string& part = "");
LoadReport load_tensors(StartWork* work, const TensorSource& source, const std::vector<WantedTensor>& wanted,
                        const FileNames& names);

// Packs these parameters where they lie, for the tapes that were told so (choose_packed_parameters()): their values are
// there, and nothing else reads them from now on. kernels: those of the tapes.
void pack_parameters(StartWork* work, const ParameterMemory& memory, Span<const int> parameters,
                     const KernelTable& kernels);

// "a, b and 3 more": the names in the file that neither the model nor the class of its checkpoint has; "" where there
// are none.
std::string names_left_out(const LoadReport& report, const Model& model);

// The pieces of a part, or of the only model, as tensors to write: `values` is a range laid out like the trained
// parameters (weights themselves, or a moment), `fixed` the parameters that are not trained (null: leave them out).
std::vector<TensorToWrite> tensors_to_write(const ParameterSet& set, const ParameterLayout& layout, const float* values,
                                            const float* fixed, const std::string& name_prefix,
                                            const std::string& part = "");

// The tensor's name in the files of the part: "conv_in.weight" for "unet/conv_in.weight". Nothing for other parts.
std::optional<std::string> name_in_part(const std::string& tensor, const std::string& part);

// The optimizer's states as tensors of a checkpoint: listed for one to be written, and for one to be read. Before the
// seal (the lists are used after it).

// From memory, or, where the nodes share out the states, through `exchange` (null: they do not). parts: what the
// tensors read from it refer to; outlives their writing.
std::vector<TensorToWrite> states_to_write(const OptimizerStates& states, const ParameterMemory& parameters,
                                           StateExchange* exchange, std::deque<StateExchange::Part>* parts);

// Into memory: all values, or, where the nodes share out the states, those of this node; the others are only looked
// for.
std::vector<WantedTensor> wanted_states(const OptimizerStates& states, const ParameterMemory& parameters, int node);

}  // namespace bascule
