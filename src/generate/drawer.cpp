// SPDX-License-Identifier: Apache-2.0
#include "src/generate/drawer.h"

#include <algorithm>
#include <new>

#include "src/base/elementary.h"
#include "src/base/philox.h"
#include "src/graph/element_types.h"

namespace bascule {
namespace {

void record_encode(Session* session, const Pipeline& pipeline, const RecordOptions& options, bool keep_outputs,
                   RecordedDrawing* recorded) {
  BatchCounts one;
  one[kSamples] = 1;
  Graph& graph = session->add_graph(one, prompt_fields(options.drawing));
  recorded->encode = session->graphs() - 1;
  graph.set_part(kTextEncoderPart);
  const Tensor rows = pipeline.text_encoder.model->record(graph, Use::kEncodePrompt, options).output(kTextEmbeddings);
  if (keep_outputs) {
    recorded->text_embeddings = rows;
    graph.keep(rows);
  }
  graph.set_part(kUnetPart);
  pipeline.noise_predictor.model->record(graph, Use::kKeepPrompt, options);
}

void record_noise(Session* session, const Pipeline& pipeline, const RecordOptions& options, int slots,
                  bool keep_outputs, RecordedDrawing* recorded) {
  const DrawingOptions& drawing = recorded->options;
  BatchCounts bounds;
  bounds[kSamples] = drawing.rows();
  bounds[kPictures] = drawing.batch;
  Fields fields = pipeline.noise_predictor.model->fields(options);
  fields.push_back({kSamplingScales, DType::kFloat32, fixed_rows(1), 1 + slots, FieldSource::kGenerator});
  fields.push_back({kSamplingNumbers, DType::kInt32, fixed_rows(1), kSamplingNumberCount, FieldSource::kGenerator});
  Graph& graph = session->add_graph(bounds, fields);
  recorded->noise = session->graphs() - 1;
  const std::int64_t pixels = options.drawing.height * options.drawing.width;
  graph.set_scope("");  // the UNet looks for the tensor
  recorded->latents = latent_slots(graph, "latents", slots, drawing.batch, pixels, pipeline.unet.in_channels);
  const Extent pictures = rows_of_stream(kPictures, pixels);
  const SamplingFields call = {graph.field(kSamplingScales), graph.field(kSamplingNumbers)};
  // With guidance the UNet repeats what the samples of a picture have in common, as far as they do.
  sampling_input(graph, kNoisyLatents, recorded->latents, pictures, call,
                 drawing.is_guided() ? pictures : rows_per_sample(pixels));
  graph.set_part(kUnetPart);
  recorded->model_output =
      pipeline.noise_predictor.model->record(graph, Use::kPredictNoise, options).output(kModelOutput);
  recorded->timestep = graph.find(kTimeEmbedding);
  if (keep_outputs) graph.keep(recorded->model_output);
  graph.set_scope("sampler");
  sampling_step(graph, recorded->latents, pictures, recorded->model_output, drawing.guidance, call);
}

void record_decode(Session* session, const Pipeline& pipeline, const RecordOptions& options,
                   RecordedDrawing* recorded) {
  BatchCounts one;
  one[kSamples] = 1;
  Graph& graph = session->add_graph(one, pipeline.decoder.model->fields(options));
  recorded->decode = session->graphs() - 1;
  graph.set_part(kVaePart);
  recorded->picture = pipeline.decoder.model->record(graph, Use::kDecodeLatents, options).output(kPicture);
  recorded->decoded_latents = graph.find(kLatents);
}

}  // namespace

RecordedDrawing record_drawing(Session* session, const Pipeline& pipeline, const DrawingOptions& options,
                               const SamplingProgram& program, bool keep_outputs) {
  RecordedDrawing recorded;
  recorded.options = options;
  recorded.shape = {options.height / pipeline.factor(), options.width / pipeline.factor(), options.prompts,
                    pipeline.prompt_tokens()};
  RecordOptions record_options;
  record_options.frozen = {""};  // every name begins so: nothing is trained
  record_options.drawing = recorded.shape;
  record_encode(session, pipeline, record_options, keep_outputs, &recorded);
  record_noise(session, pipeline, record_options, program.slots, keep_outputs, &recorded);
  record_decode(session, pipeline, record_options, &recorded);
  for (const std::size_t number : {recorded.encode, recorded.noise, recorded.decode}) {
    if (options.precision == Precision::kBf16) choose_element_types(session->graph(number), Rounding::kOfReaders);
  }
  return recorded;
}

void fill_normal_latents(float* latents, std::uint64_t seed, std::uint64_t picture, std::int64_t first,
                         std::int64_t count) noexcept {
  constexpr std::uint32_t kUse = 0x6c617465u;  // "late"
  fill_normal(latents, first, count, 1.0, derive_key(seed, kUse), picture);
}

void write_time_embedding(float* out, const UnetConfig& config, double timestep) {
  const std::int64_t half = config.time_width() / 2;
  float* const cosines = out + (config.flip_sin_to_cos ? 0 : half);
  float* const sines = out + (config.flip_sin_to_cos ? half : 0);
  const double scale = -fixed_log(10000.0) / static_cast<double>(half - config.freq_shift);
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = timestep * fixed_exp(scale * static_cast<double>(i));
    cosines[i] = static_cast<float>(fixed_cos(angle));
    sines[i] = static_cast<float>(fixed_sin(angle));
  }
}

