// SPDX-License-Identifier: Apache-2.0
// Texts of the small models of the families, with random weights: what their bits do not depend on.
#include "src/generate/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "kernels/table.h"
#include "src/models/families.h"
#include "src/runtime/guard.h"
#include "src/session/packed_batch.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocabulary = 70;
constexpr std::int32_t kEnd = 1;

// Those that generate: one with a tied and scaled head and another one with neither; their decoders are deeper than
// their encoders. And one whose heads fill vectors, as those of published models do.
std::vector<std::unique_ptr<Model>> models() {
  std::vector<std::unique_ptr<Model>> all;
  const TemporaryFolder folder;
  all.push_back(
      open_model({folder.write("config.json", R"({"model_type": "t5", "vocab_size": 70, "d_model": 32, "d_kv": 16,
      "d_ff": 48, "num_layers": 1, "num_decoder_layers": 2, "num_heads": 2, "decoder_start_token_id": 0})"),
                  {}},
                 "conditional_generation"));
  for (const Family* family : families()) {
    if (family->small_models == nullptr) continue;
    for (std::unique_ptr<Model>& model : family->small_models()) {
      if (serves(*model, Use::kDecode)) all.push_back(std::move(model));
    }
  }
  return all;
}

SearchOptions options_with(std::int64_t num_beams, std::int64_t max_length) {
  SearchOptions options;
  options.vocabulary_size = kVocabulary;
  options.num_beams = num_beams;
  options.max_length = max_length;
  options.end_ids = {kEnd};
  return options;
}

// Sources, and targets where there are such, side by side.
PackedBatch pack(const Model& model, const std::vector<Ids>& sources, const std::vector<Ids>& targets = {}) {
  PaddedBatch padded;
  padded.samples = static_cast<std::int64_t>(sources.size());
  const auto fill = [&](PaddedText* text, const std::vector<Ids>& rows) {
    for (const Ids& row : rows) text->length = std::max(text->length, static_cast<std::int64_t>(row.size()));
    for (const Ids& row : rows) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(text->length); ++t) {
        text->input_ids.push_back(t < row.size() ? row[t] : 0);
        text->attention_mask.push_back(t < row.size() ? 1 : 0);
      }
    }
  };
  fill(&padded.texts[0], sources);
  fill(&padded.texts[1], targets);
  padded.texts[1].token_labels = padded.texts[1].input_ids;
  return PackedBatch(padded, model.inputs(), true, "test");
}

// A model with random weights and its generator, for batches up to the one given.
struct Generation {
  Generation(const Model& model, const std::vector<Ids>& sources, const SearchOptions& options,
             Isa isa = isas().front(), int thread_count = 1)
      : fields(model.fields({})),
        threads(thread_count, false),
        recorded(record_generation(&session, model, fields, pack(model, sources).counts(fields), options,
                                   Precision::kFloat32)),
        generator(recorded, options, static_cast<std::int64_t>(sources.size())) {
    session.seal_alone(kernels_for(isa), thread_count);
    StartWork work;
    initialise_parameters(&work, session.parameter_memory(), 5);
    work.run(threads);
    generator.seal_alone(session);
  }

  struct Text {
    Ids ids;
    float score;
    bool operator==(const Text& other) const { return ids == other.ids && score == other.score; }
  };
  std::vector<Text> run(const Model& model, const std::vector<Ids>& sources) {
    const PackedBatch packed = pack(model, sources);
    generator.run(packed.batch(fields), threads);
    std::vector<Text> texts;
    for (std::int64_t s = 0; s < packed.samples(); ++s) {
      const Span<const std::int32_t> ids = generator.search().generated(s);
      texts.push_back({Ids(ids.begin(), ids.end()), generator.search().score(s)});
    }
    return texts;
  }

  const Fields fields;
  Session session;
  Threads threads;
  const RecordedGeneration recorded;
  Generator generator;
};

