// SPDX-License-Identifier: Apache-2.0
#include "src/serve/served_model.h"

#include <filesystem>
#include <utility>

#include "src/ask/ask.h"
#include "src/ask/search_model.h"
#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/graph/element_types.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kMatching[] = "match";

// The command that asks the folder's model: of the head that config.json names. A body alone makes vectors. A model of
// pairs with a picture: kMatching.
std::string asking_command(const std::string& folder) {
  const std::string body = body_folder(folder), path = body + "/config.json";
  if (!std::filesystem::exists(path))
    throw Error(ErrorKind::kData, folder, "holds no model: no config.json", "name the folder of a finished run");
  if (body != folder || std::filesystem::exists(folder + "/" + kModulesFile)) return "embed";
  const Family& family = family_of(path);
  const Json json = read_json_file(path);
  std::vector<std::string> classes;
  if (find_member(json, "architectures", path) != nullptr) classes = get_strings(json, "architectures", path);
  std::string command = family.heads.front().command;
  for (const FamilyHead& head : family.heads) {
    const bool is_asked = std::string_view(head.command).size() > 0;
    if (std::find(classes.begin(), classes.end(), head.architecture) != classes.end())
      // What learns labels of pairs of texts learns masked words beside them, which `bascule fill` asks.
      return is_asked ? head.command : !head.words.reads_labels ? "" : head.words.reads_pairs ? "fill" : kMatching;
    if (head.words.embeds_texts) command = head.command;
  }
  return command;
}

}  // namespace

ServedModel::ServedModel(const Settings& settings) : folder_(settings.model.model_name_or_path.resolved) {
  const std::string& folder = folder_;
  if (is_pipeline_folder(folder)) {
    task_ = ServedTask::kDraws;
    drawer_ = std::make_unique<ServedDrawer>(settings.model, settings.serve, settings.origin);
    longest_ = drawer_->pipeline().prompt_tokens();
    tokens_ = load_shown_tokens(settings.model.tokenizer_name.is_given() ? settings.model.tokenizer_name.resolved
                                                                         : drawer_->pipeline().tokenizer_folder());
    for (const std::string& text : tokens_) longest_name_ = std::max(longest_name_, text.size());
    return;
  }
  const std::string command = asking_command(folder);
  if (command == "embed") {
    model_ = open_sentence_model(folder, &sentence_);
  } else if (command == "fill" || command == "classify" || command == "generate") {
    model_ = open_finished_model(folder, command);
  } else if (command == "search") {
    model_ = open_embedding_model(folder);
    sentence_.body = folder;
    sentence_.normalize = true;
  } else if (command == kMatching) {
    model_ = open_finished_model(folder, "");
  } else {
    throw Error(
        ErrorKind::kData, folder, "holds a model that `bascule serve` cannot ask",
        "name one that makes vectors, fills in words, writes texts, or classifies texts, pictures or pairs of both");
  }
  fields_ = model_->fields({});
  if (model_->inputs().texts[0].vocabulary_size > 0) open_texts(command, settings);
  if (model_->inputs().image_side > 0) open_pictures(settings.serve.max_picture_pixels);
  for (const std::vector<std::string>* texts : {&names_, &tokens_}) {
    for (const std::string& text : *texts) longest_name_ = std::max(longest_name_, text.size());
  }
}

void ServedModel::open_texts(const std::string& command, const Settings& settings) {
  const PathSetting& tokenizer = settings.model.tokenizer_name;
  const std::string own = tokenizer.is_given() ? tokenizer.resolved : body_folder(folder_);
  const ModelInputs inputs = model_->inputs();
  const TextShape& shape = inputs.texts[0];
  tokenizer_ = load_tokenizer(own);
  if (tokenizer_->vocabulary_size() > shape.vocabulary_size)
    throw Error(ErrorKind::kData, own,
                "its tokenizer has " + std::to_string(tokenizer_->vocabulary_size()) + " tokens, the model " +
                    std::to_string(shape.vocabulary_size),
                "use the tokenizer of the model");
  longest_ = shape.max_positions - shape.positions.first;
  outputs_ = shape.vocabulary_size;
  if (command == "embed") {
    longest_ = sentence_.max_seq_length;
    outputs_ = model_->embedding_width();
    if (sentence_.lower_case) tokenizer_ = lower_cased(std::move(tokenizer_));
  } else if (command == "search") {
    longest_ = std::min(longest_, read_run_inputs(folder_).max_seq_length);
    outputs_ = model_->embedding_width();
  } else if (command == "fill") {
    task_ = ServedTask::kWords;
    if (tokenizer_->mask_id() < 0) throw Error(ErrorKind::kData, folder_, "its tokenizer has no mask token");
  } else if (command == "generate") {
    task_ = ServedTask::kWrites;
    writer_ = std::make_unique<ServedWriter>(folder_, *model_, settings.serve, settings.origin);
    longest_ = read_run_inputs(folder_).max_source_length;
  } else {
    open_classes();
  }
  tokens_ = load_shown_tokens(own);
}

