// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/generate/generation_config.h"
#include "src/generate/generator.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/session/packed_batch.h"
#include "src/settings/command_line_keys.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kGenerateCommandLine[] = "command line";

// The ids have the prefix; none of an empty line.
struct Source {
  std::vector<std::int32_t> ids = {};
  std::string where = {};
  bool is_cut = false;
};

struct Written {
  std::string text;
  std::int64_t tokens = 0;
  float score = 0.0f;
  bool is_cut = false;
};

// The folder's options with those of the command line over them.
SearchOptions options_of(const GenerateArguments& arguments, const ModelInputs& inputs) {
  const GenerationConfig config = read_generation_config(arguments.folder, inputs.texts[kMaxTexts - 1].vocabulary_size);
  for (const std::string& note : config.notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
  SearchOptions options = config.options;
  try {
    read_search_options(arguments.options, kGenerateCommandLine, &options);
    check_search_options(options, kGenerateCommandLine);
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, error.where(), error.problem(), error.what_to_do());
  }
  return options;
}

class GenerateCommand final : public TextCommand<Source> {
 public:
  GenerateCommand(const GenerateArguments& arguments, const Model& model, const RunInputs& run)
      : TextCommand(static_cast<std::size_t>(arguments.batch),
                    arguments.max_source_length > 0 ? arguments.max_source_length : run.max_source_length,
                    arguments.json),
        arguments_(arguments),
        precision_(read_number_type(arguments.precision)),
        model_(model),
        tokenizer_(load_tokenizer(arguments.folder)),
        decoder_(load_token_decoder(arguments.folder)),
        options_(options_of(arguments, model.inputs())),
        asked_(model, arguments.folder) {
    prefix_ = arguments.prefix ? *arguments.prefix : source_prefix(arguments.folder, run, "; --prefix names another");
    if (first_invalid_utf8(prefix_) < prefix_.size())
      throw Error(ErrorKind::kSettings, "--prefix", "is not UTF-8", "write it in UTF-8");
  }

 private:
  struct Sizes {
    std::int64_t max_length, beams, batch, longest;
  };

  BatchCounts bounds_of(const Sizes& sizes) const {
    return AskedModel::bounds_of(asked_.fields(), sizes.batch, sizes.batch * sizes.longest, sizes.longest);
  }

  void plan(std::size_t texts, std::int64_t, std::int64_t longest) override {
    const Sizes sizes = {options_.max_length, options_.num_beams,
                         std::min(arguments_.batch, static_cast<std::int64_t>(texts)), longest};
    refuse_too_large(sizes);
    const RecordedGeneration recorded =
        record_generation(&asked_.session(), model_, asked_.fields(), bounds_of(sizes), options_, precision_);
    generator_.emplace(recorded, options_, sizes.batch);
    asked_.load();
    generator_->seal_alone(asked_.session());
  }

  // Bytes that a process takes in all. Makes a plan, and allocates nothing of what is planned.
  std::size_t needed_with(const Sizes& sizes, Precision precision) const {
    SearchOptions options = options_;
    options.max_length = sizes.max_length;
    options.min_length = std::min(options.min_length, sizes.max_length);
    options.num_beams = sizes.beams;
    Session session;
    const RecordedGeneration recorded =
        record_generation(&session, model_, asked_.fields(), bounds_of(sizes), options, precision);
    return make_memory_plan(session.plan(asked_.threads().count()), kProgramBytes + kProcessBytes).peak_bytes() +
           Generator(recorded, options, sizes.batch).bytes();
  }

