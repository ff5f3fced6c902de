// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/preprocessor.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::int64_t kDefaultEdge = 288;           // of size and crop_size, where the file is silent
constexpr std::int64_t kDefaultSquare = 224;         // of a processor that makes squares
constexpr std::int64_t kMostEdge = 65536;            // the media engine's
constexpr std::int64_t kBilinear = 2, kBicubic = 3;  // PIL.Image.Resampling

// The processor's part of a file.
struct Source {
  std::string path;
  Json object;
  const char* advice = "change it, or use data.preprocessing = \"training\", which does not use the processor";

  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const {
    const Json* const found = object.find(key);
    const std::string value = found == nullptr ? " is missing" : " = " + json_text(*found);
    throw Error(ErrorKind::kData, path, key + value + ": " + allowed, advice);
  }
};

// As Transformers looks for it: a processor_config.json counts where it has an image processor inside.
bool find_source(const std::string& folder, Source* source) {
  source->path = folder + "/processor_config.json";
  if (std::filesystem::exists(source->path)) {
    const Json json = read_json_file(source->path);
    if (const Json* const nested = find_member(json, "image_processor", source->path)) {
      source->object = *nested;
      return true;
    }
  }
  source->path = folder + "/preprocessor_config.json";
  if (!std::filesystem::exists(source->path)) return false;
  source->object = read_json_file(source->path);
  return true;
}

// Three numbers, or one for all channels.
void read_channels(const Source& source, const char* key, double* out) {
  const Json* const value = find_member(source.object, key, source.path);
  if (value == nullptr) return;
  if (value->is_number()) {
    std::fill_n(out, 3, value->number());
    return;
  }
  const std::vector<double> values = get_numbers(source.object, key, source.path);
  if (values.size() != 3 && values.size() != 1) {
    throw Error(ErrorKind::kData, source.path, std::string(key) + " has " + std::to_string(values.size()) + " numbers",
                "it must have 3");
  }
  for (std::size_t i = 0; i < 3; ++i) out[i] = values[values.size() == 3 ? i : 0];
}

// null is what Python takes it for: no.
bool read_flag(const Source& source, const char* key) {
  const Json* const found = source.object.find(key);
  if (found == nullptr) return true;
  if (!found->is_boolean() && !found->is_null()) source.refuse(key, "must be true or false");
  return found->is_boolean() && found->boolean();
}

bool is_whole(const Json& value, std::int64_t* out) {
  if (!value.is_integer() || value.integer() < 1 || value.integer() > kMostEdge) return false;
  *out = value.integer();
  return true;
}

// {"shortest_edge": n}; a longest edge beside it is not looked at by this processor.
bool read_shortest_edge(const Json& value, std::int64_t* out) {
  if (!value.is_object()) return false;
  for (const auto& [name, ignored] : value.items()) {
    if (name != "shortest_edge" && name != "longest_edge") return false;
  }
  const Json* const edge = value.find("shortest_edge");
  return edge != nullptr && is_whole(*edge, out);
}

void check_type(const Source& source, const std::string& image_processor) {
  const Json* const type = source.object.find("image_processor_type");
  if (type != nullptr) {
    for (const char* back_end : {"", "Fast", "Pil"}) {
      if (*type == image_processor + back_end) return;
    }
    source.refuse("image_processor_type", "only " + image_processor + " is implemented");
  }
  // The name that the class had before.
  const Json* const older = source.object.find("feature_extractor_type");
  const std::string stem = image_processor.substr(0, image_processor.rfind("ImageProcessor"));
  if (older != nullptr && *older != stem + "FeatureExtractor")
    source.refuse("feature_extractor_type", "only " + image_processor + " is implemented");
  if (source.object.contains("auto_map")) source.refuse("auto_map", "only " + image_processor + " is implemented");
}

void read_resize(const Source& source, ProcessorRules* rules) {
  rules->does_resize = read_flag(source, "do_resize");
  rules->shortest_edge = kDefaultEdge;
  const Json* const size = source.object.find("size");
  if (size != nullptr) {
    const Json* const square = source.object.find("default_to_square");
    const bool is_square = square != nullptr && *square == true;
    const bool is_edge = !is_square && is_whole(*size, &rules->shortest_edge);
    if (!is_edge && !read_shortest_edge(*size, &rules->shortest_edge))
      source.refuse("size", "must be {\"shortest_edge\": n} with n from 1 to 65536");
  }
  if (!rules->does_resize) return;
  const Json* const resample = source.object.find("resample");
  if (resample != nullptr && *resample != kBicubic) source.refuse("resample", "only 3 (bicubic) is implemented");
  const Json* const divisor = source.object.find("size_divisor");
  if (divisor == nullptr) return;
  if (!is_whole(*divisor, &rules->size_divisor) || rules->size_divisor > rules->shortest_edge)
    source.refuse("size_divisor", "must be a whole number from 1 to the shortest edge");
}

