// SPDX-License-Identifier: Apache-2.0
// A model that is served: what a folder answers, and its graphs for a batch of requests. All workers share it, and none
// changes it. Everything but encode() belongs before the seal and may throw Error.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/ask/finished_model.h"
#include "src/ask/text_entities.h"
#include "src/base/span.h"
#include "src/json/json_scan.h"
#include "src/serve/request_text.h"
#include "src/serve/served_drawer.h"
#include "src/serve/text_batch.h"
#include "src/serve/text_writer.h"
#include "src/session/session.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

enum class ServedTask : std::uint8_t { kVectors, kWords, kClasses, kValues, kTags, kPictureClasses, kWrites, kDraws };

// The most masks of a text, and the most guesses that a request may ask for, of each mask or text.
inline constexpr std::int64_t kMostMasks = 8;
inline constexpr std::int64_t kMostGuesses = 100;

// One input of a request: the tokens of a text, or a picture, and, once its batch has run, the answer to it. The memory
// is the service's, made before the seal.
struct ServedInput {
  std::string_view picture;  // the bytes of a file
  bool has_picture = false;
  bool is_base64 = false;                         // of it, before it is decoded
  media_engine_status refused = MEDIA_ENGINE_OK;  // why it was not decoded, and what the engine adds
  std::uint32_t refused_detail = 0;
  std::int32_t* ids = nullptr;      // (longest)
  std::int64_t tokens = 0;          // 0: there is no text
  std::int64_t second_begin = 0;    // of the second text of a pair: its first token; of one text: `tokens`
  std::int64_t selected = 0;        // masks among them
  std::int64_t top = 0;             // guesses that are asked for
  float* numbers = nullptr;         // kVectors: the vector; kValues: the value
  TokenOrClass* guesses = nullptr;  // kClasses: the best; kWords: those of each mask, one mask behind the other
  std::int64_t guesses_each = 0;
  JsonView text;                // kTags: as it stands in the request
  TaggedWord* words = nullptr;  // of it, at most as many as `longest`
  std::int64_t word_count = 0;
  std::int64_t most_written = 0;    // kWrites: tokens, at most
  bool wants_logs = false;          // log p of each
  std::int32_t* written = nullptr;  // the text, and these
  float* logs = nullptr;
  std::int64_t written_tokens = 0, slot = 0;
  bool is_cut = false;     // the text ends at most_written
  std::uint64_t seed = 0;  // kDraws: of the noise; ids are those of the prompt, then of what shall not be seen
  char* file = nullptr;    // room for the picture as PNG; null: none is wanted
  std::size_t file_bytes = 0;
  bool is_finite = true;        // false: the model's numbers for this input are not
  ServedInput* next = nullptr;  // of the same request
  std::uint32_t request = 0;    // its number
  // Nobody waits for the answer any more, or it did not come in time.
  std::atomic<bool> is_dropped{false};
  bool is_late = false;
  std::int64_t queued_ns = 0, begun_ns = 0, ended_ns = 0;  // monotonic
  std::int64_t batch_inputs = 0, batch_rows = 0;           // of the batch that it ran in
  bool is_first_of_batch = false;
};

class ServedModel {
 public:
  // Reads the folder's configuration and its tokenizer, and no weights. Throws Error kData where nothing there is
  // served.
  explicit ServedModel(const Settings& settings);

