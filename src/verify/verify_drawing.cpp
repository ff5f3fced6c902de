// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/error.h"
#include "src/generate/drawer.h"
#include "src/generate/pipeline.h"
#include "src/generate/samplers.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr double kMostDifferentBytes = 0.005;  // the share of bytes that may differ, by 1
constexpr double kOutputAngleFloor = 5e-4;     // of every limit on the angle of an output, in bf16

struct DrawingCase {
  std::string folder, where;
  Precision precision = Precision::kFloat32;
  Json description, errors;
  TensorSource batch, expected;
  Pipeline pipeline;
  std::int64_t pictures = 0, height = 0, width = 0;  // of pictures, pixels

  std::int64_t pixels() const { return height / pipeline.factor() * (width / pipeline.factor()); }
  std::vector<float> input(const std::string& name) const { return read_floats(batch, "batch0." + name, folder); }
  std::vector<float> truth(const std::string& name) const { return read_floats(expected, name, folder); }
  bool is_bf16() const { return precision == Precision::kBf16; }
  // The reference's own error; 0: nobody measured it.
  double reference(const std::string& name) const {
    const Json* const error = find_member(get_object(errors, "outputs", folder), name, folder);
    return error == nullptr ? 0.0 : get_number(*error, "rel_l2_worst", folder);
  }
  double reference_in_bf16(const std::string& name) const {
    const Json* const bf16 = find_member(errors, "bf16", folder);
    const Json* const angles = bf16 == nullptr ? nullptr : find_member(*bf16, "output_one_minus_cosine", folder);
    return angles == nullptr ? 0.0 : get_number(*angles, name, folder, 0.0);
  }
};

// That each tensor that is read has its type and shape. Sets the number of pictures.
void check_tensors(DrawingCase* files) {
  const auto check = [&](const TensorSource& source, const std::string& name, DType type,
                         const std::vector<std::int64_t>& shape) {
    const StoredTensor* const stored = source.find(name);
    if (stored == nullptr) throw Error(ErrorKind::kData, files->folder, "has no tensor \"" + name + "\"");
    if (stored->dtype != type || stored->shape != shape)
      throw Error(ErrorKind::kData, files->folder,
                  name + " has shape " + shape_text(stored->shape) + " or a type that does not fit; it must have " +
                      shape_text(shape));
  };
  const StoredTensor* const ids = files->batch.find("batch0.prompt_ids");
  if (ids == nullptr || ids->shape.size() != 2 || ids->shape[0] < 1)
    throw Error(ErrorKind::kData, files->folder, "batch0.prompt_ids is missing, or has no row for each picture");
  const std::int64_t pictures = files->pictures = ids->shape[0], tokens = files->pipeline.prompt_tokens();
  const std::int64_t factor = files->pipeline.factor(), channels = files->pipeline.unet.in_channels;
  const std::vector<std::int64_t> latents = {pictures, channels, files->height / factor, files->width / factor};
  const std::vector<std::int64_t> picture = {pictures, 3, files->height, files->width};
  for (const char* name : {"batch0.prompt_ids", "batch0.negative_ids"})
    check(files->batch, name, DType::kInt64, {pictures, tokens});
  for (const char* name : {"batch0.latents", "batch0.unet_sample", "batch0.vae_latents"})
    check(files->batch, name, DType::kFloat32, latents);
  check(files->expected, "text_embeddings", DType::kFloat32, {pictures, tokens, files->pipeline.text.hidden_size});
  check(files->expected, "unet_output", DType::kFloat32, latents);
  check(files->expected, "vae_picture", DType::kFloat32, picture);
  for (const auto& [name, config] : get_object(files->description, "schedulers", files->where).items()) {
    check(files->expected, name + ".picture", DType::kFloat32, picture);
    check(files->expected, name + ".bytes", DType::kUInt8, {pictures, files->height, files->width, 3});
  }
}

