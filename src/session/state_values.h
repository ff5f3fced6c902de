// SPDX-License-Identifier: Apache-2.0
// The optimizer's states as tensors of a checkpoint: listed for one to be written, and for one to be read. Before the
// seal (the lists are used after it).
#pragma once

#include <deque>
#include <vector>

#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/session/parameter_values.h"
#include "src/update/state_exchange.h"

namespace bascule {

// From memory, or, where the nodes share out the states, through `exchange` (null: they do not). parts: what the
// tensors read from it refer to; outlives their writing.
std::vector<TensorToWrite> states_to_write(const OptimizerStates& states, const ParameterMemory& parameters,
                                           StateExchange* exchange, std::deque<StateExchange::Part>* parts);

// Into memory: all values, or, where the nodes share out the states, those of this node; the others are only looked
// for.
std::vector<WantedTensor> wanted_states(const OptimizerStates& states, const ParameterMemory& parameters, int node);

}  // namespace bascule
