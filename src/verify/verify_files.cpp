// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "src/base/error.h"
#include "src/models/sentence_folder.h"
#include "src/session/model_folder.h"

namespace bascule {
namespace {

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

constexpr Named<Optimizer> kOptimizers[] = {
    {"adamw", Optimizer::kAdamW}, {"lamb", Optimizer::kLamb}, {"adafactor", Optimizer::kAdafactor}};
constexpr Named<EmbeddingLoss> kEmbeddingLosses[] = {
    {"multiple_negatives_ranking", EmbeddingLoss::kRanking},
    {"multiple_negatives_symmetric_ranking", EmbeddingLoss::kSymmetricRanking},
    {"cosent", EmbeddingLoss::kCosent},
    {"cosine_similarity", EmbeddingLoss::kCosineSimilarity}};
constexpr Named<Scheduler> kSchedulers[] = {{"linear", Scheduler::kLinear}, {"cosine", Scheduler::kCosine}};

template <typename Value, std::size_t kCount>
const Value* find(const Named<Value> (&all)[kCount], const std::string& name) {
  for (const Named<Value>& one : all) {
    if (name == one.name) return &one.value;
  }
  return nullptr;
}

// "optimizer \"x\" is not supported, only \"a\" or \"b\"".
template <typename Value, std::size_t kCount>
std::string unknown(const char* key, const std::string& name, const Named<Value> (&all)[kCount]) {
  std::string known;
  for (const Named<Value>& one : all) known += (known.empty() ? "\"" : " or \"") + (one.name + std::string("\""));
  return std::string(key) + " \"" + name + "\" is not supported, only " + known;
}

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

void read_expected(const CaseStatements& files, CaseContents* contents) {
  for (const StoredTensor& tensor : files.expected.tensors()) {
    if (begins_with(tensor.name, "generated.") || begins_with(tensor.name, "generated_scores.")) {
      if (files.generates) {
        contents->generated = true;
      } else {
        contents->not_compared.push_back({tensor.name, "the model generates no texts"});
      }
    } else if (begins_with(tensor.name, "grad.") || begins_with(tensor.name, "grad_sample.") ||
               begins_with(tensor.name, "grad_l2.")) {
      contents->gradients = true;
    } else {
      (tensor.name == "loss" ? contents->loss : contents->outputs) = true;
    }
  }
}

void read_run(const CaseStatements& files, CaseContents* contents) {
  const std::string where = files.folder + "/case.json";
  const Json* const train = find_member(files.description, "train", where);
  if (train == nullptr) {
    if (files.has_steps_file) contents->not_compared.push_back({"steps.safetensors", "case.json has no \"train\""});
    return;
  }
  get_object(files.description, "train", where);
  const std::string optimizer = optimizer_name(*train, where), scheduler = scheduler_name(*train, where);
  if (find_optimizer(optimizer) == nullptr) {
    contents->not_compared.push_back({"training run", unknown("optimizer", optimizer, kOptimizers)});
  } else if (find_scheduler(scheduler) == nullptr) {
    contents->not_compared.push_back({"training run", unknown("lr_scheduler_type", scheduler, kSchedulers)});
  } else {
    contents->run = true;
  }
}

void leave_out(const char* name, const char* reason, bool* held, CaseContents* contents) {
  if (*held) contents->not_compared.push_back({name, reason});
  *held = false;
}

}  // namespace

const Optimizer* find_optimizer(const std::string& name) { return find(kOptimizers, name); }
const Scheduler* find_scheduler(const std::string& name) { return find(kSchedulers, name); }

std::string optimizer_name(const Json& train, const std::string& where) {
  return get_string(train, "optimizer", where, "adamw");
}

std::string scheduler_name(const Json& train, const std::string& where) {
  return get_string(train, "lr_scheduler_type", where, "linear");
}

CaseContents contents_of(const CaseStatements& files, Precision precision) {
  CaseContents contents;
  read_expected(files, &contents);
  read_run(files, &contents);
  if (precision == Precision::kBf16) {
    leave_out("outputs", "bf16 has no limit for them", &contents.outputs, &contents);
    leave_out("generated texts", "bf16 has no limit for them", &contents.generated, &contents);
    leave_out("training run", "bf16 has no limit for it", &contents.run, &contents);
    if (find_member(files.errors, "bf16_autocast", files.folder + "/float32_error.json") == nullptr) {
      constexpr const char* kReason = "float32_error.json has no \"bf16_autocast\", which sets the limits in bf16";
      leave_out("loss", kReason, &contents.loss, &contents);
      leave_out("gradients", kReason, &contents.gradients, &contents);
    }
  }
  // Which parameters have no gradient says only a graph that makes gradients.
  const Json* const unused = find_member(files.description, "unused_parameters", files.folder);
  if (unused != nullptr && unused->is_array() && unused->size() > 0 && !contents.gradients && !contents.run)
    contents.not_compared.push_back({"unused_parameters", "no gradients and no training run are compared"});
  return contents;
}

namespace {

constexpr std::int64_t kNoLabel = -100;

const StoredTensor& of_dimensions(std::size_t count, const TensorSource& source, const std::string& name,
                                  const std::string& where) {
  const StoredTensor* const tensor = source.find(name);
  if (tensor != nullptr && tensor->shape.size() == count) return *tensor;
  throw Error(ErrorKind::kData, where, std::string("has no ") + (count == 2 ? "two" : "four") + "-dimensional " + name);
}

// A text that a decoder reads, from its labels: -100 at the end is padding, elsewhere a token that no loss counts,
// which the decoder reads as a padding token. Where no token has a label, the decoder reads its start token alone.
void read_target(const CaseFiles& files, const std::string& name, const std::string& where, PaddedBatch* batch) {
  const Extents& shape = of_dimensions(2, files.batches, name, where).shape;
  if (shape[0] != batch->samples || shape[1] == 0)
    throw Error(ErrorKind::kData, where,
                name + " has shape " + shape_text(shape) + ", but needs a row for each of " +
                    count_of(batch->samples, "sample"));
  PaddedText& text = batch->texts[1];
  text.length = shape[1];
  text.token_labels = read_integers(files.batches, name, where);
  text.input_ids = text.token_labels;
  std::replace(text.input_ids.begin(), text.input_ids.end(), kNoLabel, std::int64_t{files.inputs.texts[1].pad_id});
  text.attention_mask.assign(text.input_ids.size(), 0);
  for (auto row = text.token_labels.begin(); row != text.token_labels.end(); row += text.length) {
    const auto past = std::find_if(std::make_reverse_iterator(row + text.length), std::make_reverse_iterator(row),
                                   [](std::int64_t label) { return label != kNoLabel; });
    std::fill_n(text.attention_mask.begin() + (row - text.token_labels.begin()),
                std::max<std::ptrdiff_t>(1, past.base() - row), 1);
  }
}

void read_zero_gradient(CaseFiles* files) {
  if (find_member(files->description, "zero_gradient", files->folder) == nullptr) return;
  for (const Json& slice : get_array(files->description, "zero_gradient", files->folder)) {
    files->zero_gradient.push_back({get_string(slice, "parameter", files->folder),
                                    get_int(slice, "start", files->folder), get_int(slice, "stop", files->folder)});
  }
  if (files->contents.gradients && !files->zero_gradient.empty())
    files->gradient_norm = get_number(files->description, "gradient_norm", files->folder);
}

void read_contents(Precision precision, CaseFiles* files) {
  namespace fs = std::filesystem;
  const std::string expected = files->folder + "/expected.safetensors", steps = files->folder + "/steps.safetensors";
  if (fs::exists(expected)) files->expected = open_safetensors(expected);
  files->contents = contents_of({files->folder, files->description, files->errors, serves(*files->model, Use::kDecode),
                                 files->expected, fs::exists(steps)},
                                precision);
  if (!files->contents.run) return;
  files->steps = open_safetensors(steps);
  const std::string where = files->folder + "/case.json";
  files->optimizer = *find_optimizer(optimizer_name(get_object(files->description, "train", where), where));
}

void read_objective(const Json& description, const std::string& where, ModelSource* source) {
  const Json& objective = get_object(description, "objective", where);
  const std::string loss = get_string(objective, "loss", where);
  const EmbeddingLoss* const known = find(kEmbeddingLosses, loss);
  if (known == nullptr) throw Error(ErrorKind::kData, where, unknown("loss", loss, kEmbeddingLosses));
  source->loss = *known;
  source->similarity_scale = static_cast<float>(get_number(objective, "scale", where, 1.0));
}

// A model that embeds texts has the pooling of its folder, and the texts and the loss of the case.
std::unique_ptr<Model> open_case_model(const CaseFiles& files) {
  const std::string where = files.folder + "/case.json", head = get_string(files.description, "head", where);
  ModelSource source = model_source(files.folder);
  std::unique_ptr<Model> model = open_model(source, head);
  if (find_member(files.description, "texts_in_a_row", where) == nullptr) return model;
  const SentenceFolder sentence =
      read_sentence_folder(files.folder, model->embedding_width(), model->inputs().texts[0]);
  source.pooling = sentence.pooling;
  source.normalize = sentence.normalize;
  source.texts_in_a_row = get_int(files.description, "texts_in_a_row", where);
  read_objective(files.description, where, &source);
  return open_model(source, head);
}

// The texts of a sample one after another, padded to the longest of all columns.
void read_columns(const CaseFiles& files, const std::string& name, const std::string& where, PaddedBatch* batch) {
  const std::int64_t columns = files.inputs.texts_in_a_row;
  PaddedText& text = batch->texts[0];
  std::vector<const StoredTensor*> ids;
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::string column = name + "text" + std::to_string(c) + ".input_ids";
    ids.push_back(files.batches.find(column));
    const StoredTensor* const own = ids.back();
    if (own == nullptr || own->shape.size() != 2 || own->shape[0] != ids[0]->shape[0])
      throw Error(ErrorKind::kData, where, "has no two-dimensional " + column + " with a row for each sample");
    text.length = std::max(text.length, own->shape[1]);
  }
  batch->samples = ids[0]->shape[0];
  text.input_ids.assign(static_cast<std::size_t>(batch->samples * columns * text.length), 0);
  text.attention_mask = text.input_ids;
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::string column = name + "text" + std::to_string(c) + ".";
    const std::int64_t length = ids[static_cast<std::size_t>(c)]->shape[1];
    for (const auto& [tensor, to] :
         {std::pair{"input_ids", &text.input_ids}, {"attention_mask", &text.attention_mask}}) {
      const std::vector<std::int64_t> values = read_integers(files.batches, column + tensor, where);
      for (std::int64_t s = 0; s < batch->samples; ++s)
        std::copy_n(values.begin() + s * length, length, to->begin() + (s * columns + c) * text.length);
    }
  }
}

}  // namespace

