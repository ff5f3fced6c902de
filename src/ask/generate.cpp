// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/utf8.h"
#include "src/generate/generation_config.h"
#include "src/generate/generator.h"
#include "src/json/json.h"
#include "src/logs/readable.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"
#include "src/settings/command_line_keys.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kGenerateCommandLine[] = "command line";

constexpr char kText[] = "text ", kLine[] = "standard input: line ";

struct Source {
  std::vector<std::int32_t> ids;  // with the prefix; none of an empty line
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

// A model, planned for a batch of so many texts of so many tokens, which generates.
class Writer {
 public:
  Writer(const std::string& folder, const Model& model, const SearchOptions& options, std::int64_t batch,
         std::int64_t longest, Precision precision)
      : folder_(folder),
        model_(model),
        fields_(model.fields({})),
        threads_(threads_within(read_process_limits(), usable_cores(), 1), false),
        recorded_(record_generation(&session_, model, fields_, bounds_of(fields_, batch, longest), options, precision)),
        generator_(recorded_, options, batch) {
    seal_with_weights(&session_, model, folder, choose_isa("auto"), threads_);
    generator_.seal_alone(session_);
  }

  // Bytes that such a writer takes in all. Makes a plan, and allocates nothing of what is planned.
  static std::size_t planned_bytes(const Model& model, const SearchOptions& options, std::int64_t batch,
                                   std::int64_t longest, Precision precision) {
    const Fields fields = model.fields({});
    Session session;
    const RecordedGeneration recorded =
        record_generation(&session, model, fields, bounds_of(fields, batch, longest), options, precision);
    const int threads = threads_within(read_process_limits(), usable_cores(), 1);
    return make_memory_plan(session.plan(threads), kProgramBytes + kProcessBytes).peak_bytes() +
           Generator(recorded, options, batch).bytes();
  }

  // sources: at most `batch`, each of 1 to `longest` ids.
  void write(const std::vector<std::vector<std::int32_t>>& sources) {
    PaddedBatch padded;
    padded.samples = static_cast<std::int64_t>(sources.size());
    PaddedText& text = padded.texts[0];
    for (const auto& ids : sources) text.length = std::max(text.length, static_cast<std::int64_t>(ids.size()));
    for (const auto& ids : sources) {
      for (std::int64_t t = 0; t < text.length; ++t) {
        const bool is_there = t < static_cast<std::int64_t>(ids.size());
        text.input_ids.push_back(is_there ? ids[static_cast<std::size_t>(t)] : 0);
        text.attention_mask.push_back(is_there ? 1 : 0);
      }
    }
    const PackedBatch packed(padded, model_.inputs(), false, "the text");
    generator_.run(packed.batch(fields_), threads_);
    if (generator_.saw_not_finite())
      throw Error(ErrorKind::kData, folder_, "the model's logits are not finite", "its weights may be damaged");
  }
  const TokenSearch& search() const { return generator_.search(); }

 private:
  static BatchCounts bounds_of(const Fields& fields, std::int64_t batch, std::int64_t longest) {
    BatchCounts bounds;
    bounds[kSamples] = batch;
    const Field& ids = fields[static_cast<std::size_t>(field_from(fields, FieldSource::kTokenIds))];
    bounds[ids.rows.stream] = batch * longest;
    bounds.longest[ids.rows.stream] = longest;
    return bounds;
  }

  const std::string folder_;
  const Model& model_;
  const Fields fields_;
  Session session_;
  Threads threads_;
  const RecordedGeneration recorded_;
  Generator generator_;
};

class GenerateCommand {
 public:
  explicit GenerateCommand(const GenerateArguments& arguments)
      : arguments_(arguments),
        precision_(read_number_type(arguments.precision)),
        model_(open_finished_model(arguments.folder, "generate")),
        tokenizer_(load_tokenizer(arguments.folder)),
        decoder_(load_token_decoder(arguments.folder)),
        options_(options_of(arguments, model_->inputs())) {
    const RunInputs run = read_run_inputs(arguments.folder);
    prefix_ = arguments.prefix ? *arguments.prefix : source_prefix(arguments.folder, run, "; --prefix names another");
    if (first_invalid_utf8(prefix_) < prefix_.size())
      throw Error(ErrorKind::kSettings, "--prefix", "is not UTF-8", "write it in UTF-8");
    longest_ = arguments.max_source_length > 0 ? arguments.max_source_length : run.max_source_length;
  }

  void write_arguments() {
    std::vector<Source> sources;
    for (const std::string& text : arguments_.texts) {
      say_if_file(text);
      sources.push_back(encode(text, kText, sources.size()));
    }
    std::int64_t longest = 1;
    for (const Source& one : sources) longest = std::max(longest, static_cast<std::int64_t>(one.ids.size()));
    plan(std::min(arguments_.batch, static_cast<std::int64_t>(sources.size())), longest);
    for (std::size_t first = 0; first < sources.size(); first += static_cast<std::size_t>(arguments_.batch)) {
      const std::size_t end = std::min(sources.size(), first + static_cast<std::size_t>(arguments_.batch));
      write({arguments_.texts.begin() + static_cast<std::ptrdiff_t>(first),
             arguments_.texts.begin() + static_cast<std::ptrdiff_t>(end)},
            {sources.begin() + static_cast<std::ptrdiff_t>(first), sources.begin() + static_cast<std::ptrdiff_t>(end)},
            kText, first);
    }
  }

