// SPDX-License-Identifier: Apache-2.0
// The translator of tests/families/translator.h in a session: a graph for each of its uses, its folder, its batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "tests/families/translator.h"

namespace bascule::test {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kWidth = 8, kSourceWords = 14, kTargetWords = 20, kSourceLength = 9, kTargetLength = 7;

// The graphs of a session, in the order of these uses.
inline constexpr Use kUses[] = {Use::kTrain, Use::kEvaluate, Use::kReference, kEncode, kDecodeStep};
enum : std::size_t { kTraining, kEvaluation, kOnePass, kEncoding, kStep };

// model_index.json and both config.json.
void write_translator(const std::string& folder, std::int64_t source_positions = kSourceLength);

// The bounds of batches of so many samples.
BatchCounts most_of(std::int64_t samples);

// Tokens of a target that have a label, and not -100, are predicted.
struct Sample {
  Ids source, target, labels;
};
PackedBatch packed(const std::vector<Sample>& samples, const std::vector<Part>& parts);

struct TranslatorRun {
  std::vector<Part> parts;
  Session session;
  Recording recordings[std::size(kUses)];
  Threads threads{2, false};

  // Sealed; the parameters have no values yet.
  TranslatorRun(const std::string& folder, const BatchCounts& bounds);
  void initialise(std::uint64_t seed);
  // From the folders of the parts.
  void load();
  // Into a folder for each part below this one.
  void save(const std::string& folder) const;

  void replay(std::size_t graph, const Batch& batch);
  void replay(std::size_t graph, const std::vector<Sample>& samples);
  float loss(std::size_t graph) const;
  std::vector<float> logits(std::size_t graph, std::size_t rows) const;
  std::vector<float> values() const;  // of all parameters
};

// One target, token by token.
class Steps {
 public:
  Steps(TranslatorRun& run, const Ids& source);
  // The logits of all tokens so far.
  std::vector<float> take(std::int64_t token);

 private:
  TranslatorRun& run_;
  std::vector<std::int32_t> source_, written_;
};

}  // namespace bascule::test
