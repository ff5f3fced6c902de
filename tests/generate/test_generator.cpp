// SPDX-License-Identifier: Apache-2.0
// Texts of the small models of the families, with random weights: what their bits do not depend on.
#include "src/generate/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
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

// No token comes twice: random weights would repeat one, and attention to equal tokens gives the same whatever it
// reads.
SearchOptions options_with(std::int64_t num_beams, std::int64_t max_length) {
  SearchOptions options;
  options.vocabulary_size = kVocabulary;
  options.num_beams = num_beams;
  options.max_length = max_length;
  options.end_ids = {kEnd};
  options.no_repeat_ngram_size = 1;
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
             Isa isa = isas().front(), int thread_count = 1, std::int64_t slots = 0)
      : fields(model.fields({})),
        threads(thread_count, false),
        recorded(record_generation(&session, model, fields, pack(model, sources).counts(fields), options,
                                   Precision::kFloat32, {}, slots)),
        generator(recorded, options, recorded.slots) {
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

// The rows that a generation decodes: which ids each has, and the logits that it gets.
class DecodedRows final : public DecodingWatch {
 public:
  struct Row {
    std::size_t sample;
    Ids ids;  // from the start token on
    std::vector<float> logits;
  };

  DecodedRows(const Generation& generation, std::int64_t samples, const SearchOptions& options)
      : generation_(generation) {
    for (std::int64_t s = 0; s < samples; ++s) {
      rows.push_back({static_cast<std::size_t>(s), {options.start_id}, {}});
      written_[{static_cast<std::int32_t>(s * options.num_beams), 0}] = options.start_id;
    }
  }

  // The rows listed last have their logits now, and the search wants the next ones.
  int decoded(std::int64_t count, std::int64_t) noexcept override {
    const float* const logits = generation_.session.tape(generation_.recorded.decode).at(generation_.recorded.logits);
    for (std::int64_t r = 0; r < count; ++r)
      rows[rows.size() - static_cast<std::size_t>(count - r)].logits.assign(logits + r * kVocabulary,
                                                                            logits + (r + 1) * kVocabulary);
    const TokenSearch& search = generation_.generator.search();
    for (std::int64_t r = 0; r < search.rows(); ++r) {
      const std::size_t row = static_cast<std::size_t>(r);
      const std::int32_t slot = search.slots()[row], *const history = search.history(r);
      Ids ids;
      for (std::int64_t p = 0; p < search.position(r); ++p) {
        ids.push_back(written_.at({history[p], p}));
        have_moved = have_moved || history[p] != slot;
      }
      ids.push_back(search.tokens()[row]);
      written_[{slot, search.position(r)}] = ids.back();
      rows.push_back({static_cast<std::size_t>(search.samples()[row]), ids, {}});
    }
    return 0;
  }

  std::vector<Row> rows;
  bool have_moved = false;  // whether a beam goes on from one in another slot

 private:
  const Generation& generation_;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> written_;  // by slot and position: the token
};

// The logits behind each row's last token, of one pass over all its tokens.
std::vector<std::vector<float>> logits_of_whole_rows(const Model& model, const Fields& fields,
                                                     const std::vector<DecodedRows::Row>& rows, Isa isa) {
  std::vector<Ids> sources, targets;
  for (const DecodedRows::Row& row : rows) {
    sources.push_back(kSources[row.sample]);
    targets.emplace_back(row.ids.begin() + 1, row.ids.end());
    targets.back().push_back(kEnd);  // a decoder reads the start token and all targets but the last
  }
  Session session;
  const PackedBatch packed = pack(model, sources, targets);
  Graph& graph = session.add_graph(packed.counts(fields), fields);
  const Recording recording = model.record(graph, Use::kReference, {});
  session.seal_alone(kernels_for(isa), 1);
  Threads threads(1, false);
  StartWork work;
  initialise_parameters(&work, session.parameter_memory(), 5);
  work.run(threads);
  Replay replay;
  replay.batch = packed.batch(fields);
  session.tape(0).replay(threads, replay);
  const auto output = std::find_if(recording.reference.begin(), recording.reference.end(),
                                   [](const ReferenceOutput& one) { return one.name == "logits"; });
  const float* next = session.tape(0).at(output->tensors.front());
  std::vector<std::vector<float>> logits;
  for (const Ids& target : targets) {
    next += static_cast<std::int64_t>(target.size()) * kVocabulary;
    logits.emplace_back(next - kVocabulary, next);
  }
  return logits;
}

// A decoder with caches computes what one pass over the whole prefix does, whichever beams a row went on from.
TEST(Generator, LogitsOfAStepHaveTheBitsOfOnePassOverThePrefix) {
  for (const std::unique_ptr<Model>& model : models()) {
    for (const std::int64_t beams : {1, 4}) {
      for (const Isa isa : isas()) {
        SearchOptions options = options_with(beams, 14);
        options.min_length = options.max_length;  // no row ends
        Generation generation(*model, kSources, options, isa);
        DecodedRows decoded(generation, static_cast<std::int64_t>(kSources.size()), options);
        const PackedBatch packed = pack(*model, kSources);
        generation.generator.run(packed.batch(generation.fields), generation.threads, &decoded);
        const auto whole = logits_of_whole_rows(*model, generation.fields, decoded.rows, isa);
        ASSERT_EQ(decoded.rows.size(), kSources.size() * static_cast<std::size_t>(1 + 12 * beams));
        for (std::size_t r = 0; r < whole.size(); ++r) {
          const DecodedRows::Row& row = decoded.rows[r];
          EXPECT_EQ(std::memcmp(row.logits.data(), whole[r].data(), kVocabulary * sizeof(float)), 0)
              << isa_name(isa) << ", beams " << beams << ", sample " << row.sample << ", ids " << row.ids.size();
        }
        EXPECT_EQ(decoded.have_moved, beams > 1);
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

// Two slots: each sample joins when one is free, one leaves early, and one has fewer tokens; lengths of log p count.
TEST(Generator, ASampleThatComesWhileOthersAreWrittenWritesWhatItWritesAlone) {
  for (const std::unique_ptr<Model>& model : models()) {
    for (const std::int64_t beams : {1, 3}) {
      const SearchOptions options = options_with(beams, 12);
      const auto alone = Generation(*model, kSources, options).run(*model, kSources);
      SearchOptions short_options = options;
      short_options.max_length = 5;
      const auto cut = Generation(*model, kSources, short_options).run(*model, kSources);
      Generation generation(*model, kSources, options, isas().front(), 2, 2);
      Generator& generator = generation.generator;
      const auto join = [&](std::size_t source, std::int64_t slot, std::int64_t most) {
        const PackedBatch packed = pack(*model, {kSources[source]});
        const Generator::Joining joining = {slot, most, beams == 1};
        generator.join(packed.batch(generation.fields), {&joining, 1}, generation.threads);
      };
      const auto end = [&](std::int64_t slot) {
        while (!generator.search().has_ended(slot)) generator.step(generation.threads);
        const Span<const std::int32_t> ids = generator.search().generated(slot);
        EXPECT_TRUE(generator.is_finite(slot));
        return Generation::Text{Ids(ids.begin(), ids.end()), generator.search().score(slot)};
      };
      generator.open();
      join(0, 1, 12);
      generator.step(generation.threads);
      generator.step(generation.threads);
      join(1, 0, 12);
      generator.step(generation.threads);
      generator.leave(0);
      join(2, 0, 5);
      EXPECT_EQ(end(0) == cut[2], true) << beams;
      join(1, 0, 12);
      EXPECT_EQ(end(1) == alone[0], true) << beams;
      EXPECT_EQ(end(0) == alone[1], true) << beams;
      for (std::size_t i = 0; beams == 1 && i < alone[1].ids.size(); ++i) {
        EXPECT_LT(generator.logs(0)[i], 0.0f);
        EXPECT_GT(generator.logs(0)[i], -20.0f);
      }
    }
  }
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
