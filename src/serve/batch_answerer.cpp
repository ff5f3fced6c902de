// SPDX-License-Identifier: Apache-2.0
#include "src/serve/batch_answerer.h"

#include <algorithm>
#include <cmath>

#include "src/base/span.h"

namespace bascule {
namespace {

// What is cut from a worker's memory.
struct BatchMemory {
  // memory: null: only `bytes` counts.
  BatchMemory(const ServedModel& model, std::byte* memory) {
    const std::size_t decoder_bytes = model.reads_pictures() ? PictureDecoder::memory_bytes(model.media()) : 0;
    ArrayCutter cutter(memory);
    cutter.cut(&making, model.writer() != nullptr   ? model.writer()->bytes()
                        : model.drawer() != nullptr ? model.drawer()->bytes()
                                                    : 0);
    cutter.cut(&pixels, model.reads_pictures() ? model.pictures() * model.picture_numbers() : 0);
    std::byte* decoder_begin = nullptr;
    cutter.cut(&decoder_begin, decoder_bytes);
    decoder = {decoder_begin, decoder_bytes};
    bytes = cutter.used_bytes();
  }

  std::byte* making = nullptr;  // of texts that are written, or pictures that are drawn
  float* pixels = nullptr;      // of a batch of pictures
  Span<std::byte> decoder;      // of pictures
  std::size_t bytes = 0;
};

}  // namespace

std::size_t BatchAnswerer::bytes(const ServedModel& model) { return BatchMemory(model, nullptr).bytes; }

BatchAnswerer::BatchAnswerer(const ServedModel& model, const Tapes& tapes, Threads& threads, std::byte* memory)
    : model_(model), tapes_(tapes), threads_(threads), no_labels_(static_cast<std::size_t>(model.room().texts), 0) {
  const BatchMemory cut(model, memory);
  part_.reserve(no_labels_.size());
  pixels_ = cut.pixels;
  if (model.reads_pictures()) decoder_ = std::make_unique<PictureDecoder>(model.media(), cut.decoder);
  if (model.writer() != nullptr) writer_ = std::make_unique<TextWriter>(*model.writer(), tapes, cut.making);
  if (model.drawer() != nullptr) {
    drawer_ = std::make_unique<PictureDrawer>(*model.drawer(), tapes, cut.making);
  } else if (model.reads_texts()) {
    batch_ = std::make_unique<TextBatch>(model.model().inputs(), model.fields(), model.room(),
                                         model.task() == ServedTask::kWords  ? model.tokenizer().mask_id()
                                         : model.task() == ServedTask::kTags ? kEveryToken
                                                                             : kNoToken);
  }
}

// Of the part those whose pictures can be decoded stay, and these lie one behind the other.
void BatchAnswerer::decode() noexcept {
  std::size_t decoded = 0;
  for (ServedInput* input : part_) {
    const void* const bytes = input->picture.data();
    media_engine_completion completion = {};
    input->refused =
        decoder_->decode({static_cast<const std::uint8_t*>(bytes), input->picture.size()},
                         pixels_ + static_cast<std::int64_t>(decoded) * model_.picture_numbers(), &completion);
    input->refused_detail = completion.detail;
    if (input->refused == MEDIA_ENGINE_OK) part_[decoded++] = input;
  }
  part_.resize(decoded);
}

Batch BatchAnswerer::pack(ServedInput* const* inputs, std::size_t count) noexcept {
  batch_->clear();
  for (std::size_t i = 0; i < count; ++i)
    batch_->add({inputs[i]->ids, static_cast<std::size_t>(inputs[i]->tokens)}, inputs[i]->second_begin,
                model_.tokenizer().second_type());
  return batch_->batch();
}

void BatchAnswerer::join(ServedInput* const* inputs, std::size_t count) noexcept {
  if (count > 0) writer_->join(inputs, count, pack(inputs, count), threads_);
}

// Returns the numbers of the part, one input behind the other.
const float* BatchAnswerer::replay(const ServedGraph& graph) noexcept {
  Replay replay;
  if (graph.reads_picture) decode();
  if (part_.empty()) return nullptr;
  if (graph.reads_text) {
    replay.batch = pack(part_.data(), part_.size());
  } else {
    replay.batch.counts[kSamples] = static_cast<std::int64_t>(part_.size());
    const int labels = field_from(model_.fields(), FieldSource::kClassLabels);
    if (labels >= 0) replay.batch.fields[labels] = no_labels_.data();
  }
  if (graph.reads_picture) replay.batch.fields[field_from(model_.fields(), FieldSource::kPixels)] = pixels_;
  const Tape& tape = *tapes_[graph.number];
  tape.replay(threads_, replay);
  return tape.at(graph.output);
}

void BatchAnswerer::run(ServedInput* const* inputs, std::size_t count) noexcept {
  if (drawer_ != nullptr) {
    for (std::size_t i = 0; i < count; ++i) drawer_->draw(inputs[i], threads_);
    return;
  }
  if (writer_ != nullptr) {
    join(inputs, count);
    step();
    for (std::size_t i = 0; i < count; ++i) {
      if (!writer_->finish(inputs[i])) writer_->leave(*inputs[i]);
    }
    return;
  }
  for (const ServedGraph& graph : model_.graphs()) {
    part_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if ((inputs[i]->tokens > 0) == graph.reads_text && inputs[i]->has_picture == graph.reads_picture)
        part_.push_back(inputs[i]);
    }
    if (!part_.empty()) answer(replay(graph));
  }
}

// The part, from its numbers.
void BatchAnswerer::answer(const float* output) noexcept {
  const ServedTask task = model_.task();
  const std::int64_t outputs = model_.outputs();
  for (ServedInput* const input : part_) {
    const std::int64_t rows = task == ServedTask::kTags    ? input->tokens
                              : task == ServedTask::kWords ? input->selected
                                                           : 1;
    const float* const end = output + rows * outputs;
    input->is_finite = std::all_of(output, end, [](float x) { return std::isfinite(x); });
    if (input->is_finite && task == ServedTask::kTags) {
      tag_words({input->words, static_cast<std::size_t>(input->word_count)},
                output + static_cast<std::int64_t>(model_.tokenizer().before().size()) * outputs, outputs);
    } else if (input->is_finite && model_.guesses() > 0) {
      input->guesses_each = std::min(input->top, outputs);
      TokenOrClass* best = input->guesses;
      for (const float* row = output; row != end; row += outputs, best += input->guesses_each)
        most_probable(row, outputs, {best, static_cast<std::size_t>(input->guesses_each)});
    } else if (input->is_finite) {
      std::copy(output, end, input->numbers);
    }
    output = end;
  }
}

}  // namespace bascule
