// SPDX-License-Identifier: Apache-2.0
// The model of a case, recorded, sealed and loaded for what the case holds: as a run trains it, and as an evaluation
// computes it, but with every output that the case knows.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/models/model.h"
#include "src/runtime/threads.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "src/verify/verify_files.h"

namespace bascule {

class CaseModel {
 public:
  CaseModel(const CaseFiles& files, Precision precision, const KernelTable& kernels, int threads);

  // Whether step() can be called: the case holds gradients or a run, or a loss that only training computes.
  bool trains() const { return trains_; }
  // Whether evaluate() can be called: the case holds outputs or a loss, in float32.
  bool evaluates() const { return evaluates_; }

  // The loss of a batch, and gradients of the mean over all `batches`. `batches` are numbers of the case's batches.
  double step(const std::vector<std::int64_t>& batches);
  // Computes every output of batch 0. The batch says which row of the padded layout each text row is.
  PackedBatch evaluate();

  Session& training() { return training_.session; }
  Threads& threads() { return *threads_; }
  // After step(): false for the bare model, whose loss is a sum of outputs times given numbers.
  bool has_own_loss() const { return cotangents_.empty(); }

  // After evaluate().
  const Recording& recording() const { return evaluation_.recording; }
  const TensorInfo& info(Tensor tensor) const { return evaluation_.session.graph(0)[tensor]; }
  const float* at(Tensor tensor) const { return evaluation_.session.tape(0).at(tensor); }

 private:
  struct Copy {
    Session session;
    Recording recording;
  };

  void open(Copy* copy, bool trains, const KernelTable& kernels);
  PackedBatch pack(std::int64_t batch, bool every_row) const;
  void record(Copy* copy, bool trains);
  void derive(Graph& graph, Recording* recording);
  void read_cotangents(std::int64_t batch, const PackedBatch& packed);

  const CaseFiles& files_;
  const Precision precision_;
  Fields fields_;
  std::vector<PaddedBatch> batches_;
  bool trains_ = false, evaluates_ = false;
  Copy training_, evaluation_;
  // For the bare model: an output, and the input by which it is multiplied.
  struct Cotangent {
    ReferenceOutput output;
    Tensor input;
  };
  std::vector<Cotangent> cotangents_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace bascule