  ServedTask task() const { return task_; }
  const std::string& folder() const { return folder_; }
  std::string weights_folder() const { return task_ == ServedTask::kVectors ? sentence_.body : folder_; }
  const Model& model() const { return *model_; }
  const SentenceFolder& sentence() const { return sentence_; }  // of kVectors
  const Tokenizer& tokenizer() const { return drawer_ != nullptr ? drawer_->tokenizer().tokenizer() : *tokenizer_; }
  std::int64_t longest() const { return longest_; }  // tokens of a text; of a model of pictures alone: rows
  bool reads_texts() const { return tokenizer_ != nullptr || drawer_ != nullptr; }
  bool reads_pictures() const { return picture_rows_ > 0; }
  // Whether it answers inputs of a text, a picture, or both.
  bool answers(bool has_text, bool has_picture) const noexcept;
  // Of a batch; and at most.
  std::int64_t rows(const ServedInput& input) const noexcept {
    return input.tokens + (input.has_picture ? picture_rows_ : 0);
  }
  std::int64_t most_rows() const { return (reads_texts() ? longest_ : 0) + picture_rows_; }
  std::int64_t picture_rows() const { return picture_rows_; }
  bool reads_pairs() const { return reads_pairs_; }
  // Numbers of an answer, and its guesses at most.
  std::int64_t numbers() const;
  std::int64_t guesses() const;
  const std::vector<std::string>& names() const { return names_; }                  // of classes
  const std::vector<std::string>& tokens() const { return tokens_; }                // by id, for people
  std::int64_t words() const { return task_ == ServedTask::kTags ? longest_ : 0; }  // of an input, at most
  std::size_t longest_name() const { return longest_name_; }                        // bytes, of both

  const ServedWriter* writer() const { return writer_.get(); }  // of kWrites
  const ServedDrawer* drawer() const { return drawer_.get(); }  // of kDraws
  std::int64_t ids() const { return drawer_ != nullptr ? 2 * longest_ : reads_texts() ? longest_ + 1 : 0; }  // room
  std::int64_t written() const { return writer_ == nullptr ? 0 : writer_->most_tokens(); }
  // What, beside weights, tokenizer and settings, decides on the bits of answers.
  std::string facts() const;
  // In front of each text where a request names no other; and of all such, the longest.
  std::string default_prompt() const;
  std::size_t longest_prompt() const;

  // A graph, for inputs that have what it reads.
  struct ServedGraph {
    bool reads_text = false, reads_picture = false;
    std::size_t number = 0;  // of the session
    Tensor output;           // outputs() numbers for an input, a mask or a token, one behind the other
  };
  // Adds the graphs for batches with that room.
  void record(Session* session, const TextRoom& room, Precision precision);
  // After record().
  const std::vector<ServedGraph>& graphs() const { return graphs_; }  // not of kWrites and kDraws
  const Fields& fields() const { return fields_; }
  const TextRoom& room() const { return room_; }
  std::int64_t outputs() const { return outputs_; }
  // Of pictures: how they are decoded, and in a batch the most, and the numbers of each.
  const MediaSettings& media() const { return media_; }
  std::int64_t pictures() const { return std::min(room_.texts, room_.tokens / picture_rows_); }
  std::int64_t picture_numbers() const { return 3 * media_.image_side * media_.image_side; }

  // Sealed.

  // Writes the tokens of a text or a pair into the input. cuts: a longer one is cut, else refused. Both texts are
  // UTF-8. scratch: scratch_bytes() for the longer one.
  Refusal encode(const Texts& texts, bool cuts, Span<std::byte> scratch, ServedInput* input) const noexcept;
  Refusal too_long() const noexcept;
  std::size_t scratch_bytes(std::size_t text_bytes) const;

 private:
  void open_texts(const std::string& command, const Settings& settings);
  void open_classes();
  void open_pictures(std::int64_t max_pixels);
  std::size_t places_bytes() const;
  Refusal encode_words(std::string_view text, bool cuts, Span<std::byte> scratch, ServedInput* input) const noexcept;

  const std::string folder_;
  ServedTask task_ = ServedTask::kVectors;
  SentenceFolder sentence_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> names_, tokens_, token_texts_;  // the last: as the files write them, of kTags
  std::size_t longest_name_ = 0;
  std::int64_t longest_ = 0, picture_rows_ = 0;
  std::int64_t outputs_ = 0;  // numbers that the model computes for a text, or for a mask
  bool reads_pairs_ = false;
  Fields fields_;
  TextRoom room_;
  std::vector<ServedGraph> graphs_;
  std::unique_ptr<ServedWriter> writer_;
  std::unique_ptr<ServedDrawer> drawer_;
  MediaSettings media_;
};

}  // namespace bascule
