// SPDX-License-Identifier: Apache-2.0
// What recording a model for one use gives to those who run its tape: the tensors that a replay leaves to be read, by
// name, and the loss.
#pragma once

#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/models/bridgetower.h"

namespace bascule {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct Recording {
  std::vector<NamedTensor> outputs;  // kept; the loss is "loss"
  Tensor loss;
  int loss_stream = 0;  // the loss is a mean over the batch's rows of this stream
};

Recording recording_of(const BridgeTowerOutputs& outputs);
// The name of the judge of a head.
const char* judge_of(ModelHead head);

}  // namespace bascule
