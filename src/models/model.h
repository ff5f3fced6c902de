// SPDX-License-Identifier: Apache-2.0
// A model as those who train, evaluate, save, search, generate and draw see it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/batch.h"
#include "src/graph/graph.h"
#include "src/graph/parameters.h"
#include "src/json/value.h"
#include "src/settings/settings.h"

namespace bascule {

// The inputs of a model that generates, one token of every row at a time, and the most there may
// be. A generator fills these fields, not a loader. Its rows are beams of samples, or, without beams, samples.

// Bounds of what is generated at once; states have these extents.
struct DecodingShape {
  std::int64_t slots = 0;           // rows
  std::int64_t max_length = 0;      // tokens of a row, its start token too
  std::int64_t source_rows = 0;     // tokens of all sources together
  std::int64_t longest_source = 0;  // and of one
  bool keeps_sources = false;       // kEncode reads kKeptSources: sources come and go
};

// A stream of Use::kDecode: the rows that have not ended. Its samples are those of which a row has not.
inline constexpr int kLiveRows = kFirstModelStream;

inline constexpr char kNextTokens[] = "next_tokens";      // (live rows): the token to read
inline constexpr char kNextPlaces[] = "next_places";      // (live rows): the cache's row that keeps its key and value
inline constexpr char kPastPlaces[] = "past_places";      // (live rows, max_length): the cache's rows of all its tokens
inline constexpr char kPastCounts[] = "past_counts";      // (live rows): their number, this token with them
inline constexpr char kLiveOffsets[] = "live_offsets";    // (samples + 1): the first row of each sample
inline constexpr char kSourcePlaces[] = "source_places";  // (samples, longest_source): the source's rows in its cache
inline constexpr char kSourceCounts[] = "source_counts";  // (samples): their number

// Of a batch of sources that is encoded, behind its own fields: (source tokens), the rows of the cache that keep the
// keys and values of each.
inline constexpr char kKeptSources[] = "kept_sources";

inline Fields decoding_fields(const DecodingShape& shape) {
  const Extent live = rows_of_stream(kLiveRows), samples = rows_per_sample(1), offsets = {kSamples, 1, 1};
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kNextTokens, DType::kInt32, live, 1, kSource},
          {kNextPlaces, DType::kInt32, live, 1, kSource},
          {kPastPlaces, DType::kInt32, live, shape.max_length, kSource},
          {kPastCounts, DType::kInt32, live, 1, kSource},
          {kLiveOffsets, DType::kInt32, offsets, 1, kSource},
          {kSourcePlaces, DType::kInt32, samples, shape.longest_source, kSource},
          {kSourceCounts, DType::kInt32, samples, 1, kSource}};
}

// The inputs of the models of a pipeline that draws, and the most there may be. Whoever draws
// fills these fields, not a loader.

// Bounds of what is drawn at once; graphs and states have these extents.
struct DrawingShape {
  std::int64_t height = 0, width = 0;  // of latents
  std::int64_t prompts = 0;            // whose keys and values are kept at a time
  std::int64_t prompt_tokens = 0;      // of each; the last ones are padding
};

// Tensors that parts find by name, and that therefore have no scope. The tensor that a text encoder writes and a UNet
// in the same graph reads: (samples * tokens, width).
inline constexpr char kTextEmbeddings[] = "text_embeddings";
// The tensors that a UNet reads and writes: (samples * pixels, channels). Whoever draws adds the first to its graph; it
// may be of another stream, of which each row stands for as many samples, all first ones before all second ones.
inline constexpr char kNoisyLatents[] = "noisy_latents", kModelOutput[] = "model_output";
// The tensor that a decoder writes: (pixels, 3), about -1 to 1.
inline constexpr char kPicture[] = "picture";

// Inputs of graphs, written before a replay. Of Use::kPredictNoise, (1, width): the sines and cosines of a timestep. Of
// Use::kDecodeLatents: (pixels, channels).
inline constexpr char kTimeEmbedding[] = "timestep", kLatents[] = "latents";

// Fields.
inline constexpr char kPromptIds[] = "prompt_ids";              // Use::kEncodePrompt (tokens): the tokens of a prompt
inline constexpr char kPromptPositions[] = "prompt_positions";  // (tokens): their positions, 0, 1, ...
inline constexpr char kKeptPlaces[] = "kept_places";            // (tokens): the places that keep their keys and values
inline constexpr char kPromptPlaces[] = "prompt_places";        // (samples, tokens): the places of each row's prompt
inline constexpr char kPromptCounts[] = "prompt_counts";        // (samples): their number

inline Fields prompt_fields(const DrawingShape& shape) {
  const Extent tokens = rows_per_sample(shape.prompt_tokens);
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kPromptIds, DType::kInt32, tokens, 1, kSource},
          {kPromptPositions, DType::kInt32, tokens, 1, kSource},
          {kKeptPlaces, DType::kInt32, tokens, 1, kSource}};
}

