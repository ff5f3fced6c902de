// SPDX-License-Identifier: Apache-2.0
// A model as those who train, evaluate, save and search see it: a family (families.h) opens one from a config.json and
// a head. They know no family and no head. Before the seal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/graph/file_names.h"
#include "src/graph/graph.h"

namespace bascule {

// Where a model comes from.
struct ModelSource {
  std::string config_path;
  // Whether the weights that it will be given hold a tensor of this full name; none: they do not matter.
  std::function<bool(const std::string& tensor)> has_weights;
  // Whether they hold both tensors with the same values; none: they do not matter.
  std::function<bool(const std::string& a, const std::string& b, const FileNames& names)> are_equal = {};
};

// The inputs that samples are prepared for.
struct ModelInputs {
  std::int64_t image_side = 0;  // of square RGB pictures; 0: none are read
  std::int64_t image_channels = 3;
  std::int64_t vocabulary_size = 0;  // of packed texts; 0: none are read
  std::int64_t max_positions = 0;    // the rows of the table of positions
  PositionRule positions;
  std::int64_t token_types = 1;  // of packed texts
  std::string second_caption;    // column of the second text of pairs; empty: a sample has one text
  std::int64_t classes = 2;      // labels of rows are numbers below it
};

// The words about the model in README.md of a finished run's folder.
struct ModelCardWords {
  const char* kind = "";  // "BridgeTower"
  std::vector<const char*> tags;
  const char* pipeline_tag = "";
  const char* processor = "";         // Hugging Face class; empty: Transformers cannot load the model
  const char* preparation_note = "";  // how data.preprocessing = "training" differs from it; may be empty
};

struct RecordOptions {
  std::vector<std::string> frozen;     // parts that are not trained
  bool dropout = false;                // training: as config.json says
  float label_smoothing = 0.0f;        // of losses over classes
  bool predictions = false;            // without a backward part: what the judge keeps of each row can be read
  bool every_output = false;           // without a backward part: whatever the reference computes can be read
  bool mixed_labels = false;           // samples have two labels each, and the share of the first
  std::int64_t height = 0, width = 0;  // of pictures; 0: the model's own side
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
};

// The result of recording a model, for running its tape.
struct Recording {
  std::vector<NamedTensor> outputs;  // kept for the judge; the loss is "loss"
  std::vector<ReferenceOutput> reference;
  Tensor loss;                     // none: a bare model
  int loss_stream = 0;             // the loss is a mean over the batch's rows of this stream
  std::int64_t gathered_cols = 0;  // of what a loss over the samples of all ranks gathers
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
  virtual ModelCardWords card() const = 0;

  virtual ModelInputs inputs() const = 0;
  // The fields of a batch that the model reads; the loader fills them. Of the options, only dropout, mixed labels and
  // the size of pictures count.
  virtual Fields fields(const RecordOptions& options) const = 0;

  // Training and evaluation. derive_backward(graph) then makes it a training graph.
  virtual Recording record(Graph& graph, const RecordOptions& options) const = 0;
  // The embedding of a text or a picture alone, (samples, embedding_width()), kept; 0 and none where the model compares
  // no such things.
  virtual std::int64_t embedding_width() const { return 0; }
  virtual Tensor record_text_embedding(Graph&) const { return {}; }
  virtual Tensor record_picture_embedding(Graph&) const { return {}; }
};

}  // namespace bascule