void check_crop(const Source& source, std::int64_t image_side) {
  if (!read_flag(source, "do_center_crop"))
    source.refuse("do_center_crop", "the model needs square pictures, and its processor crops in any case");
  std::int64_t edge = kDefaultEdge;
  const Json* const crop = source.object.find("crop_size");
  const bool is_edge = crop == nullptr || read_shortest_edge(*crop, &edge);
  if (!is_edge || edge != image_side)
    source.refuse("crop_size", "must be {\"shortest_edge\": " + std::to_string(image_side) +
                                   "}, the model's image_size" + (crop == nullptr ? "; it defaults to 288" : ""));
}

// A square as one number, or as two equal ones; 0: it is none.
std::int64_t side_of_square(const Json& value) {
  std::int64_t height = 0, width = 0;
  if (!value.is_object()) return is_whole(value, &height) ? height : 0;
  const Json *const of_height = value.find("height"), *const of_width = value.find("width");
  const bool is_square = value.size() == 2 && of_height != nullptr && of_width != nullptr &&
                         is_whole(*of_height, &height) && is_whole(*of_width, &width) && height == width;
  return is_square ? height : 0;
}

bool is_true(const Json* value) { return value != nullptr && *value == true; }

// Whether `size` is a number that means the shorter side.
bool is_shorter_side(const Source& source) {
  const Json *const size = source.object.find("size"), *const to_square = source.object.find("default_to_square");
  return size != nullptr && !size->is_object() && to_square != nullptr && *to_square == false;
}

// Both sides, perhaps the centre of that, and nothing else that would change the size.
void read_stretch(const Source& source, std::int64_t image_side, PictureFit fit, ProcessorRules* rules) {
  if (!read_flag(source, "do_resize")) source.refuse("do_resize", "must be true: the model needs square pictures");
  for (const char* key : {"do_center_crop", "size", "resample"}) {
    if (fit == PictureFit::kStretchAndCrop && !source.object.contains(key)) source.refuse(key, "it must be given");
  }
  const Json *const crops = source.object.find("do_center_crop"), *const pads = source.object.find("do_pad");
  if (crops != nullptr && !crops->is_null() && !crops->is_boolean())
    source.refuse("do_center_crop", "must be true or false");
  if (pads != nullptr && !pads->is_null() && *pads != false) source.refuse("do_pad", "only false is implemented");
  const Json *const size = source.object.find("size"), *const crop = source.object.find("crop_size");
  const std::string side = std::to_string(image_side);
  const std::string must_be = "must be {\"height\": " + side + ", \"width\": " + side + "}, the model's image_size";
  rules->shortest_edge = size == nullptr ? kDefaultSquare : side_of_square(*size);
  if (is_shorter_side(source)) source.refuse("default_to_square", "only true is implemented");
  if (is_true(crops)) {
    if (crop == nullptr) source.refuse("do_center_crop", "crop_size is missing");
    if (side_of_square(*crop) != image_side) source.refuse("crop_size", must_be);
    if (size == nullptr || rules->shortest_edge < image_side)
      source.refuse("size", "must be a square, from crop_size on");
  } else if (rules->shortest_edge != image_side) {
    source.refuse("size", must_be + (size == nullptr ? "; it defaults to 224" : ""));
  }
  rules->makes_squares = true;
  rules->interpolation = Interpolation::kBilinear;
  const Json* const resample = source.object.find("resample");
  if (resample == nullptr || *resample == kBilinear) return;
  if (*resample != kBicubic) source.refuse("resample", "only 2 (bilinear) and 3 (bicubic) are implemented");
  rules->interpolation = Interpolation::kBicubic;
}

void read_levels(const Source& source, ProcessorRules* rules) {
  if (!read_flag(source, "do_normalize"))
    source.refuse("do_normalize", "only true is implemented; the model's processor normalises in any case");
  for (const char* key : {"image_mean", "image_std"}) {
    const Json* const found = source.object.find(key);
    if (found != nullptr && found->is_null()) source.refuse(key, "must be numbers");
  }
  if (!read_flag(source, "do_rescale")) {
    rules->levels = 1.0;
    return;
  }
  const Json* const factor = source.object.find("rescale_factor");
  if (factor == nullptr) return;
  const double value = factor->is_number() ? factor->number() : 0.0;
  rules->levels = 1.0 / value;
  const auto levels = static_cast<float>(rules->levels);
  if (!(value > 0.0) || !std::isfinite(levels) || !(levels > 0.0F))
    source.refuse("rescale_factor", "must be a positive number");
}

// Training normalises, and divides levels by 255, whatever the file says; the folder that a run saves must ask its
// users for the same.
void check_training_levels(const Source& source) {
  for (const char* key : {"do_normalize", "do_rescale"}) {
    if (!read_flag(source, key)) source.refuse(key, "must be true: training prepares pictures that way");
  }
  const Json* const factor = source.object.find("rescale_factor");
  if (factor == nullptr) return;
  const double levels = factor->is_number() ? factor->number() * ProcessorRules().levels : 0.0;
  if (!(std::abs(levels - 1.0) < 1e-6))
    source.refuse("rescale_factor", "must be 1 / 255, the scale that preprocessing = \"training\" uses");
}