inline Fields noise_fields(const DrawingShape& shape) {
  const Extent samples = rows_per_sample(1);
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kPromptPlaces, DType::kInt32, samples, shape.prompt_tokens, kSource},
          {kPromptCounts, DType::kInt32, samples, 1, kSource}};
}

// A model as those who train, evaluate, save and search see it: a family (families.h) opens one from a config.json and
// a head. They know no family and no head. Before the seal.

// Where a model comes from.
struct ModelSource {
  std::string config_path;
  // Whether the weights that it will be given hold a tensor of this full name; none: they do not matter.
  std::function<bool(const std::string& tensor)> has_weights;
  // Whether they hold both tensors with the same values; none: they do not matter.
  std::function<bool(const std::string& a, const std::string& b, const FileNames& names)> are_equal = {};
  // The classes' names by number, in place of those of config.json; empty: those.
  std::vector<std::string> classes = {};
  // Labels are values, in place of the classes of config.json.
  bool has_values = false;
  // The side of the pictures in pixels, in place of that of config.json; 0: that. For families that resize
  // (Family::resizes_pictures).
  std::int64_t image_size = 0;
  // Columns of texts that a row has, for heads that embed each text by itself.
  std::int64_t texts_in_a_row = 1;
  // For a head that embeds texts: how rows become a vector, and whether that gets the length 1.
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  // Its loss, where a row has several texts.
  EmbeddingLoss loss = EmbeddingLoss::kRanking;
  float similarity_scale = 20.0f;
};

// The inputs that samples are prepared for.
struct ModelInputs {
  std::int64_t image_side = 0;  // of square RGB pictures; 0: none are read
  std::int64_t image_channels = 3;
  std::int64_t picture_rows = 0;  // of a picture in the layers
  // By number: one text, or a source and its target. A user sets max_length, and it is 0 here.
  TextShape texts[kMaxTexts];
  bool reads_pairs = false;         // the first text is a pair, one sequence
  bool pairs_are_optional = false;  // or one text, throughout a split
  // The first text of a sample is so many texts one after another, each with offsets and a sample key of its own.
  std::int64_t texts_in_a_row = 1;
  bool reads_words = false;              // the first text is a list of words, and their tags are classes
  std::int64_t classes = 2;              // labels of rows are numbers below it
  std::vector<std::string> class_names;  // by number; empty: config.json says neither names nor how many there are
  bool has_values = false;               // labels are values, and there are no classes
};

// The words about the model in README.md of a finished run's folder.
struct ModelCardWords {
  const char* kind = "";  // "BridgeTower"
  std::vector<const char*> tags;
  const char* pipeline_tag = "";
  const char* processor = "";            // Hugging Face class; empty: Transformers cannot load the model
  const char* preparation_note = "";     // how data.preprocessing = "training" differs from it; may be empty
  const char* library = "transformers";  // which loads the folder
};

// Python beside the weights of a model that no class of Transformers expresses.
struct ModelCode {
  const char* file = nullptr;        // its name; null: a class of Transformers loads the folder
  const char* text = "";             // its content
  const char* auto_class = nullptr;  // of Transformers, which loads the folder with trust_remote_code=True
};

// The vectors of texts, (samples * texts in a row, embedding_width()): those of a sample one after another.
inline constexpr char kSentenceEmbedding[] = "sentence_embedding";
// The gradients of the loss by them, where a batch is trained in pieces.
inline constexpr char kEmbeddingGradients[] = "embedding_gradients";

// The purpose of a graph of a model. The parameters are the same in every one.
enum class Use {
  kTrain,         // the loss; derive_backward(graph) then makes it a training graph
  kTrainPiece,    // the same of some samples of a batch, whose loss is another graph's: outputs: kSentenceEmbedding,
                  // and kEmbeddingGradients, an input
  kTrainLoss,     // that loss, over all samples of the batch; outputs: kSentenceEmbedding, an input
  kEvaluate,      // the loss, and what the judge keeps
  kReference,     // the loss, and whatever else the reference computes
  kEmbedText,     // outputs: "text_embeds", or kSentenceEmbedding, (samples, embedding_width()), of a text alone
  kEmbedPicture,  // outputs: "image_embeds", (samples, embedding_width()), of a picture alone
  kEncode,        // fills the states that kDecode reads of a source; a batch's fields are those of fields()
  kDecode,        // fields: decoding_fields(); outputs: "logits" (live rows, vocabulary) of each row's next token
  // Parts of a pipeline that draws. The first two share a graph, in this order.
  kEncodePrompt,  // fields: prompt_fields(); outputs: kTextEmbeddings
  kKeepPrompt,    // fills the states that kPredictNoise reads of a prompt
  kPredictNoise,  // fields: noise_fields(); outputs: kModelOutput for kNoisyLatents, which must be in the graph. Where
                  // kTextEmbeddings is, too, it reads the prompts' rows there, and no field
  kDecodeLatents  // no fields; outputs: kPicture
};