namespace {

// The fields of each graph, in the order in which they are declared.
enum : std::size_t { kIds, kPositions, kKept };
enum : std::size_t { kPromptPlacesField, kPromptCountsField, kScales, kNumbers };

constexpr std::int64_t kWord = 16;  // elements of a cache line
static_assert(sizeof(float) == sizeof(std::int32_t));

std::int64_t aligned(std::int64_t count) { return align_up<std::int64_t>(count, kWord); }

}  // namespace

Drawer::Drawer(const Pipeline& pipeline, const RecordedDrawing& recorded, const SamplingProgram& program)
    : pipeline_(pipeline),
      recorded_(recorded),
      program_(program),
      picture_elements_(recorded.latents.pixels * recorded.latents.channels) {}

std::size_t Drawer::cut_memory(std::byte* memory) {
  const std::int64_t tokens = recorded_.shape.prompt_tokens, rows = recorded_.options.rows();
  const std::int64_t calls = static_cast<std::int64_t>(program_.calls.size());
  ArrayCutter cutter(memory);
  cutter.cut(&ids_, tokens);
  cutter.cut(&positions_, tokens);
  cutter.cut(&kept_places_, tokens);
  cutter.cut(&time_, calls * aligned(pipeline_.unet.time_width()));
  cutter.cut(&scales_, calls * aligned(1 + program_.slots));
  cutter.cut(&numbers_, calls * kWord);
  cutter.cut(&prompt_places_, rows * tokens);
  cutter.cut(&prompt_counts_, rows);
  return cutter.used_bytes();
}

std::size_t Drawer::bytes() const {
  return const_cast<Drawer*>(this)->cut_memory(nullptr);  // only counts
}

void Drawer::seal(std::byte* memory, const Tapes& tapes) {
  cut_memory(memory);
  const std::int64_t tokens = recorded_.shape.prompt_tokens;
  for (std::int64_t t = 0; t < tokens; ++t) positions_[t] = static_cast<std::int32_t>(t);
  std::fill_n(prompt_counts_, recorded_.options.rows(), static_cast<std::int32_t>(tokens));
  for (std::size_t c = 0; c < program_.calls.size(); ++c) {
    const SamplingCall& call = program_.calls[c];
    const std::int64_t i = static_cast<std::int64_t>(c);
    write_time_embedding(time_ + i * aligned(pipeline_.unet.time_width()), pipeline_.unet, call.timestep);
    float* const scales = scales_ + i * aligned(1 + program_.slots);
    scales[0] = static_cast<float>(call.input_scale);
    std::transform(call.weights.begin(), call.weights.end(), scales + 1,
                   [](double weight) { return static_cast<float>(weight); });
    const std::int32_t numbers[] = {call.x, call.output, call.next, 0};
    std::copy(std::begin(numbers), std::end(numbers), numbers_ + i * kWord);
  }
  encode_ = tapes[recorded_.encode].get();
  noise_ = tapes[recorded_.noise].get();
  decode_ = tapes[recorded_.decode].get();
  latents_ = noise_->at(recorded_.latents.state);
  timestep_ = noise_->at(recorded_.timestep);
  decoded_latents_ = decode_->at(recorded_.decoded_latents);
  picture_ = decode_->at(recorded_.picture);
  text_embeddings_ = encode_->at(recorded_.text_embeddings);
  model_output_ = noise_->at(recorded_.model_output);
}

