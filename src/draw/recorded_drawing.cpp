// SPDX-License-Identifier: Apache-2.0
#include "src/draw/recorded_drawing.h"

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

}  // namespace bascule