void check_statistics(const Source& source, const PictureRules& rules) {
  for (int c = 0; c < 3; ++c) {
    if (!(rules.std[c] > 0.0) || !std::isfinite(rules.std[c]))
      throw Error(ErrorKind::kData, source.path, "image_std holds a number that is not positive");
    if (!std::isfinite(rules.mean[c]))
      throw Error(ErrorKind::kData, source.path, "image_mean holds a number that is not finite");
  }
}

// Transformers' 32, but no more than a side, of which nothing would be left.
std::int64_t default_divisor(std::int64_t image_side) { return std::min(ProcessorRules().size_divisor, image_side); }

}  // namespace

PictureRules read_picture_rules(const std::string& folder, Preprocessing preprocessing, std::int64_t image_side,
                                const std::string& image_processor, PictureFit fit) {
  PictureRules rules;
  rules.processor.shortest_edge = image_side;
  Source source;
  if (!find_source(folder, &source)) {
    rules.processor.size_divisor = default_divisor(image_side);
    return rules;
  }
  if (!source.object.is_object()) throw Error(ErrorKind::kData, source.path, "is not a JSON object");
  read_channels(source, "image_mean", rules.mean);
  read_channels(source, "image_std", rules.std);
  check_statistics(source, rules);
  if (preprocessing != Preprocessing::kProcessor) {
    source.advice = "change it";
    check_training_levels(source);
    return rules;
  }
  check_type(source, image_processor);
  if (fit == PictureFit::kShorterSide) {
    read_resize(source, &rules.processor);
    check_crop(source, image_side);
  } else {
    read_stretch(source, image_side, fit, &rules.processor);
  }
  read_levels(source, &rules.processor);
  return rules;
}

std::string processor_file_of(const std::string& folder) {
  Source source;
  return find_source(folder, &source) ? source.path : "";
}

void require_statistics(const std::string& folder) {
  Source source;
  if (!find_source(folder, &source)) {
    throw Error(ErrorKind::kData, folder, "has no preprocessor_config.json, which says how pictures are normalised",
                "copy it from where the model comes from");
  }
  for (const char* key : {"image_mean", "image_std"}) {
    const Json* const found = source.object.find(key);
    if (found != nullptr && !found->is_null()) continue;
    throw Error(ErrorKind::kData, source.path, std::string("lacks ") + key + ", which normalises pictures",
                "add that of the model's pre-training; [0.5, 0.5, 0.5] is the default of Transformers");
  }
}

bool makes_squares(const std::string& folder, std::int64_t image_side, const std::string& image_processor,
                   PictureFit fit) {
  Source source;
  BASCULE_CHECK(find_source(folder, &source));
  const auto is_side = [&](const Json* value) { return value != nullptr && side_of_square(*value) == image_side; };
  const Json *const size = source.object.find("size"), *const crop = source.object.find("crop_size");
  const Json* const crop_flag = source.object.find("do_center_crop");
  const bool crops = is_true(crop_flag) && crop != nullptr;
  if (fit == PictureFit::kStretchAndCrop && crop_flag == nullptr) return false;  // it crops to another side
  if (is_shorter_side(source) || (crops && size != nullptr && side_of_square(*size) < image_side)) return false;
  const Json* const type = source.object.find("image_processor_type");
  const Json* const resizes = source.object.find("do_resize");
  const bool is_own = type == nullptr || *type == image_processor || *type == image_processor + "Fast";
  return is_own && (crops || is_side(size)) && (crop == nullptr || is_side(crop)) &&
         (resizes == nullptr || *resizes == true);
}

std::string square_processor_text(const std::string& folder, std::int64_t image_side,
                                  const std::string& image_processor, PictureFit fit) {
  Source source;
  BASCULE_CHECK(find_source(folder, &source));
  const auto square = [image_side] { return Json{{"height", image_side}, {"width", image_side}}; };
  source.object["size"] = square();
  if (source.object.contains("crop_size")) source.object["crop_size"] = square();
  if (fit == PictureFit::kStretchAndCrop) {
    source.object["do_center_crop"] = false;
    if (!source.object.contains("resample")) source.object["resample"] = kBicubic;  // its default
  }
  if (source.object.contains("do_resize")) source.object["do_resize"] = true;
  if (source.object.contains("image_processor_type")) source.object["image_processor_type"] = image_processor;
  return json_text(source.object, 2) + "\n";
}

std::string default_processor_text(std::int64_t image_side, const std::string& image_processor) {
  const PictureRules rules;
  Json config = Json::object();
  config["image_processor_type"] = image_processor;
  config["do_resize"] = true;
  config["size"] = {{"shortest_edge", image_side}};
  config["size_divisor"] = default_divisor(image_side);
  config["resample"] = kBicubic;
  config["do_center_crop"] = true;
  config["crop_size"] = {{"shortest_edge", image_side}};
  config["do_rescale"] = true;
  config["rescale_factor"] = 1.0 / rules.processor.levels;
  config["do_normalize"] = true;
  config["image_mean"] = {rules.mean[0], rules.mean[1], rules.mean[2]};
  config["image_std"] = {rules.std[0], rules.std[1], rules.std[2]};
  config["do_pad"] = true;
  return json_text(config, 2) + "\n";
}

}  // namespace bascule