void Drawer::seal_alone(const Session& session) {
  memory_.reset(std::aligned_alloc(kCacheLine, align_up(bytes(), kCacheLine)));
  if (memory_ == nullptr) throw std::bad_alloc();
  seal(static_cast<std::byte*>(memory_.get()), session.tapes());
}

void Drawer::keep_prompt(std::int64_t place, Span<const std::int32_t> ids, Threads& threads) noexcept {
  const std::int64_t tokens = recorded_.shape.prompt_tokens;
  for (std::int64_t t = 0; t < tokens; ++t) {
    ids_[t] = ids[static_cast<std::size_t>(t)];
    kept_places_[t] = static_cast<std::int32_t>(place * tokens + t);
  }
  Replay replay;
  replay.batch.counts[kSamples] = 1;
  replay.batch.fields[kIds] = ids_;
  replay.batch.fields[kPositions] = positions_;
  replay.batch.fields[kKept] = kept_places_;
  encode_->replay(threads, replay);
}

void Drawer::set_noise(std::int64_t picture, const float* noise) noexcept {
  const std::int64_t pixels = recorded_.latents.pixels, channels = recorded_.latents.channels;
  const float scale = static_cast<float>(program_.initial_scale);
  float* const to = first_latents(picture);
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t c = 0; c < channels; ++c) to[p * channels + c] = scale * noise[c * pixels + p];
  }
}

void Drawer::draw_noise(std::int64_t picture, std::uint64_t seed, std::uint64_t number) noexcept {
  float* const to = first_latents(picture);
  fill_normal_latents(to, seed, number, 0, picture_elements_);
  const float scale = static_cast<float>(program_.initial_scale);
  for (std::int64_t i = 0; i < picture_elements_; ++i) to[i] *= scale;
}

void Drawer::call(std::size_t number, Span<const DrawnPrompt> prompts, Threads& threads) noexcept {
  const std::int64_t tokens = recorded_.shape.prompt_tokens;
  const std::int64_t pictures = static_cast<std::int64_t>(prompts.size());
  std::int32_t* places = prompt_places_;
  const auto read_prompt = [&](std::int32_t place) {
    for (std::int64_t t = 0; t < tokens; ++t) *places++ = static_cast<std::int32_t>(place * tokens + t);
  };
  if (recorded_.options.is_guided()) {
    for (const DrawnPrompt& one : prompts) read_prompt(one.negative);
  }
  for (const DrawnPrompt& one : prompts) read_prompt(one.prompt);
  Replay replay;
  replay.batch.counts[kSamples] = recorded_.options.is_guided() ? 2 * pictures : pictures;
  replay.batch.counts[kPictures] = pictures;
  const std::int64_t i = static_cast<std::int64_t>(number);
  std::copy_n(time_ + i * aligned(pipeline_.unet.time_width()), pipeline_.unet.time_width(), timestep_);
  replay.batch.fields[kPromptPlacesField] = prompt_places_;
  replay.batch.fields[kPromptCountsField] = prompt_counts_;
  replay.batch.fields[kScales] = scales_ + i * aligned(1 + program_.slots);
  replay.batch.fields[kNumbers] = numbers_ + i * kWord;
  noise_->replay(threads, replay);
}

void Drawer::decode(std::int64_t picture, Threads& threads) noexcept {
  decode_latents(latents(program_.calls.back().next, picture), threads);
}

void Drawer::decode_latents(const float* latents, Threads& threads) noexcept {
  Replay replay;
  replay.batch.counts[kSamples] = 1;
  std::copy_n(latents, picture_elements_, decoded_latents_);
  decode_->replay(threads, replay);
}

void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept {
  // Added to a number from 0 to 2^22, this leaves it no bits behind the point: the addition rounds it.
  constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23
  for (std::int64_t i = 0; i < count; ++i) {
    const float share = values[i] * 0.5f + 0.5f;
    const float clamped = share > 0.0f ? (share < 1.0f ? share : 1.0f) : 0.0f;
    bytes[i] = static_cast<std::uint8_t>((clamped * 255.0f + kRounds) - kRounds);
  }
}

}  // namespace bascule