void ServedModel::open_pictures(std::int64_t max_pixels) {
  constexpr std::size_t kDecoderBytes = std::size_t{128} << 20;
  const ModelInputs inputs = model_->inputs();
  const std::string config = folder_ + "/config.json";
  if (inputs.image_channels != 3) throw Error(ErrorKind::kData, config, "num_channels is not 3: pictures are RGB");
  if (!reads_texts()) {
    task_ = ServedTask::kPictureClasses;
    names_ = class_names(folder_, inputs.classes);
    outputs_ = inputs.classes;
  }
  media_ = media_settings_of_model(folder_, inputs.image_side);
  media_.max_pixels = static_cast<std::uint32_t>(std::min<std::int64_t>(max_pixels, media_.max_pixels));
  media_.memory_bytes = kDecoderBytes;
  picture_rows_ = inputs.picture_rows;
  if (!reads_texts()) longest_ = picture_rows_;
}

void ServedModel::open_classes() {
  const ModelInputs inputs = model_->inputs();
  const RunInputs run = read_run_inputs(folder_);
  task_ = inputs.reads_words ? ServedTask::kTags : inputs.has_values ? ServedTask::kValues : ServedTask::kClasses;
  names_ = class_names(folder_, inputs.classes);
  outputs_ = inputs.has_values ? 1 : inputs.classes;
  reads_pairs_ = run.reads_pairs && !inputs.reads_words;
  if (inputs.reads_words) token_texts_ = load_token_texts(folder_);
  if (run.are_of_run) longest_ = std::min(longest_, run.max_seq_length);
}

std::int64_t ServedModel::numbers() const {
  return task_ == ServedTask::kVectors || task_ == ServedTask::kValues ? outputs_ : 0;
}

std::int64_t ServedModel::guesses() const {
  if (task_ == ServedTask::kWords) return kMostMasks * std::min(outputs_, kMostGuesses);
  return task_ == ServedTask::kClasses || task_ == ServedTask::kPictureClasses ? std::min(outputs_, kMostGuesses) : 0;
}

std::string ServedModel::facts() const {
  if (drawer_ != nullptr) return sha256_of_file(drawer_->pipeline().scheduler_file());
  return writer_ != nullptr ? writer_->facts() : sentence_facts(sentence_);
}

std::string ServedModel::default_prompt() const {
  if (writer_ != nullptr) return writer_->prefix();
  return task_ == ServedTask::kVectors ? prompt_named(sentence_, nullptr) : "";
}

std::size_t ServedModel::longest_prompt() const {
  std::size_t longest = writer_ == nullptr ? 0 : writer_->prefix().size();
  for (const auto& [name, prompt] : sentence_.prompts) longest = std::max(longest, prompt.size());
  return longest;
}

void ServedModel::record(Session* session, const TextRoom& room, Precision precision) {
  room_ = room;
  if (drawer_ != nullptr) return drawer_->record(session);
  if (writer_ != nullptr)
    return writer_->record(session, *model_, fields_, TextBatch::bounds(fields_, room, longest_), precision);
  // name: of the output; null: the logits of the reference.
  const auto add = [&](bool reads_text, bool reads_picture, Use use, const char* name) {
    BatchCounts bounds = TextBatch::bounds(fields_, room, longest_);
    if (!reads_text) bounds = {};
    bounds[kSamples] = reads_picture ? pictures() : room.texts;
    Graph& graph = session->add_graph(bounds, fields_);
    RecordOptions options;
    options.frozen = {""};  // every name begins so: nothing is trained
    const Recording recording = model_->record(graph, use, options);
    graphs_.push_back({reads_text, reads_picture, session->graphs() - 1,
                       name == nullptr ? reference_logits(recording) : recording.output(name)});
    if (precision == Precision::kBf16) choose_element_types(graph);
  };
  if (task_ != ServedTask::kVectors) return add(reads_texts(), reads_pictures(), Use::kReference, nullptr);
  if (!reads_pictures()) return add(true, false, Use::kEmbedText, kSentenceEmbedding);
  add(true, false, Use::kEmbedText, "text_embeds");
  add(false, true, Use::kEmbedPicture, "image_embeds");
  add(true, true, Use::kReference, "cross_embeds");
}