DrawingCase open_drawing_case(const std::string& folder, Precision precision) {
  DrawingCase files;
  files.folder = folder;
  files.precision = precision;
  files.where = folder + "/case.json";
  files.description = read_json_file(files.where);
  files.errors = read_json_file(folder + "/float32_error.json");
  files.batch = open_safetensors(folder + "/batch.safetensors");
  files.expected = open_safetensors(folder + "/expected.safetensors");
  files.pipeline = open_pipeline(folder);
  files.height = get_int(files.description, "height", files.where);
  files.width = get_int(files.description, "width", files.where);
  check_picture_side(files.pipeline, files.height, files.where, "height");
  check_picture_side(files.pipeline, files.width, files.where, "width");
  check_tensors(&files);
  return files;
}

void judge(const DrawingCase& files, const std::string& name, const std::vector<float>& ours, Judgement* judgement) {
  const std::vector<float> truth = files.truth(name);
  if (files.is_bf16()) {
    judgement->add_angle(name, one_minus_cosine(ours, truth), files.reference_in_bf16(name), kOutputAngleFloor);
  } else {
    judgement->add(name, relative_l2(ours, truth), files.reference(name), kFloor);
  }
}

// A pipeline with its weights and a drawer, for one program.
class DrawingModel {
 public:
  DrawingModel(const DrawingCase& files, const DrawingOptions& options, SamplingProgram program,
               const KernelTable& kernels, int threads)
      : files_(files),
        program_(std::move(program)),
        threads_(threads, false),
        recorded_(record_drawing(&session_, files.pipeline, options, program_, true)),
        drawer_(files.pipeline, recorded_, program_) {
    session_.seal_alone(kernels, threads);
    StartWork work;
    std::vector<TensorSource> sources;
    load_pipeline(&work, files.pipeline, session_.parameter_memory(), 0, false, &sources);
    work.run(threads_);
    drawer_.seal_alone(session_);
  }

  // Encodes the prompts of a tensor of ids into places from `first` on, and appends their rows.
  void keep_prompts(const std::string& name, std::int64_t first, std::vector<float>* rows) {
    const std::vector<std::int64_t> all = read_integers(files_.batch, "batch0." + name, files_.folder);
    const std::int64_t tokens = files_.pipeline.prompt_tokens();
    for (std::int64_t b = 0; b < files_.pictures; ++b) {
      const std::vector<std::int32_t> ids(all.begin() + b * tokens, all.begin() + (b + 1) * tokens);
      for (const std::int32_t id : ids) {
        if (id < 0 || id >= files_.pipeline.text.vocab_size)
          throw Error(ErrorKind::kData, files_.folder,
                      name + ": id " + std::to_string(id) + " is not in the vocabulary");
      }
      drawer_.keep_prompt(first + b, {ids.data(), ids.size()}, threads_);
      const float* const own = drawer_.text_embeddings();
      if (rows != nullptr) rows->insert(rows->end(), own, own + tokens * files_.pipeline.text.hidden_size);
    }
  }
  // Sets what each picture begins with.
  void set_noise(const std::vector<float>& noise) {
    const std::size_t each = static_cast<std::size_t>(recorded_.latents.pixels * recorded_.latents.channels);
    if (noise.size() != each * static_cast<std::size_t>(files_.pictures))
      throw Error(ErrorKind::kData, files_.folder, "latents do not have the size of the pictures");
    for (std::int64_t b = 0; b < files_.pictures; ++b)
      drawer_.set_noise(b, noise.data() + static_cast<std::size_t>(b) * each);
  }
  std::vector<DrawnPrompt> prompts() const {
    std::vector<DrawnPrompt> result;
    result.reserve(static_cast<std::size_t>(files_.pictures));
    for (std::int32_t b = 0; b < files_.pictures; ++b)
      result.push_back({static_cast<std::int32_t>(files_.pictures) + b, b});
    return result;
  }
  // The latents of all pictures in a slot, in the order of a file.
  std::vector<float> latents(int slot) const {
    std::vector<float> result;
    for (std::int64_t b = 0; b < files_.pictures; ++b)
      append_channels_first(drawer_.latents(slot, b), recorded_.latents.pixels, recorded_.latents.channels, &result);
    return result;
  }
  static void append_channels_first(const float* rows, std::int64_t pixels, std::int64_t channels,
                                    std::vector<float>* result) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) result->push_back(rows[p * channels + c]);
    }
  }

  const SamplingProgram& program() const { return program_; }
  Drawer& drawer() { return drawer_; }
  Threads& threads() { return threads_; }

 private:
  const DrawingCase& files_;
  const SamplingProgram program_;
  Session session_;
  Threads threads_;
  const RecordedDrawing recorded_;
  Drawer drawer_;
};

