// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/commands/check_outputs.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/pictures/picture_decoder.h"
#include "src/pictures/preprocessor.h"

namespace bascule {
namespace {

void check(const DecodeArguments& arguments) {
  const auto refuse = [](const char* option, const std::string& what, const std::string& what_to_do) {
    throw Error{ErrorKind::kSettings, option, what, what_to_do};
  };
  const std::int64_t most = media_engine_query(media_engine_builtin()).max_side;
  if (arguments.size < 1 || arguments.size > most) {
    refuse("--size", std::to_string(arguments.size) + " is out of range", "use 1 to " + std::to_string(most));
  }
  if (arguments.preprocessing != "" && arguments.preprocessing != "training" &&
      arguments.preprocessing != "processor") {
    refuse("--preprocessing", "\"" + arguments.preprocessing + "\" is not valid", "use training or processor");
  }
  if (arguments.mean.size() != 3) refuse("--mean", "needs three numbers", "give those of R, G and B: a,b,c");
  if (arguments.std.size() != 3) refuse("--std", "needs three numbers", "give those of R, G and B: a,b,c");
  for (const double mean : arguments.mean) {
    if (!std::isfinite(mean)) refuse("--mean", std::to_string(mean) + " is not finite", "");
  }
  for (const double std : arguments.std) {
    if (!(std > 0.0) || !std::isfinite(std)) refuse("--std", std::to_string(std) + " is not positive", "");
  }
  CommandReads reads;
  reads.folders = {arguments.model};
  for (const std::string& file : arguments.files) reads.files.push_back({file, "one of the pictures"});
  check_outputs({{"--output", arguments.output}}, reads);
  std::map<std::string, std::string> names;
  for (const std::string& file : arguments.files) {
    const std::string name = std::filesystem::path(file).filename().string();
    const auto [other, is_new] = names.emplace(name, file);
    if (!is_new) refuse("files", other->second + " and " + file + " have the same base name", "decode them separately");
  }
}

void print_line(const std::string& file, const PictureDecoder::Size& size, const std::string& error) {
  const auto member = [](const char* key, const Json& value) {
    return "\"" + std::string(key) + "\":" + json_text(value);
  };
  const std::string text = "{" + member("file", file) + "," + member("ok", error.empty()) + "," +
                           member("width", size.width > 0 ? Json(size.width) : Json()) + "," +
                           member("height", size.height > 0 ? Json(size.height) : Json()) + "," +
                           member("error", error.empty() ? Json() : Json(error)) + "}";
  std::printf("%s\n", text.c_str());
}

MediaSettings media_settings(const DecodeArguments& arguments) {
  if (!arguments.model.empty() && arguments.preprocessing.empty())
    return media_settings_of_model(arguments.model, arguments.size);
  const bool is_processor = arguments.preprocessing == "processor";
  const Preprocessing preprocessing = is_processor ? Preprocessing::kProcessor : Preprocessing::kTraining;
  if (!arguments.model.empty()) {
    const std::string config = arguments.model + "/config.json";
    const Family& family = std::filesystem::exists(config) ? family_of(config) : usual_family();
    if (family.needs_processor_file) require_statistics(arguments.model);
    return media_settings_of(arguments.model, preprocessing, arguments.size, family.image_processor,
                             family.processor_makes_squares);
  }
  MediaSettings settings = default_media_settings();
  settings.image_side = arguments.size;
  settings.preprocessing = preprocessing;
  std::copy_n(arguments.mean.begin(), 3, settings.mean);
  std::copy_n(arguments.std.begin(), 3, settings.std);
  return settings;
}

// Every head has the same side. Not every head fits every configuration, and not every family has a bare model.
std::int64_t side_of(const Family& family, const ModelSource& source) {
  for (const FamilyHead& head : family.heads) {
    try {
      return family.open(source, head.words.name)->inputs().image_side;
    } catch (const Error&) {
      continue;
    }
  }
  return family.open(source, kBareModel)->inputs().image_side;
}

}  // namespace

std::int64_t image_size_of(const std::string& model) {
  const ModelSource source{model + "/config.json", {}};
  const Family& family = family_of(source.config_path);
  const std::int64_t side = side_of(family, source);
  if (side < 1)
    throw Error{ErrorKind::kData, source.config_path, "the model reads no pictures",
                "name the folder of one that does"};
  return side;
}

int decode_command(const DecodeArguments& arguments) {
  check(arguments);
  PictureDecoder decoder(media_settings(arguments), arguments.raw);
  const std::vector<std::int64_t> shape = {3, arguments.size, arguments.size};
  std::vector<std::vector<float>> kept;
  std::vector<TensorToWrite> tensors;
  for (const std::string& file : arguments.files) {
    std::vector<float> pixels(static_cast<std::size_t>(element_count(shape)));
    PictureDecoder::Size size;
    const std::string error = decoder.decode(file, pixels.data(), &size);
    print_line(file, size, error);
    if (!error.empty()) {
      std::fprintf(stderr, "bascule: decode: %s: %s\n", file.c_str(), error.c_str());
      continue;
    }
    kept.push_back(std::move(pixels));
    TensorToWrite tensor;
    tensor.name = std::filesystem::path(file).filename().string();
    tensor.shape = shape;
    tensor.data = kept.back().data();
    tensors.push_back(std::move(tensor));
  }
  const bool all = tensors.size() == arguments.files.size();
  if (tensors.empty()) return exit_code(ErrorKind::kData);  // a file without tensors would be taken for a result
  const SafetensorsWritePlan plan(std::move(tensors));
  throw_if_failed(plan.write(arguments.output.c_str()), arguments.output, "cannot be written");
  return all ? 0 : exit_code(ErrorKind::kData);
}

}  // namespace bascule