std::vector<std::int64_t> read_integers(const TensorSource& source, const std::string& name, const std::string& where) {
  const StoredTensor* tensor = source.find(name);
  if (tensor == nullptr) throw Error(ErrorKind::kData, where, "no tensor \"" + name + "\"");
  if (tensor->dtype != DType::kInt64) throw Error(ErrorKind::kData, where, "\"" + name + "\" is not int64");
  std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(tensor->shape)));
  source.read_bytes(values.data(), *tensor);
  return values;
}

std::vector<float> read_floats(const TensorSource& source, const std::string& name, const std::string& where) {
  const StoredTensor* tensor = source.find(name);
  if (tensor == nullptr) throw Error(ErrorKind::kData, where, "no tensor \"" + name + "\"");
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor->shape)));
  source.read_float32(values.data(), *tensor, 0, static_cast<std::int64_t>(values.size()));
  return values;
}

const Slice* CaseFiles::zero_slice(const std::string& parameter, std::size_t elements) const {
  for (const Slice& slice : zero_gradient) {
    if (slice.parameter != parameter) continue;
    if (slice.start >= 0 && slice.start <= slice.stop && slice.stop <= static_cast<std::int64_t>(elements))
      return &slice;
    throw Error(ErrorKind::kData, folder + "/case.json",
                "\"zero_gradient\" of " + parameter + " is not within its " + std::to_string(elements) + " elements");
  }
  return nullptr;
}

