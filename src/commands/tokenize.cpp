// SPDX-License-Identifier: Apache-2.0
// Single stages: texts to token ids and back, files to pixels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/commands/check_outputs.h"
#include "src/commands/commands.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/pictures/picture_decoder.h"
#include "src/pictures/preprocessor.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr const char* kInputName = "standard input";

TokenPadding padding_of(const TokenizeArguments& arguments) {
  if (!arguments.padding) return TokenPadding::kNone;
  const std::string& value = *arguments.padding;
  if (value == "longest") return TokenPadding::kLongest;
  if (value.empty()) return arguments.max_length > 0 ? TokenPadding::kMaxLength : TokenPadding::kLongest;
  if (value != "max_length") {
    throw Error{ErrorKind::kSettings, "--padding", "\"" + value + "\" is not a padding mode",
                "use longest or max_length"};
  }
  if (arguments.max_length == 0) {
    throw Error{ErrorKind::kSettings, "--padding", "max_length without a length", "set --max-length too"};
  }
  return TokenPadding::kMaxLength;
}

// Reads the texts from a string, or from an array of two.
Texts texts_of(const Json& row, const std::string& where) {
  if (row.is_string()) return {row.string()};
  if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string())
    return {row[0].string(), row[1].string()};
  throw Error{ErrorKind::kData, where, json_text(row) + " is not a string",
              "write a string, or an array of two for a pair of texts"};
}

void check_length(std::int64_t max_length, std::int64_t special_tokens) {
  if (max_length != 0 && max_length < special_tokens) {
    throw Error{ErrorKind::kSettings, "--max-length", std::to_string(max_length) + " is too short",
                "use " + std::to_string(special_tokens) + " or more: that many special tokens are always added"};
  }
}

std::vector<std::int32_t> encode_row(const Json& row, std::size_t number, const Tokenizer& tokenizer,
                                     std::int64_t max_length) {
  const std::string where = std::string(kInputName) + ": text " + std::to_string(number);
  const Texts texts = texts_of(row, where);
  check_length(max_length, tokenizer.special_tokens(texts.second.has_value()));
  try {
    return tokenizer.encode(texts, max_length);
  } catch (const Error& error) {
    throw Error{error.kind(), where, error.problem(), error.what_to_do()};
  }
}

void write_ids(const std::vector<std::int32_t>& ids, std::ostream& output) {
  output << '[';
  for (std::size_t i = 0; i < ids.size(); ++i) output << (i == 0 ? "" : ", ") << ids[i];
  output << ']';
}

Json read_array(std::istream& input, const char* of_what) {
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  Json rows = parse_json(text, kInputName);
  if (!rows.is_array())
    throw Error{ErrorKind::kData, kInputName, "not an array", std::string("write a JSON array of ") + of_what};
  return rows;
}

std::vector<std::int32_t> ids_of(const Json& row, std::size_t number) {
  const std::string where = std::string(kInputName) + ": row " + std::to_string(number);
  const auto refuse = [&](const Json& what) {
    throw Error{ErrorKind::kData, where, json_text(what) + " is not a token id",
                "write arrays of whole numbers from 0"};
  };
  std::vector<std::int32_t> ids;
  if (!row.is_array()) refuse(row);
  for (const Json& id : row) {
    if (!id.is_integer() || id.integer() < 0 || id.integer() > std::numeric_limits<std::int32_t>::max()) refuse(id);
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
  return ids;
}

void decode_streams(const std::string& model, std::istream& input, std::ostream& output) {
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(model);
  const Json rows = read_array(input, "arrays of token ids");
  output << '[';
  for (std::size_t i = 0; i < rows.size(); ++i)
    output << (i == 0 ? "" : ",\n ") << json_text(Json(decoder->decode(ids_of(rows[i], i))));
  output << "]\n";
}

}  // namespace

void tokenize_streams(const TokenizeArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.decodes) return decode_streams(arguments.model, input, output);
  const TokenPadding padding = padding_of(arguments);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(arguments.model);
  check_length(arguments.max_length, tokenizer->special_tokens(false));
  const Json texts = read_array(input, "strings");
  std::vector<std::vector<std::int32_t>> rows;
  std::size_t width = padding == TokenPadding::kMaxLength ? static_cast<std::size_t>(arguments.max_length) : 0;
  for (const Json& value : texts) {
    rows.push_back(encode_row(value, rows.size(), *tokenizer, arguments.max_length));
    if (padding == TokenPadding::kLongest) width = std::max(width, rows.back().size());
  }
  output << '[';
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() < width) rows[i].resize(width, tokenizer->pad_id());
    output << (i == 0 ? "" : ",\n ");
    write_ids(rows[i], output);
  }
  output << "]\n";
}

int tokenize_command(const TokenizeArguments& arguments) {
  // A closed or unreadable standard input would look like an empty text.
  if (std::cin.peek() == std::istream::traits_type::eof() && std::ferror(stdin) != 0)
    throw Error{ErrorKind::kData, kInputName, "cannot be read", "write a JSON array of strings to it"};
  tokenize_streams(arguments, std::cin, std::cout);
  std::cout.flush();
  return 0;
}

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
                             family.processor_fit);
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