DrawingOptions options_of(const DrawingCase& files, float guidance) {
  DrawingOptions options;
  options.batch = files.pictures;
  options.height = files.height;
  options.width = files.width;
  options.prompts = 2 * files.pictures;
  options.guidance = guidance;
  options.precision = files.precision;
  return options;
}

// One call of each model.
void judge_calls(const DrawingCase& files, const KernelTable& kernels, int threads, Judgement* judgement) {
  SamplingCall call;
  call.timestep = get_number(files.description, "timestep", files.where);
  call.output = 1;
  call.weights = {1.0, 0.0};
  SamplingProgram once;
  once.slots = 2;
  once.calls = {call};
  DrawingModel model(files, options_of(files, 1.0f), once, kernels, threads);
  std::vector<float> rows;
  model.keep_prompts("prompt_ids", 0, &rows);
  judge(files, "text_embeddings", rows, judgement);

  model.set_noise(files.input("unet_sample"));
  const std::vector<DrawnPrompt> prompts = model.prompts();
  model.drawer().call(0, {prompts.data(), prompts.size()}, model.threads());
  std::vector<float> output;
  const std::int64_t pixels = files.pixels(), channels = files.pipeline.unet.out_channels;
  for (std::int64_t b = 0; b < files.pictures; ++b)
    model.append_channels_first(model.drawer().model_output() + b * pixels * channels, pixels, channels, &output);
  judge(files, "unet_output", output, judgement);

  std::vector<float> pictures;
  const std::vector<float> latents = files.input("vae_latents");
  for (std::int64_t b = 0; b < files.pictures; ++b) {
    std::vector<float> own(static_cast<std::size_t>(pixels * channels));
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < channels; ++c)
        own[static_cast<std::size_t>(p * channels + c)] =
            latents.at(static_cast<std::size_t>((b * channels + c) * pixels + p));
    }
    model.drawer().decode_latents(own.data(), model.threads());
    model.append_channels_first(model.drawer().picture(), files.height * files.width, 3, &pictures);
  }
  judge(files, "vae_picture", pictures, judgement);
}

void judge_bytes(const DrawingCase& files, const std::string& name, const std::vector<std::uint8_t>& ours,
                 Judgement* judgement) {
  std::vector<std::uint8_t> truth(ours.size());
  files.expected.read_bytes(truth.data(), *files.expected.find(name));
  double largest = 0.0, different = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(ours[i]) - static_cast<double>(truth[i])));
    different += ours[i] != truth[i] ? 1.0 : 0.0;
  }
  judgement->add_norm(name + " (largest difference)", largest, 1.0);
  judgement->add_norm(name + " (share that differs)", different / static_cast<double>(ours.size()),
                      kMostDifferentBytes);
}