std::vector<std::string> strings_of(const CaseFiles& files, const std::string& key) {
  if (find_member(files.description, key, files.folder) == nullptr) return {};
  return get_strings(files.description, key, files.folder);
}

CaseFiles open_case(const std::string& folder, Precision precision) {
  CaseFiles files;
  files.folder = folder;
  files.description = read_json_file(folder + "/case.json");
  files.errors = read_json_file(folder + "/float32_error.json");
  files.batches = open_safetensors(folder + "/batch.safetensors");
  files.model = open_case_model(files);
  read_contents(precision, &files);
  files.inputs = files.model->inputs();
  read_zero_gradient(&files);
  files.label_smoothing = get_number(files.description, "label_smoothing", folder, 0.0);
  files.bf16_draws = get_int(files.description, "bf16_draws", folder + "/case.json", 1);
  if (files.bf16_draws < 1) throw Error(ErrorKind::kData, folder + "/case.json", "\"bf16_draws\" is less than 1");
  files.has_mixed_labels = files.batches.find("batch0.mixed_labels") != nullptr;
  if (files.inputs.image_side > 0) {
    const Extents& shape = of_dimensions(4, files.batches, "batch0.pixel_values", folder + "/batch.safetensors").shape;
    files.height = shape[2];
    files.width = shape[3];
  }
  return files;
}