  // Caches grow with all four: texts together, their lengths, and beams. What is advised has been planned.
  void refuse_too_large(const Sizes& asked) const {
    const ProcessLimits limits = read_process_limits();
    const auto fits = [&](const Sizes& sizes) { return needed_with(sizes, precision_) <= limits.memory_bytes; };
    const std::size_t needed = needed_with(asked, precision_);
    if (needed <= limits.memory_bytes) return;
    // The largest that fits, the others being those of `sizes`; 0: none.
    const auto largest = [&](Sizes sizes, std::int64_t Sizes::*size) {
      std::int64_t fitting = 0, too_large = sizes.*size;
      while (fitting + 1 < too_large) {
        sizes.*size = fitting + (too_large - fitting) / 2;
        (fits(sizes) ? fitting : too_large) = sizes.*size;
      }
      return fitting;
    };
    // The command's own words for a limit of tokens, of which --max-length counts the start token too.
    const auto max_length = [&](std::int64_t length) {
      return arguments_.options.contains("max_new_tokens") ? "--max-new-tokens " + std::to_string(length - 1)
                                                           : "--max-length " + std::to_string(length);
    };
    std::vector<std::string> remedies;
    if (const std::int64_t length = largest(asked, &Sizes::max_length); length > 1)
      remedies.push_back(max_length(length));
    for (const auto& [option, size] : {std::pair{"--num-beams ", &Sizes::beams},
                                       {"--batch ", &Sizes::batch},
                                       {"--max-source-length ", &Sizes::longest}}) {
      if (const std::int64_t most = largest(asked, size); most > 0) remedies.push_back(option + std::to_string(most));
    }
    if (precision_ == Precision::kFloat32 && needed_with(asked, Precision::kBf16) <= limits.memory_bytes)
      remedies.push_back("--precision bf16");
    std::string advice = or_list(remedies) + " would fit";
    if (remedies.empty()) {
      const Sizes one = {asked.max_length, 1, 1, asked.longest};
      const std::int64_t length = fits(one) ? asked.max_length : largest(one, &Sizes::max_length);
      advice = length > 1 ? "--num-beams 1, --batch 1 and " + max_length(length) + " would fit together"
                          : "the model is too large: one token of one text needs " +
                                std::string(readable_bytes(needed_with({2, 1, 1, 1}, precision_)).c_str());
    }
    throw Error(ErrorKind::kMemory, kGenerateCommandLine,
                "needs " + std::string(readable_bytes(needed).c_str()) + ", and " + limits.memory_owner + " has " +
                    readable_bytes(limits.memory_bytes).c_str(),
                advice);
  }

  // Says when it is cut. An empty line gives an empty line.
  Source encode(const std::string& text, const std::string& where) const override {
    if (text.empty()) return {};
    check_utf8(text, where);
    try {
      std::vector<std::int32_t> ids = tokenizer_->encode(prefix_ + text);
      if (static_cast<std::int64_t>(ids.size()) <= longest()) return {std::move(ids), where, false};
      std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %lld\n", where.c_str(), ids.size(),
                   static_cast<long long>(longest()));
      return {tokenizer_->encode(prefix_ + text, longest()), where, true};
    } catch (const Error& error) {
      throw Error(ErrorKind::kData, where, error.problem(), error.what_to_do());
    }
  }

  // The answer of a sample of the batch. Says when it is cut.
  Written written_of(std::int64_t sample, const std::string& where) const {
    const Span<const std::int32_t> ids = generator_->search().generated(sample);
    const auto is_end = [&](std::int32_t id) {
      return std::find(options_.end_ids.begin(), options_.end_ids.end(), id) != options_.end_ids.end();
    };
    const bool is_cut = ids.empty() || !is_end(ids[ids.size() - 1]);
    if (is_cut) {
      std::fprintf(stderr, "bascule: %s: the generated text is cut at %s; raise %s\n", where.c_str(),
                   count_of(ids.size(), "token").c_str(),
                   arguments_.options.contains("max_length") ? "--max-length" : "--max-new-tokens");
    }
    return {decoder_->decode(ids), static_cast<std::int64_t>(ids.size()), generator_->search().score(sample), is_cut};
  }

  void answer(Span<const std::string> texts, Span<const Source> sources) override {
    std::vector<Source> asked;
    std::copy_if(sources.begin(), sources.end(), std::back_inserter(asked),
                 [](const Source& one) { return !one.ids.empty(); });
    if (!asked.empty()) {
      const PackedBatch packed(padded_texts(asked), model_.inputs(), false, "the text");
      generator_->run(packed.batch(asked_.fields()), asked_.threads());
      if (generator_->saw_not_finite()) asked_.refuse_not_finite();
    }
    std::int64_t sample = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Written written = sources[i].ids.empty() ? Written() : written_of(sample++, sources[i].where);
      if (!is_json()) {
        std::printf("%s\n", on_one_line(written.text).c_str());
        continue;
      }
      Json entry = {{"text", texts[i]},
                    {"source_cut", sources[i].is_cut},
                    {"generated", written.text},
                    {"tokens", written.tokens},
                    {"cut", written.is_cut}};
      if (options_.num_beams > 1) entry["score"] = written.score;
      add(std::move(entry));
    }
  }

  // Line breaks within what was written would look like further answers.
  static std::string on_one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  const GenerateArguments& arguments_;
  const Precision precision_;
  const Model& model_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::unique_ptr<const TokenDecoder> decoder_;
  const SearchOptions options_;
  AskedModel asked_;
  std::string prefix_;
  std::optional<Generator> generator_;
};

}  // namespace

int generate_command(const GenerateArguments& arguments) {
  const std::unique_ptr<Model> model = open_finished_model(arguments.folder, "generate");
  return GenerateCommand(arguments, *model, read_run_inputs(arguments.folder))
      .run(arguments.texts, are_lines_of_input(arguments.texts));
}

}  // namespace bascule