void judge_sampler(const DrawingCase& files, const std::string& name, const Json& config, const KernelTable& kernels,
                   int threads, Judgement* judgement) {
  const SamplerOptions sampler = sampler_options_of(config, files.where + ", schedulers." + name);
  constexpr std::int64_t kMostSteps = 1000;
  const std::int64_t asked = get_int(files.description, "num_inference_steps", files.where);
  if (asked < 1 || asked > kMostSteps)
    throw Error(ErrorKind::kData, files.where, "num_inference_steps = " + std::to_string(asked) + " is out of range");
  const int steps = static_cast<int>(asked);
  const float guidance = static_cast<float>(get_number(files.description, "guidance_scale", files.where));
  DrawingModel model(files, options_of(files, guidance), sampling_program(sampler, steps), kernels, threads);
  std::vector<float> timesteps;
  for (const SamplingCall& call : model.program().calls) timesteps.push_back(static_cast<float>(call.timestep));
  const std::vector<float> truth = files.truth(name + ".timesteps");
  judgement->add_norm(name + ".timesteps", timesteps == truth ? 0.0 : 1.0, 0.0);

  model.keep_prompts("prompt_ids", 0, nullptr);
  model.keep_prompts("negative_ids", files.pictures, nullptr);
  model.set_noise(files.input("latents"));
  const std::vector<DrawnPrompt> prompts = model.prompts();
  std::vector<float> latents = model.latents(model.program().calls.front().x);
  for (std::size_t c = 0; c < model.program().calls.size(); ++c) {
    model.drawer().call(c, {prompts.data(), prompts.size()}, model.threads());
    const std::vector<float> next = model.latents(model.program().calls[c].next);
    latents.insert(latents.end(), next.begin(), next.end());
  }
  judge(files, name + ".latents", latents, judgement);

  const std::int64_t pixels = files.height * files.width;
  std::vector<float> pictures;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(3 * pixels * files.pictures));
  for (std::int64_t b = 0; b < files.pictures; ++b) {
    model.drawer().decode(b, model.threads());
    const float* const picture = model.drawer().picture();
    std::vector<float> shown(picture, picture + 3 * pixels);
    for (float& value : shown) value = std::clamp(value / 2.0f + 0.5f, 0.0f, 1.0f);
    model.append_channels_first(shown.data(), pixels, 3, &pictures);
    fill_picture_bytes(bytes.data() + 3 * pixels * b, picture, 3 * pixels);
  }
  judge(files, name + ".picture", pictures, judgement);
  if (files.is_bf16()) {
    judgement->not_compared.push_back({name + ".bytes", "bf16 has no limit for them"});
  } else {
    judge_bytes(files, name + ".bytes", bytes, judgement);
  }
}

// The ids that the folder's tokenizer gives for the case's texts.
void judge_prompts(const DrawingCase& files, Judgement* judgement) {
  const PromptTokenizer tokenizer(files.pipeline);
  for (const auto& [texts, name] :
       {std::pair{"prompts", "prompt_ids"}, std::pair{"negative_prompts", "negative_ids"}}) {
    const std::vector<std::int64_t> truth = read_integers(files.batch, std::string("batch0.") + name, files.folder);
    std::vector<std::int64_t> ours;
    for (const std::string& text : get_strings(files.description, texts, files.where)) {
      const std::vector<std::int32_t> ids = tokenizer.encode(text, files.where).ids;
      ours.insert(ours.end(), ids.begin(), ids.end());
    }
    double different = std::fabs(static_cast<double>(ours.size()) - static_cast<double>(truth.size()));
    for (std::size_t i = 0; i < std::min(ours.size(), truth.size()); ++i) different += ours[i] != truth[i] ? 1.0 : 0.0;
    judgement->add_norm(name, different, 0.0);
  }
}

}  // namespace

void judge_drawing(const std::string& folder, Precision precision, const KernelTable& kernels, int threads,
                   Judgement* judgement) {
  const DrawingCase files = open_drawing_case(folder, precision);
  judge_prompts(files, judgement);
  judge_calls(files, kernels, threads, judgement);
  for (const auto& [name, config] : get_object(files.description, "schedulers", files.where).items())
    judge_sampler(files, name, config, kernels, threads, judgement);
  judgement->add_the_rest(files.expected);
}

}  // namespace bascule
