// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/ask/text_embedder.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

constexpr std::size_t kTextsTogether = 256;

class EmbedCommand final : public TextCommand<TextTokens> {
 public:
  EmbedCommand(const EmbedArguments& arguments, TextEmbedder* embedder)
      // A file has all or none: nothing is said before all are embedded.
      : TextCommand(arguments.output.empty() ? kTextsTogether : SIZE_MAX, embedder->sentence().max_seq_length,
                    arguments.json),
        arguments_(arguments),
        embedder_(*embedder),
        prompt_(prompt_named(embedder_.sentence(), arguments.prompt ? &*arguments.prompt : nullptr)) {
    std::fprintf(stderr, "bascule: embed: %s\n", sentence_facts(embedder_.sentence()).c_str());
    if (!prompt_.empty())
      std::fprintf(stderr, "bascule: embed: before each text: \"%s\"\n", printable_line(prompt_).c_str());
  }

 private:
  bool has_file() const { return !arguments_.output.empty(); }

  // So that what the file needs is planned.
  bool reads_ahead() const override { return has_file(); }

  TextTokens encode(const std::string& text, const std::string& where) const override {
    return embedder_.encode(text, prompt_, where);
  }

  void plan(std::size_t texts, std::int64_t ids, std::int64_t longest) override {
    const std::size_t kept = has_file() ? texts : std::min(texts, kTextsTogether);
    embedder_.plan(std::max(longest, std::min(ids, kTokensAtOnce)),
                   kept * static_cast<std::size_t>(embedder_.width()) * sizeof(float));
  }

  void answer(Span<const std::string> texts, Span<const TextTokens> tokens) override {
    const std::size_t width = static_cast<std::size_t>(embedder_.width()), first = has_file() ? kept_.size() : 0;
    kept_.resize(first + texts.size() * width);
    embedder_.embed(tokens, kept_.data() + first);
    for (std::size_t i = 0; i < texts.size(); ++i) say(texts[i], tokens[i], kept_.data() + first + i * width);
    embedded_ += texts.size();
  }

  void say(const std::string& text, const TextTokens& tokens, const float* vector) {
    const std::size_t width = static_cast<std::size_t>(embedder_.width());
    if (tokens.is_cut()) ++cut_;
    if (is_json()) {
      Json entry = {{"text", text}, {"tokens", tokens.ids.size()}, {"cut", tokens.is_cut()}};
      if (!has_file()) {
        Json numbers = Json::array();
        for (std::size_t i = 0; i < width; ++i) numbers.push_back(as_written(vector[i]));
        entry["embedding"] = std::move(numbers);
      }
      add(std::move(entry));
    } else if (!has_file()) {
      for (std::size_t i = 0; i < width; ++i) std::printf("%s%.9g", i == 0 ? "" : " ", static_cast<double>(vector[i]));
      std::printf("\n");
    }
  }

  // Counts, and with --output the file.
  void finish() override {
    if (cut_ > 0) {
      std::fprintf(stderr, "bascule: embed: %zu of %s had more than %lld tokens and %s cut\n", cut_,
                   count_of(embedded_, "text").c_str(), static_cast<long long>(embedder_.sentence().max_seq_length),
                   cut_ == 1 ? "was" : "were");
    }
    if (!has_file()) return;
    TensorToWrite tensor;
    tensor.name = "embeddings";
    tensor.shape = {static_cast<std::int64_t>(embedded_), embedder_.width()};
    tensor.data = kept_.data();
    write(SafetensorsWritePlan({tensor}));
    std::fprintf(stderr, "bascule: embed: %s of %s in %s\n", count_of(embedded_, "vector").c_str(),
                 count_of(embedder_.width(), "number").c_str(), arguments_.output.c_str());
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
  TextEmbedder& embedder_;
  const std::string prompt_;
  std::vector<float> kept_;  // with --output all vectors, else those of the last answer
  std::size_t embedded_ = 0, cut_ = 0;
};

}  // namespace

int embed_command(const EmbedArguments& arguments) {
  TextEmbedder embedder(arguments.folder, choose_isa("auto"), threads_of_process(),
                        read_number_type(arguments.precision));
  return EmbedCommand(arguments, &embedder).run(arguments.texts, are_lines_of_input(arguments.texts));
}

}  // namespace bascule
