// SPDX-License-Identifier: Apache-2.0
// What the requests of a service need, cut from one range of the plan: inputs with their answers, and room for one text
// that becomes tokens, or for the pictures of a batch and their decoder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/serve/recorded_service.h"

namespace bascule {

class ServiceMemory {
 public:
  // memory: of bytes(), in which all pointers then lie; null: only bytes() counts.
  ServiceMemory(const RecordedService& service, std::byte* memory) {
    const ServedModel& model = *service.model;
    const std::int64_t inputs = service.settings.serve.max_concurrent_requests;
    // One id more than the longest input has, so that a text that is too long shows.
    const std::int64_t tokens = model.ids();
    std::int32_t* ids = nullptr;
    float* numbers = nullptr;
    TokenOrClass* guesses = nullptr;
    TaggedWord* words = nullptr;
    ServedInput* first = nullptr;
    std::int32_t* written = nullptr;
    float* logs = nullptr;
    text_room = service.text_bytes + model.longest_prompt();
    ArrayCutter cutter(memory);
    cutter.cut(&first, inputs);
    cutter.cut(&ids, inputs * tokens);
    cutter.cut(&numbers, inputs * model.numbers());
    cutter.cut(&guesses, inputs * model.guesses());
    cutter.cut(&words, inputs * model.words());
    cutter.cut(&written, inputs * model.written());
    cutter.cut(&logs, inputs * model.written());
    cutter.cut(&making, model.making_bytes());
    for (char*& text : texts) cutter.cut(&text, text_room);
    scratch_bytes = model.scratch_bytes(text_room);
    cutter.cut(&scratch, scratch_bytes);
    cutter.cut(&pixels, model.pixel_numbers());
    std::byte* decoder_begin = nullptr;
    cutter.cut(&decoder_begin, model.decoder_bytes());
    decoder = {decoder_begin, model.decoder_bytes()};
    bytes_ = cutter.used_bytes();
    if (memory == nullptr) return;
    input = {first, static_cast<std::size_t>(inputs)};
    for (std::int64_t i = 0; i < inputs; ++i) {
      first[i].ids = ids + i * tokens;
      first[i].numbers = numbers + i * model.numbers();
      first[i].guesses = guesses + i * model.guesses();
      first[i].words = words + i * model.words();
      first[i].written = written + i * model.written();
      first[i].logs = logs + i * model.written();
    }
  }

  std::size_t bytes() const { return bytes_; }

  Span<ServedInput> input;
  char* texts[2] = {};  // text_room bytes each: a text without its escapes, behind its prompt
  std::size_t text_room = 0;
  std::byte* scratch = nullptr;
  std::size_t scratch_bytes = 0;
  std::byte* making = nullptr;  // of texts that are written, or pictures that are drawn
  Span<std::byte> decoder;      // of pictures
  float* pixels = nullptr;      // of a batch of them

 private:
  std::size_t bytes_ = 0;
};

}  // namespace bascule
