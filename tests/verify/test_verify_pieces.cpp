// SPDX-License-Identifier: Apache-2.0
// Gradients of a batch in pieces beside those of the reference cases, by the rule for whole batches.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/checkpoint/hf_folder.h"
#include "src/session/batch_pieces.h"
#include "src/session/parameter_values.h"
#include "src/verify/verify_case.h"
#include "tests/support/reference_dir.h"

namespace bascule::test::test_verify_pieces {
namespace {

// Gradients of the first batch, in pieces of so many samples.
Judgement judge(const CaseFiles& files, std::int64_t samples) {
  const Fields fields = files.model->fields({});
  const PaddedBatch padded = read_batch(files, 0);
  const PackedBatch packed(padded, files.inputs, false, files.folder);
  BatchCounts bounds = packed.counts(fields);
  bounds[kFirstModelStream] = static_cast<std::int64_t>(padded.texts[0].input_ids.size());
  Session session;
  const std::map<Use, RecordedGraph> graphs = record_pieces(&session, *files.model, fields, bounds, samples, {}, false);
  session.train({});
  session.seal_alone(kernels_for(best_isa()), 2);
  Threads threads(2, false);
  const TensorSource source = open_hf_weights(files.folder);
  StartWork work;
  load_parameters(&work, source, session.parameter_memory(), *files.model, 0);
  work.run(threads);
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  std::vector<Line> memory(divide_up(pieces_bytes(session, graphs), kCacheLine));
  BatchPieces pieces(session, graphs, memory.front().bytes);
  Replay replay;
  replay.batch = packed.batch(fields);
  pieces.find_loss(threads, replay);
  const RecordedGraph& of_loss = graphs.at(Use::kTrainLoss);
  const float loss = *session.tape(of_loss.number).at(of_loss.recording.losses.front().loss);
  for (std::int64_t i = 0; i < pieces.count(); ++i) pieces.add_gradients(i, threads, replay);
  Judgement judgement;
  judgement.add("loss", relative_l2({loss}, read_floats(files.expected, "loss", files.folder)), 0.0, kFloor);
  const Json& errors = get_object(files.errors, "gradients", files.folder);
  for_each_gradient(files, session, &judgement.not_compared, [&](const CaseGradient& gradient) {
    if (gradient.is_all_zero) return;
    const Json& error = get_object(errors, gradient.name, files.folder);
    judgement.add("grad." + gradient.name, relative_l2(gradient.ours, gradient.truth),
                  get_number(error, "rel_l2_worst", files.folder), kFloor);
  });
  return judgement;
}

TEST(VerifyPieces, OfAnySizeAreWithinTheLimitsOfTheReference) {
  std::size_t cases = 0;
  for (const char* const name : {"embed_bert_ranking", "embed_roberta_cosent", "embed_distilbert_cosine"}) {
    const std::string folder = reference_dir() + "/goldens-families/" + name;
    if (!std::filesystem::exists(folder)) continue;
    ++cases;
    const CaseFiles files = open_case(folder, Precision::kFloat32);
    for (const std::int64_t samples : {1, 3, 1000}) {
      const Judgement judgement = judge(files, samples);
      EXPECT_GT(judgement.tensors.size(), 20u);
      for (const VerifiedTensor& tensor : judgement.tensors)
        EXPECT_LE(tensor.error, tensor.limit) << name << " " << tensor.name << " in pieces of " << samples;
    }
  }
  if (cases == 0) GTEST_SKIP() << "the reference set has no cases of embeddings";
}

}  // namespace
}  // namespace bascule::test::test_verify_pieces