bool ServedModel::answers(bool has_text, bool has_picture) const noexcept {
  return std::any_of(graphs_.begin(), graphs_.end(),
                     [&](const ServedGraph& graph) {
                       return graph.reads_text == has_text && graph.reads_picture == has_picture;
                     }) ||
         ((writer_ != nullptr || drawer_ != nullptr) && has_text && !has_picture);
}

// Of the places of a text's tokens, in front of the tokenizer's scratch.
std::size_t ServedModel::places_bytes() const {
  return align_up(static_cast<std::size_t>(words()) * sizeof(PlacedToken), kCacheLine);
}

std::size_t ServedModel::scratch_bytes(std::size_t text_bytes) const {
  if (task_ == ServedTask::kTags) return places_bytes() + tokenizer_->place_scratch_bytes(text_bytes);
  if (drawer_ != nullptr) return drawer_->tokenizer().scratch_bytes(text_bytes);
  return tokenizer_ == nullptr ? 0 : tokenizer_->scratch_bytes(text_bytes);
}

Refusal ServedModel::too_long() const noexcept {
  return refusal(422, kTokenizerError, "an input has more than %jd tokens", longest_);
}

Refusal ServedModel::encode(const Texts& texts, bool cuts, Span<std::byte> scratch, ServedInput* input) const noexcept {
  if (task_ == ServedTask::kTags) return encode_words(texts.first, cuts, scratch, input);
  Encoded encoded;
  // One id more than may be, so that a text that is too long shows.
  for (const std::int64_t most : {longest_ + 1, longest_}) {
    if (!tokenizer_->encode_into(texts, {input->ids, static_cast<std::size_t>(most)}, &encoded, scratch).ok())
      return too_long();
    if (encoded.tokens <= longest_) break;
    if (!cuts) return too_long();
  }
  if (encoded.tokens == tokenizer_->special_tokens(texts.second.has_value()))
    return refusal(400, kEmptyInput, "an input is empty");
  input->tokens = encoded.tokens;
  input->second_begin = encoded.second_begin;
  if (task_ != ServedTask::kWords) return {};
  input->selected = std::count(input->ids, input->ids + encoded.tokens, tokenizer_->mask_id());
  return input->selected <= kMostMasks ? Refusal() : invalid("an input has more than %jd mask tokens", kMostMasks);
}

Refusal ServedModel::encode_words(std::string_view text, bool cuts, Span<std::byte> scratch,
                                  ServedInput* input) const noexcept {
  const Span<PlacedToken> placed{static_cast<PlacedToken*>(static_cast<void*>(scratch.data())),
                                 static_cast<std::size_t>(longest_ - tokenizer_->special_tokens(false))};
  std::size_t count = 0;
  const Span<std::byte> rest = scratch.subspan(places_bytes(), scratch.size() - places_bytes());
  if (!tokenizer_->place_tokens_into(text, placed, &count, rest).ok()) return too_long();
  if (count == 0) return refusal(400, kEmptyInput, "an input is empty");
  if (count > placed.size() && !cuts) return too_long();
  const Span<PlacedToken> kept = placed.first(std::min(count, placed.size()));
  const Span<const std::int32_t> before = tokenizer_->before(), after = tokenizer_->after();
  std::int32_t* id = std::copy(before.begin(), before.end(), input->ids);
  for (const PlacedToken& token : kept) *id++ = token.id;
  input->tokens = std::copy(after.begin(), after.end(), id) - input->ids;
  input->second_begin = input->tokens;
  input->selected = input->tokens;
  input->word_count =
      static_cast<std::int64_t>(find_words({input->words, kept.size()}, text, kept, {*tokenizer_, token_texts_}));
  return {};
}

}  // namespace bascule