  // A line that is empty gives an empty line.
  void write_lines() {
    plan(arguments_.batch, longest_);
    InputLines lines(STDIN_FILENO);
    std::size_t read = 0;
    for (;;) {
      const std::vector<std::string> texts = lines.read(static_cast<std::size_t>(arguments_.batch), kMostBytesOfALine);
      if (texts.empty()) return;
      std::vector<Source> sources;
      std::optional<Error> refused;  // after the answers to the lines before it
      for (const std::string& text : texts) {
        try {
          sources.push_back(encode(text, kLine, read + sources.size()));
        } catch (const Error& error) {
          refused = error;
          break;
        }
      }
      write({texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(sources.size())}, sources, kLine, read);
      read += sources.size();
      if (std::fflush(stdout) != 0) return;  // nobody reads on, or the disk is full, which main() says
      if (refused) throw Error(*refused);
    }
  }

  const AnswerDocument& document() const { return document_; }

 private:
  void plan(std::int64_t batch, std::int64_t longest) {
    refuse_too_large(batch, longest);
    writer_ = std::make_unique<Writer>(arguments_.folder, *model_, options_, batch, longest, precision_);
  }

  struct Sizes {
    std::int64_t max_length, beams, batch, longest;
  };

  std::size_t needed_with(const Sizes& sizes, Precision precision) const {
    SearchOptions options = options_;
    options.max_length = sizes.max_length;
    options.min_length = std::min(options.min_length, sizes.max_length);
    options.num_beams = sizes.beams;
    return Writer::planned_bytes(*model_, options, sizes.batch, sizes.longest, precision);
  }

  // Caches grow with all four: texts together, their lengths, and beams. What is advised has been planned.
  void refuse_too_large(std::int64_t batch, std::int64_t longest) const {
    const ProcessLimits limits = read_process_limits();
    const Sizes asked = {options_.max_length, options_.num_beams, batch, longest};
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
      const Sizes one = {asked.max_length, 1, 1, longest};
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

  // Says when it is cut.
  Source encode(const std::string& text, const char* where, std::size_t number) const {
    const std::string name = where + std::to_string(number + 1);
    if (text.empty()) return {};
    if (const std::size_t byte = first_invalid_utf8(text); byte < text.size())
      throw Error(ErrorKind::kData, name, "byte " + std::to_string(byte) + " is not UTF-8", "write it in UTF-8");
    try {
      std::vector<std::int32_t> ids = tokenizer_->encode(prefix_ + text);
      if (static_cast<std::int64_t>(ids.size()) <= longest_) return {std::move(ids), false};
      std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %lld\n", name.c_str(), ids.size(),
                   static_cast<long long>(longest_));
      return {tokenizer_->encode(prefix_ + text, longest_), true};
    } catch (const Error& error) {
      throw Error(ErrorKind::kData, name, error.problem(), error.what_to_do());
    }
  }

  // The answer for the text whose number is `number` + 1. Says when it is cut.
  Written written_of(std::int64_t sample, const char* where, std::size_t number) const {
    const Span<const std::int32_t> ids = writer_->search().generated(sample);
    const auto is_end = [&](std::int32_t id) {
      return std::find(options_.end_ids.begin(), options_.end_ids.end(), id) != options_.end_ids.end();
    };
    const bool is_cut = ids.empty() || !is_end(ids[ids.size() - 1]);
    if (is_cut) {
      std::fprintf(stderr, "bascule: %s%zu: the generated text is cut at %s; raise %s\n", where, number + 1,
                   count_of(ids.size(), "token").c_str(),
                   arguments_.options.contains("max_length") ? "--max-length" : "--max-new-tokens");
    }
    return {decoder_->decode(ids), static_cast<std::int64_t>(ids.size()), writer_->search().score(sample), is_cut};
  }

  // where, first: name the first of the texts.
  void write(const std::vector<std::string>& texts, const std::vector<Source>& sources, const char* where,
             std::size_t first) {
    std::vector<std::vector<std::int32_t>> asked;
    for (const Source& one : sources) {
      if (!one.ids.empty()) asked.push_back(one.ids);
    }
    if (!asked.empty()) writer_->write(asked);
    std::int64_t sample = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Written written;
      if (!sources[i].ids.empty()) written = written_of(sample++, where, first + i);
      if (arguments_.json) {
        Json entry = {{"text", texts[i]},
                      {"source_cut", sources[i].is_cut},
                      {"generated", written.text},
                      {"tokens", written.tokens},
                      {"cut", written.is_cut}};
        if (options_.num_beams > 1) entry["score"] = written.score;
        document_.add(std::move(entry));
      } else {
        std::printf("%s\n", on_one_line(written.text).c_str());
      }
    }
  }

  // Line breaks within what was written would look like further answers.
  static std::string on_one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  const GenerateArguments& arguments_;
  const Precision precision_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::unique_ptr<const TokenDecoder> decoder_;
  const SearchOptions options_;
  std::string prefix_;
  std::int64_t longest_ = 0;  // tokens of a source
  std::unique_ptr<Writer> writer_;
  AnswerDocument document_;
};

}  // namespace

int generate_command(const GenerateArguments& arguments) {
  GenerateCommand command(arguments);
  return end_with_document(
      [&] {
        if (arguments.texts == std::vector<std::string>{"-"}) {
          command.write_lines();
        } else {
          command.write_arguments();
        }
      },
      command.document(), arguments.json);
}

}  // namespace bascule