PaddedBatch read_batch(const CaseFiles& files, std::int64_t k) {
  const std::string where = files.folder + "/batch.safetensors", name = "batch" + std::to_string(k) + ".";
  PaddedBatch batch;
  PaddedText& text = batch.texts[0];
  if (files.inputs.texts_in_a_row > 1) {
    read_columns(files, name, where, &batch);
  } else if (files.inputs.texts[0].vocabulary_size > 0) {
    const Extents& shape = of_dimensions(2, files.batches, name + "input_ids", where).shape;
    batch.samples = shape[0];
    text.length = shape[1];
    text.input_ids = read_integers(files.batches, name + "input_ids", where);
    text.attention_mask = read_integers(files.batches, name + "attention_mask", where);
    if (files.batches.find(name + "token_type_ids") != nullptr)
      text.token_types = read_integers(files.batches, name + "token_type_ids", where);
  }
  if (files.inputs.image_side > 0) {
    batch.samples = of_dimensions(4, files.batches, name + "pixel_values", where).shape[0];
    batch.pixels = read_floats(files.batches, name + "pixel_values", where);
  }
  // Labels of tokens that are a text of their own, of tokens, or of samples.
  if (files.inputs.texts[1].vocabulary_size > 0) {
    read_target(files, name + "labels", where, &batch);
  } else if (files.inputs.has_values) {
    const bool has_scores = files.inputs.texts_in_a_row > 1;
    batch.label_values = read_floats(files.batches, name + (has_scores ? "scores" : "labels"), where);
  } else if (const StoredTensor* const labels = files.batches.find(name + "labels")) {
    (labels->shape.size() == 2 ? text.token_labels : batch.labels) =
        read_integers(files.batches, name + "labels", where);
  }
  if (files.batches.find(name + "next_sentence_label") != nullptr)
    batch.labels = read_integers(files.batches, name + "next_sentence_label", where);
  if (files.has_mixed_labels) {
    batch.mixed_labels = read_integers(files.batches, name + "mixed_labels", where);
    batch.label_shares = read_floats(files.batches, name + "label_share", where);
  }
  return batch;
}

}  // namespace bascule
