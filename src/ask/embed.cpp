// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/ask/text_embedder.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"
#include "src/machine/process_limits.h"
#include "src/runtime/choose_isa.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

// Lines that are read before the model works on them; an answer waits for no more of them than are there.
constexpr std::size_t kLinesAtOnce = 256;
constexpr char kLineOfInput[] = "standard input: line ";

class EmbedCommand {
 public:
  explicit EmbedCommand(const EmbedArguments& arguments)
      : arguments_(arguments),
        embedder_(arguments.folder, choose_isa("auto"), threads_within(read_process_limits(), usable_cores(), 1),
                  read_number_type(arguments.precision)),
        prompt_(prompt_named(embedder_.sentence(), arguments.prompt ? &*arguments.prompt : nullptr)) {
    std::fprintf(stderr, "bascule: embed: %s\n", sentence_facts(embedder_.sentence()).c_str());
    if (!prompt_.empty())
      std::fprintf(stderr, "bascule: embed: before each text: \"%s\"\n", printable_line(prompt_).c_str());
  }

  void embed_arguments() {
    for (const std::string& text : arguments_.texts) say_if_file(text);
    embed_all(arguments_.texts, "text ");
  }

  // All before the first vector, so that what the file needs is planned.
  void embed_lines_into_file() {
    InputLines lines(STDIN_FILENO);
    std::vector<std::string> texts;
    for (;;) {
      std::vector<std::string> more = lines.read(kLinesAtOnce, kMostBytesOfALine);
      if (more.empty()) break;
      std::move(more.begin(), more.end(), std::back_inserter(texts));
    }
    if (texts.empty()) throw Error(ErrorKind::kData, "standard input", "has no lines", "write a text on each line");
    embed_all(texts, kLineOfInput);
  }

  void embed_lines() {
    plan(std::max(kTokensAtOnce, embedder_.sentence().max_seq_length), kLinesAtOnce);
    InputLines lines(STDIN_FILENO);
    for (std::size_t read = 0;;) {
      std::vector<std::string> texts = lines.read(kLinesAtOnce, kMostBytesOfALine);
      if (texts.empty()) return;
      std::vector<TextTokens> tokens;
      std::optional<Error> refused;  // after the answers to the lines before it
      for (const std::string& text : texts) {
        try {
          tokens.push_back(embedder_.encode(text, prompt_, kLineOfInput + std::to_string(++read)));
        } catch (const Error& error) {
          refused = error;
          break;
        }
      }
      texts.resize(tokens.size());
      answer(texts, tokens);
      if (std::fflush(stdout) != 0) return;  // nobody reads on, or the disk is full, which main() says
      if (refused) throw Error(*refused);
    }
  }

  // Counts, and with --output the file.
  void finish() {
    if (cut_ > 0) {
      std::fprintf(stderr, "bascule: embed: %zu of %s had more than %lld tokens and %s cut\n", cut_,
                   count_of(embedded_, "text").c_str(), static_cast<long long>(embedder_.sentence().max_seq_length),
                   cut_ == 1 ? "was" : "were");
    }
    if (arguments_.output.empty()) return;
    TensorToWrite tensor;
    tensor.name = "embeddings";
    tensor.shape = {static_cast<std::int64_t>(embedded_), embedder_.width()};
    tensor.data = kept_.data();
    write(SafetensorsWritePlan({tensor}));
    std::fprintf(stderr, "bascule: embed: %s of %s in %s\n", count_of(embedded_, "vector").c_str(),
                 count_of(embedder_.width(), "number").c_str(), arguments_.output.c_str());
  }

  const AnswerDocument& document() const { return document_; }

 private:
  void embed_all(const std::vector<std::string>& texts, const char* where) {
    std::vector<TextTokens> tokens;
    std::int64_t all = 0, longest = 0;
    for (const std::string& text : texts) {
      tokens.push_back(embedder_.encode(text, prompt_, where + std::to_string(tokens.size() + 1)));
      const std::int64_t count = static_cast<std::int64_t>(tokens.back().ids.size());
      all += count;
      longest = std::max(longest, count);
    }
    plan(std::max(longest, std::min(all, kTokensAtOnce)), tokens.size());
    answer(texts, tokens);
  }

  void plan(std::int64_t tokens, std::size_t texts) {
    embedder_.plan(tokens, texts * static_cast<std::size_t>(embedder_.width()) * sizeof(float));
  }

  void answer(const std::vector<std::string>& texts, const std::vector<TextTokens>& tokens) {
    const std::size_t width = static_cast<std::size_t>(embedder_.width());
    const std::size_t first = arguments_.output.empty() ? 0 : kept_.size();
    kept_.resize(first + texts.size() * width);
    embedder_.embed(tokens, kept_.data() + first);
    for (std::size_t i = 0; i < texts.size(); ++i) say(texts[i], tokens[i], kept_.data() + first + i * width);
    embedded_ += texts.size();
  }

  void say(const std::string& text, const TextTokens& tokens, const float* vector) {
    const std::size_t width = static_cast<std::size_t>(embedder_.width());
    if (tokens.is_cut()) ++cut_;
    if (arguments_.json) {
      Json entry = {{"text", text}, {"tokens", tokens.ids.size()}, {"cut", tokens.is_cut()}};
      if (arguments_.output.empty()) {
        Json numbers = Json::array();
        for (std::size_t i = 0; i < width; ++i) numbers.push_back(as_written(vector[i]));
        entry["embedding"] = std::move(numbers);
      }
      document_.add(std::move(entry));
    } else if (arguments_.output.empty()) {
      for (std::size_t i = 0; i < width; ++i) std::printf("%s%.9g", i == 0 ? "" : " ", static_cast<double>(vector[i]));
      std::printf("\n");
    }
  }

  // Whole or not at all.
  void write(const SafetensorsWritePlan& plan) const {
    const std::filesystem::path path = absolute_path(arguments_.output);
    const std::string folder = path.parent_path().string(), name = path.filename().string();
    const std::string beside = folder + "/" + kTemporaryPrefix + name;
    Status status = plan.write(beside.c_str());
    if (status.ok()) status = publish_file(folder.c_str(), name);
    if (!status.ok()) ::unlink(beside.c_str());
    throw_if_failed(status, arguments_.output, "cannot be written");
  }

  const EmbedArguments& arguments_;
  TextEmbedder embedder_;
  const std::string prompt_;
  std::vector<float> kept_;  // with --output all vectors, else those of the last answer
  std::size_t embedded_ = 0, cut_ = 0;
  AnswerDocument document_;
};

}  // namespace

int embed_command(const EmbedArguments& arguments) {
  EmbedCommand command(arguments);
  return end_with_document(
      [&] {
        if (arguments.texts != std::vector<std::string>{"-"}) {
          command.embed_arguments();
        } else if (arguments.output.empty()) {
          command.embed_lines();
        } else {
          command.embed_lines_into_file();
        }
        command.finish();
      },
      command.document(), arguments.json);
}

}  // namespace bascule