struct RecordOptions {
  std::vector<std::string> frozen;  // parts that are not trained
  bool dropout = false;             // where a batch is trained: as config.json says
  float label_smoothing = 0.0f;     // of losses over classes
  bool predictions = false;         // kEvaluate: what the judge keeps of each row can be read
  bool mixed_labels = false;        // samples have two labels each, and the share of the first
  // Of heads that embed texts; 0: as many as the model's inputs have. Of 1 there is no loss.
  std::int64_t texts_in_a_row = 0;
  std::int64_t height = 0, width = 0;  // of pictures; 0: the model's own side
  DecodingShape decoding;              // kEncode, kDecode
  DrawingShape drawing;                // kEncodePrompt to kDecodeLatents
};

// How rows of a tensor stand to those of the reference, which pads texts and gives every row.
enum class ReferenceRows { kAll, kFirstOfSample, kTokens };

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// The tensors side by side, sample by sample, are what the reference calls `name`.
struct ReferenceOutput {
  std::string name;
  std::vector<Tensor> tensors;
  ReferenceRows rows = ReferenceRows::kAll;
  int text = 0;     // kTokens: the number of the text whose tokens they are
  int column = -1;  // where a row has several texts: the one whose rows the reference has; -1: of all
};

// The loss is the sum of its terms, at most kMaxLossTerms. Each is a mean over rows of one stream: those of the batch,
// and, as all micro-batches and ranks have a weight for each term, those of the whole update.
struct LossTerm {
  std::string name;  // of the reference; "loss" where there is only one
  Tensor loss;
  int stream = kSamples;
};

// The result of recording a model, for running its tape.
struct Recording {
  std::vector<NamedTensor> outputs;        // kept for the judge, beside the terms of the loss
  std::vector<ReferenceOutput> reference;  // the same
  std::vector<LossTerm> losses;            // each at the place of its number; none: a bare model
  std::int64_t gathered_cols = 0;          // of what a loss over the samples of all ranks gathers

  // The output of that name, which must exist.
  Tensor output(const std::string& name) const;
};

class Model {
 public:
  virtual ~Model() = default;

  // Names in Hugging Face folders: the class, and what the names of its body's tensors begin with; a file may leave it
  // out.
  virtual const char* architecture() const = 0;
  virtual const char* body_prefix() const = 0;
  // With it, the names that older and newer files have.
  virtual FileNames file_names() const { return body_prefix(); }
  // Whether a tensor that the source does not have is initialised. Otherwise it must be there.
  virtual bool may_be_fresh(const std::string& tensor) const = 0;
  // Tensors of the class's checkpoint that take no part in training, with the law of their fresh values: they are
  // copied from the source checkpoint to ours, or made anew.
  virtual std::vector<ParameterPiece> unused_tensors() const = 0;
  // Tensors that older versions of the class wrote and nothing reads: neither listed nor copied.
  virtual bool is_ignored(const std::string& /*tensor*/) const { return false; }
  virtual ModelCardWords card() const = 0;
  // Whether a tensor's values mean nothing once the classes are others.
  virtual bool depends_on_classes(const std::string&) const { return false; }
  virtual ModelCode code() const { return {}; }
  // For a tensor that the source has in another shape: makes this model's values of those. Null where it cannot, and
  // the source does not fit the model.
  using TensorChange = std::function<void(float* to, const float* from)>;
  virtual TensorChange change_of(const std::string&, const std::vector<std::int64_t>& /*shape*/) const { return {}; }
  // Makes the config.json of the source that of this model.
  virtual void complete_config(Json*) const {}
  // For people, when a run starts: effects of the configuration that are easily missed.
  virtual std::vector<std::string> notes() const { return {}; }

  virtual ModelInputs inputs() const = 0;
  // The fields of a batch that the model reads; the loader fills them. Of the options, only dropout, mixed labels, the
  // number of texts and the size of pictures count.
  virtual Fields fields(const RecordOptions& options) const = 0;

  // The graphs that record() can make.
  virtual std::vector<Use> uses() const { return {Use::kTrain, Use::kEvaluate, Use::kReference}; }
  // use: one of uses(). What its comment names can be read after a replay.
  virtual Recording record(Graph& graph, Use use, const RecordOptions& options) const = 0;
  // 0: the model embeds neither texts nor pictures.
  virtual std::int64_t embedding_width() const { return 0; }
};

bool serves(const Model& model, Use use);

}  // namespace bascule