const std::vector<Ids> kSources = {{5, 9, 33, 2, 60, 7, 8, kEnd}, {44, kEnd}, {21, 20, 19, 18, 3, kEnd}};

// A decoder with caches computes what one pass over the whole prefix does.
TEST(Generator, LogitsOfAStepHaveTheBitsOfOnePassOverThePrefix) {
  for (const std::unique_ptr<Model>& model : models()) {
    for (const Isa isa : isas()) {
      SearchOptions options = options_with(1, 14);
      options.min_length = options.max_length;  // no row ends
      Generation whole(*model, kSources, options, isa);
      std::vector<Ids> targets;
      for (const auto& text : whole.run(*model, kSources)) targets.push_back(text.ids);

      Session session;
      const PackedBatch packed = pack(*model, kSources, targets);
      Graph& graph = session.add_graph(packed.counts(whole.fields), whole.fields);
      const Recording recording = model->record(graph, Use::kReference, {});
      session.seal_alone(kernels_for(isa), 1);
      Threads threads(1, false);
      StartWork work;
      initialise_parameters(&work, session.parameter_memory(), 5);
      work.run(threads);
      Replay replay;
      replay.batch = packed.batch(whole.fields);
      session.tape(0).replay(threads, replay);
      const auto logits = std::find_if(recording.reference.begin(), recording.reference.end(),
                                       [](const ReferenceOutput& output) { return output.name == "logits"; });
      const float* const all = session.tape(0).at(logits->tensors.front());

      for (std::int64_t length = 2; length <= options.max_length; ++length) {
        options.min_length = options.max_length = length;
        Generation prefix(*model, kSources, options, isa);
        prefix.run(*model, kSources);
        const float* const last = prefix.session.tape(prefix.recorded.decode).at(prefix.recorded.logits);
        for (std::size_t s = 0; s < kSources.size(); ++s) {
          const std::int64_t row = static_cast<std::int64_t>(s) * 13 + length - 2;
          EXPECT_EQ(std::memcmp(last + static_cast<std::int64_t>(s) * kVocabulary, all + row * kVocabulary,
                                kVocabulary * sizeof(float)),
                    0)
              << isa_name(isa) << ", sample " << s << ", step " << length - 2;
        }
      }
    }
  }
}

TEST(Generator, TextsDoNotDependOnTheBatchItsOrderOrThreads) {
  bool depend_on_sources = false;
  for (const std::unique_ptr<Model>& model : models()) {
    for (const std::int64_t beams : {1, 3}) {
      const SearchOptions options = options_with(beams, 12);
      const auto together = Generation(*model, kSources, options).run(*model, kSources);
      depend_on_sources = depend_on_sources || together[0].ids != together[1].ids;
      for (const int threads : {1, 2, 4}) {
        Generation generation(*model, kSources, options, isas().front(), threads);
        EXPECT_EQ(generation.run(*model, kSources) == together, true) << threads << " threads";
        EXPECT_EQ(generation.run(*model, kSources) == together, true) << "again";
        for (std::size_t s = 0; s < kSources.size(); ++s)
          EXPECT_EQ(generation.run(*model, {kSources[s]}).front() == together[s], true) << "alone " << s;
        const auto reversed = generation.run(*model, {kSources[2], kSources[1], kSources[0]});
        for (std::size_t s = 0; s < kSources.size(); ++s)
          EXPECT_EQ(reversed[2 - s] == together[s], true) << "reversed " << s;
      }
    }
  }
  EXPECT_TRUE(depend_on_sources);
}

TEST(Generator, TextsAreTheSameOnEveryInstructionSet) {
  for (const std::unique_ptr<Model>& model : models()) {
    for (const std::int64_t beams : {1, 4}) {
      const SearchOptions options = options_with(beams, 12);
      const auto truth = Generation(*model, kSources, options).run(*model, kSources);
      for (const Isa isa : isas())
        EXPECT_EQ(Generation(*model, kSources, options, isa).run(*model, kSources) == truth, true) << isa_name(isa);
    }
  }
}

