// SPDX-License-Identifier: Apache-2.0
#include "src/commands/check_outputs.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/files/input_file.h"
#include "src/index/data_files.h"
#include "src/index/glob.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

// Beside those that a training run writes: of models, of runs that draw, and hidden ones.
constexpr const char* kOtherFiles[] = {"model-*-of-*.safetensors",
                                       "model*.safetensors.index.json",
                                       "pytorch_model*.bin",
                                       "pytorch_model.bin.index.json",
                                       "model_index.json",
                                       "spiece.model",
                                       "sentencepiece.bpe.model",
                                       "diffusion_pytorch_model*.safetensors",
                                       "images.jsonl",
                                       "[0-9][0-9][0-9][0-9][0-9]*.png",
                                       "tensor_hashes.bin.*",
                                       ".tokens-*",
                                       ".mlflow-run"};
constexpr std::string_view kDefaultPage = "search.html";

template <std::size_t N>
bool is_one_of(const std::string& name, const char* const (&names)[N]) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* one) { return matches_glob(one, name); });
}

bool is_ours(const std::string& name) {
  return name != kDefaultPage &&
         (is_one_of(name, kResultFiles) || is_one_of(name, kModelAndStateFiles) || is_one_of(name, kTokenizerFiles) ||
          is_one_of(name, kPreprocessorFiles) || is_one_of(name, kGenerationFiles) || is_one_of(name, kSentenceFiles) ||
          is_one_of(name, kOtherFiles));
}

bool is_folder_of_run(const std::string& name) { return checkpoint_step(name) || is_one_of(name, kRunFolders); }

fs::path canonical(const std::string& path) {
  std::error_code failed;
  fs::path found = fs::weakly_canonical(fs::absolute(path, failed), failed);
  return failed ? fs::path(path).lexically_normal() : found;
}

// Whether two outputs are one file, or will be.
bool is_same(const std::string& a, const std::string& b) {
  std::error_code failed;
  const bool is_one = fs::equivalent(a, b, failed);
  return is_one || canonical(a) == canonical(b);
}

bool lies_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Whether the output is, or would become, a file that belongs to a model or a run.
bool belongs_to(const std::string& folder, const std::string& output) {
  const fs::path root = canonical(folder), path = canonical(output);
  if (path.parent_path() == root && is_ours(path.filename().string())) return true;
  for (const std::string& name : names_in(root.string())) {
    const std::string entry = root / name;
    std::error_code ignored;
    if (is_folder_of_run(name) && is_folder(entry)) {
      if (lies_below(path, canonical(entry))) return true;
    } else if (is_ours(name) && fs::equivalent(entry, output, ignored)) {
      return true;
    }
  }
  return false;
}

[[noreturn]] void refuse(const OutputOption& output, const std::string& what) {
  throw Error(ErrorKind::kSettings, output.option, output.path + " is " + what, "choose another file");
}

}  // namespace

CommandReads named_by_settings(const std::string& settings_file, const Settings& settings) {
  const std::string& model = settings.model.model_name_or_path.resolved;
  CommandReads reads;
  reads.files = {{settings_file, "the settings file"},
                 {settings.distributed.hostfile.resolved, "the file of distributed.hostfile"},
                 {settings.draw.prompts_file.resolved, "the file of draw.prompts_file"},
                 {settings.draw.latents_file.resolved, "the file of draw.latents_file"}};
  reads.folders = {model, settings.model.tokenizer_name.resolved, settings.run.output_dir.resolved,
                   settings.run.resume_checkpoint.resolved};
  if (settings.draw.is_given) reads.pipeline = model;
  return reads;
}

bool is_any_there(const std::vector<OutputOption>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const OutputOption& output) { return !output.path.empty() && is_there(output.path); });
}

void check_outputs(const std::vector<OutputOption>& outputs, const CommandReads& reads) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputOption& output = outputs[i];
    if (output.path.empty()) continue;
    std::error_code ignored;
    for (const ReadFile& file : reads.files) {
      if (fs::equivalent(output.path, file.path, ignored)) refuse(output, file.what);
    }
    for (const std::string& folder : reads.folders) {
      if (!folder.empty() && belongs_to(folder, output.path))
        refuse(output, "a file of the model or the run in " + folder);
    }
    if (!reads.pipeline.empty() && lies_below(canonical(output.path), canonical(reads.pipeline)))
      refuse(output, "in the folder of the pipeline");
    for (std::size_t other = 0; other < i; ++other) {
      if (!outputs[other].path.empty() && is_same(output.path, outputs[other].path))
        refuse(output, std::string("the file of ") + outputs[other].option + " too");
    }
  }
}

namespace {

constexpr char kSums[] = "/SHA256SUMS";
constexpr std::size_t kDigits = 64, kPathAt = kDigits + 2;  // "<digits>  <path>"

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::kNotAsRecorded, file, what, "install the tree again");
}

}  // namespace

void check_tree(const std::string& folder) {
  if (!is_there(folder + kSums)) return;
  const std::string sums = text_of_file(folder + kSums);
  for (std::string_view left = sums; !left.empty();) {
    const std::size_t end = left.find('\n');
    if (end == std::string_view::npos || end <= kPathAt || left.substr(kDigits, 2) != "  ")
      throw Error(ErrorKind::kData, folder + kSums, "is not a list of SHA-256 sums", "install the tree again");
    const std::string path = folder + "/" + std::string(left.substr(kPathAt, end - kPathAt));
    if (!is_there(path)) refuse(path, "is missing, but SHA256SUMS lists it");
    if (sha256_of_file(path) != left.substr(0, kDigits)) refuse(path, "is not the file that SHA256SUMS lists");
    left.remove_prefix(end + 1);
  }
}

}  // namespace bascule
