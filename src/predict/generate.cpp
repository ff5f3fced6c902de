// SPDX-License-Identifier: Apache-2.0
#include "src/predict/generate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/generate/generation_config.h"
#include "src/generate/generator.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/predict/answer_document.h"
#include "src/predict/finished_model.h"
#include "src/predict/input_lines.h"
#include "src/records/readable.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"
#include "src/settings/number_type.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kCommandLine[] = "command line";

struct Written {
  std::string text;
  std::int64_t tokens = 0;
  float score = 0.0f;
};

// The folder's options with those of the command line over them.
SearchOptions options_of(const GenerateArguments& arguments, const ModelInputs& inputs) {
  const GenerationConfig config = read_generation_config(arguments.folder, inputs.texts[kMaxTexts - 1].vocabulary_size);
  for (const std::string& note : config.notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
  SearchOptions options = config.options;
  try {
    read_search_options(arguments.options, kCommandLine, &options);
    check_search_options(options, kCommandLine);
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, error.where(), error.problem(), error.what_to_do());
  }
  return options;
}

// The prefix of each text: that of the command line, of the run, or of config.json, which is told.
std::string prefix_of(const GenerateArguments& arguments, const RunInputs& run) {
  if (arguments.prefix) return *arguments.prefix;
  if (run.source_prefix) return *run.source_prefix;
  const std::string path = arguments.folder + "/config.json";
  const Json config = read_json_file(path);
  const Json* const tasks = find_member(config, "task_specific_params", path);
  const Json* const task = tasks == nullptr ? nullptr : find_member(*tasks, "summarization", path);
  std::string prefix = task == nullptr ? "" : get_string(*task, "prefix", path, "");
  if (!prefix.empty()) {
    std::fprintf(stderr, "bascule: prefix \"%s\", of task_specific_params in config.json; --prefix names another\n",
                 prefix.c_str());
  }
  return prefix;
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
    constexpr std::size_t kProgramBytes = std::size_t{48} << 20;
    return make_memory_plan(session.plan(threads), kProgramBytes).peak_bytes() +
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
    prefix_ = prefix_of(arguments, run);
    if (first_invalid_utf8(prefix_) < prefix_.size())
      throw Error(ErrorKind::kSettings, "--prefix", "is not UTF-8", "write it in UTF-8");
    longest_ = arguments.max_source_length > 0 ? arguments.max_source_length : run.max_source_length;
  }

  void write_arguments() {
    std::vector<std::vector<std::int32_t>> sources;
    for (const std::string& text : arguments_.texts) sources.push_back(encode(text, sources.size(), "text "));
    std::int64_t longest = 1;
    for (const auto& ids : sources) longest = std::max(longest, static_cast<std::int64_t>(ids.size()));
    plan(std::min(arguments_.batch, static_cast<std::int64_t>(sources.size())), longest);
    for (std::size_t first = 0; first < sources.size(); first += static_cast<std::size_t>(arguments_.batch)) {
      const std::size_t end = std::min(sources.size(), first + static_cast<std::size_t>(arguments_.batch));
      write({arguments_.texts.begin() + static_cast<std::ptrdiff_t>(first),
             arguments_.texts.begin() + static_cast<std::ptrdiff_t>(end)},
            {sources.begin() + static_cast<std::ptrdiff_t>(first), sources.begin() + static_cast<std::ptrdiff_t>(end)});
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
      std::vector<std::vector<std::int32_t>> sources;
      std::optional<Error> refused;  // after the answers to the lines before it
      for (const std::string& text : texts) {
        try {
          sources.push_back(encode(text, read++, "standard input: line "));
        } catch (const Error& error) {
          refused = error;
          break;
        }
      }
      write({texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(sources.size())}, sources);
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

  // Caches grow with all four: texts together, their lengths, and beams.
  void refuse_too_large(std::int64_t batch, std::int64_t longest) const {
    const ProcessLimits limits = read_process_limits();
    const auto needs = [&](std::int64_t max_length) {
      SearchOptions options = options_;
      options.max_length = max_length;
      options.min_length = std::min(options.min_length, max_length);
      return Writer::planned_bytes(*model_, options, batch, longest, precision_);
    };
    const std::size_t needed = needs(options_.max_length);
    if (needed <= limits.memory_bytes) return;
    std::int64_t fits = 0, too_long = options_.max_length;
    while (fits + 1 < too_long) {
      const std::int64_t middle = fits + (too_long - fits) / 2;
      (needs(middle) <= limits.memory_bytes ? fits : too_long) = middle;
    }
    throw Error(ErrorKind::kMemory, kCommandLine,
                "needs " + std::string(readable_bytes(needed).c_str()) + ", and " + limits.memory_owner + " has " +
                    readable_bytes(limits.memory_bytes).c_str(),
                fits > 0
                    ? "with --max-length " + std::to_string(fits) + " it fits; so may fewer beams or a smaller --batch"
                    : "use fewer beams, a smaller --batch or a shorter --max-source-length");
  }

  // The ids of a source with its prefix; none of an empty line. Says when it is cut.
  std::vector<std::int32_t> encode(const std::string& text, std::size_t number, const char* where) const {
    const std::string name = where + std::to_string(number + 1);
    if (text.empty()) return {};
    if (const std::size_t byte = first_invalid_utf8(text); byte < text.size())
      throw Error(ErrorKind::kData, name, "byte " + std::to_string(byte) + " is not UTF-8", "write it in UTF-8");
    try {
      std::vector<std::int32_t> ids = tokenizer_->encode(prefix_ + text);
      if (static_cast<std::int64_t>(ids.size()) <= longest_) return ids;
      std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %lld\n", name.c_str(), ids.size(),
                   static_cast<long long>(longest_));
      return tokenizer_->encode(prefix_ + text, longest_);
    } catch (const Error& error) {
      throw Error(ErrorKind::kData, name, error.problem(), error.what_to_do());
    }
  }

  void write(const std::vector<std::string>& texts, const std::vector<std::vector<std::int32_t>>& sources) {
    std::vector<std::vector<std::int32_t>> asked;
    for (const auto& ids : sources) {
      if (!ids.empty()) asked.push_back(ids);
    }
    if (!asked.empty()) writer_->write(asked);
    std::int64_t sample = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Written written;
      if (!sources[i].empty()) {
        const Span<const std::int32_t> ids = writer_->search().generated(sample);
        written = {decoder_->decode(ids), static_cast<std::int64_t>(ids.size()), writer_->search().score(sample)};
        ++sample;
      }
      if (arguments_.json) {
        Json entry = {{"text", texts[i]}, {"generated", written.text}, {"tokens", written.tokens}};
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
