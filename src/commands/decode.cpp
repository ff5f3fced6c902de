// SPDX-License-Identifier: Apache-2.0
#include "src/commands/decode.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/align.h"
#include "src/base/error.h"
#include "src/checkpoint/durable_write.h"
#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::uint64_t kWaitNs = 1'000'000'000;
constexpr std::int64_t kLargestFile = std::int64_t{1} << 29;

void check(const DecodeArguments& arguments) {
  const auto refuse = [](const char* option, const std::string& what, const std::string& what_to_do) {
    throw Error{ErrorKind::kSettings, option, what, what_to_do};
  };
  const std::int64_t most = media_engine_query(media_engine_builtin()).max_side;
  if (arguments.size < 1 || arguments.size > most) {
    refuse("--size", std::to_string(arguments.size) + " is no side", "use 1 to " + std::to_string(most));
  }
  if (arguments.preprocessing != "training" && arguments.preprocessing != "processor") {
    refuse("--preprocessing", "\"" + arguments.preprocessing + "\" is unknown", "use training or processor");
  }
  if (arguments.mean.size() != 3) refuse("--mean", "needs three numbers", "give those of R, G and B: a,b,c");
  if (arguments.std.size() != 3) refuse("--std", "needs three numbers", "give those of R, G and B: a,b,c");
  for (const double std : arguments.std) {
    if (!(std > 0.0)) refuse("--std", std::to_string(std) + " is not positive", "");
  }
  std::map<std::string, std::string> names;
  for (const std::string& file : arguments.files) {
    const std::string name = std::filesystem::path(file).filename().string();
    const auto [other, is_new] = names.emplace(name, file);
    if (!is_new) refuse("files", other->second + " and " + file + " have the same base name", "decode them apart");
  }
}

class Decoder {
 public:
  explicit Decoder(const DecodeArguments& arguments) {
    media_engine_config config = media_engine_default_config(media_engine_builtin());
    config.max_side = static_cast<std::uint32_t>(arguments.size);
    config.memory_bytes = media_engine_memory_needed(&config);
    memory_.reset(std::aligned_alloc(kCacheLine, align_up(config.memory_bytes, kCacheLine)));
    if (memory_ == nullptr) throw Error{ErrorKind::kMemory, "media engine", "no memory for it"};
    config.memory = memory_.get();
    require(media_engine_open(&engine_, &config), "media engine");
    job_.side = config.max_side;
    job_.preparation = arguments.preprocessing == "training" ? MEDIA_ENGINE_TRAINING : MEDIA_ENGINE_PROCESSOR;
    job_.element = MEDIA_ENGINE_FLOAT32;
    job_.raw = arguments.raw ? 1 : 0;
    std::copy_n(arguments.mean.begin(), 3, job_.mean);
    std::copy_n(arguments.std.begin(), 3, job_.std);
  }
  ~Decoder() { media_engine_close(engine_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  media_engine_completion decode(const std::string& file, const std::vector<std::uint8_t>& encoded, float* pixels) {
    job_.encoded = encoded.data();
    job_.encoded_bytes = encoded.size();
    job_.pixels = pixels;
    require(media_engine_submit(engine_, &job_), file);
    media_engine_completion completion = {};
    media_engine_status waited = MEDIA_ENGINE_TIMED_OUT;
    while (waited == MEDIA_ENGINE_TIMED_OUT) waited = media_engine_wait(engine_, &completion, kWaitNs);
    require(waited, file);
    const auto status = static_cast<media_engine_status>(completion.status);
    if (media_engine_is_bad_picture(status) == 0) require(status, file);
    return completion;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  // Anything but OK here is the engine's fault, not the picture's.
  static void require(media_engine_status status, const std::string& where) {
    if (status == MEDIA_ENGINE_OK) return;
    throw Error{ErrorKind::kData, where, "the media engine failed: " + std::string(media_engine_status_text(status))};
  }

  std::unique_ptr<void, Free> memory_;
  media_engine* engine_ = nullptr;
  media_engine_job job_ = {};
};

void print_line(const std::string& file, const media_engine_completion& done, const std::string& error) {
  nlohmann::ordered_json line;
  line["file"] = file;
  line["ok"] = error.empty();
  line["width"] = nullptr;
  line["height"] = nullptr;
  if (done.width > 0) line["width"] = done.width;
  if (done.height > 0) line["height"] = done.height;
  line["error"] = nullptr;
  if (!error.empty()) line["error"] = error;
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (std::printf("%s\n", text.c_str()) < 0) throw Error{ErrorKind::kDisk, "standard output", "writing failed"};
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kLargestFile) throw Error{ErrorKind::kData, path, "is larger than 512 MiB"};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.size()));
  file.read(bytes.data(), 0, bytes.size());
  return bytes;
}

// The reason why there are no pixels of this file, or an empty string.
std::string decode_file(const std::string& file, Decoder& decoder, media_engine_completion* done,
                        std::vector<float>* pixels) {
  std::vector<std::uint8_t> encoded;
  try {
    encoded = read_file(file);
  } catch (const Error& error) {
    return error.problem();
  }
  *done = decoder.decode(file, encoded, pixels->data());
  return done->status == MEDIA_ENGINE_OK ? ""
                                         : media_engine_status_text(static_cast<media_engine_status>(done->status));
}

}  // namespace

int decode_command(const DecodeArguments& arguments) {
  check(arguments);
  Decoder decoder(arguments);
  const std::vector<std::int64_t> shape = {3, arguments.size, arguments.size};
  std::vector<std::vector<float>> kept;
  std::vector<TensorToWrite> tensors;
  for (const std::string& file : arguments.files) {
    std::vector<float> pixels(static_cast<std::size_t>(element_count(shape)));
    media_engine_completion done = {};
    const std::string error = decode_file(file, decoder, &done, &pixels);
    print_line(file, done, error);
    if (!error.empty()) continue;
    kept.push_back(std::move(pixels));
    TensorToWrite tensor;
    tensor.name = std::filesystem::path(file).filename().string();
    tensor.shape = shape;
    tensor.data = kept.back().data();
    tensors.push_back(std::move(tensor));
  }
  std::fflush(stdout);
  const bool all = tensors.size() == arguments.files.size();
  const SafetensorsWritePlan plan(std::move(tensors));
  throw_if_failed(plan.write(arguments.output.c_str()), arguments.output, "cannot be written");
  return all ? 0 : exit_code(ErrorKind::kData);
}

}  // namespace bascule