// Rows that have ended are not computed any more.
TEST(Generator, OnlyLiveRowsAreDecoded) {
  const std::unique_ptr<Model> model = std::move(models().front());
  SearchOptions options = options_with(1, 12);
  Generation all(*model, kSources, options);
  const auto texts = all.run(*model, kSources);
  // The first token of the second text becomes an end: its sample is over after one step.
  options.end_ids.push_back(texts[1].ids[0]);
  Generation fewer(*model, kSources, options);
  const auto shorter = fewer.run(*model, kSources);
  EXPECT_EQ(shorter[1].ids.size(), 1u);
  std::int64_t tokens = 0;
  for (const auto& text : shorter) tokens += static_cast<std::int64_t>(text.ids.size());
  EXPECT_EQ(fewer.generator.decoded_rows(), tokens);
  EXPECT_LT(fewer.generator.decoded_rows(), all.generator.decoded_rows());
}

TEST(Generator, AllocatesNothing) {
  const std::unique_ptr<Model> model = std::move(models().front());
  Generation generation(*model, kSources, options_with(3, 12));
  const PackedBatch packed = pack(*model, kSources);
  const Batch batch = packed.batch(generation.fields);
  seal_memory();  // from here on an allocation ends the program
  generation.generator.run(batch, generation.threads);
  open_memory();
}

// Counts tokens, and asks for an end after so many steps; 0: never.
class Watch final : public DecodingWatch {
 public:
  explicit Watch(std::int64_t until_signal) : until_signal_(until_signal) {}
  int decoded(std::int64_t rows, std::int64_t ended) noexcept override {
    tokens += rows;
    most_ended = std::max(most_ended, ended);
    return ++steps == until_signal_ ? 15 : 0;
  }
  std::int64_t steps = 0, tokens = 0, most_ended = 0;

 private:
  const std::int64_t until_signal_;
};

TEST(Generator, TellsHowFarItIsAndStopsAfterTheTokenWhenItIsAsked) {
  const std::unique_ptr<Model> model = std::move(models()[1]);
  SearchOptions options = options_with(1, 12);
  Generation generation(*model, kSources, options);
  const auto texts = generation.run(*model, kSources);
  options.end_ids.push_back(texts[1].ids[0]);  // the second sample ends first
  Generation watched(*model, kSources, options);
  const PackedBatch packed = pack(*model, kSources);
  Watch all(0), some(2);
  EXPECT_EQ(watched.generator.run(packed.batch(watched.fields), watched.threads, &all), 0);
  EXPECT_EQ(all.tokens, watched.generator.decoded_rows());
  EXPECT_GE(all.most_ended, 1);
  EXPECT_LT(all.most_ended, 3);
  EXPECT_EQ(watched.generator.run(packed.batch(watched.fields), watched.threads, &some), 15);
  EXPECT_EQ(some.steps, 2);
}

// Every cache has its bytes in the plan, and nothing lies over it (Session::plan checks that).
TEST(Generator, CachesAreStatesOfThePlan) {
  const std::unique_ptr<Model> model = std::move(models().front());
  const SearchOptions options = options_with(2, 12);
  Generation generation(*model, kSources, options);
  const StateSet& states = generation.session.states();
  std::int64_t source_rows = 0, own_rows = 0;
  for (int i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].cols, 2 * 16) << states[i].name;
    (states[i].name.find("EncDec") != std::string::npos ? source_rows : own_rows) += states[i].rows;
  }
  EXPECT_EQ(states.size(), 2 * 2);
  EXPECT_EQ(source_rows, 2 * 2 * 16);       // two layers and heads, the rows of the three sources
  EXPECT_EQ(own_rows, 2 * 2 * 3 * 2 * 12);  // two layers and heads, samples, beams, positions
}

}  // namespace
}  // namespace bascule::test
