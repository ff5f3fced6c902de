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
    text_room = service.text_bytes + model.longest_prompt();
    ArrayCutter cutter(memory);
    ServedInput* first = nullptr;
    cutter.cut(&first, inputs);
    if (memory != nullptr) input = {first, static_cast<std::size_t>(inputs)};
    give_each(inputs, &cutter, &ServedInput::ids, model.ids());
    give_each(inputs, &cutter, &ServedInput::numbers, model.numbers());
    give_each(inputs, &cutter, &ServedInput::guesses, model.guesses());
    give_each(inputs, &cutter, &ServedInput::words, model.words());
    give_each(inputs, &cutter, &ServedInput::written, model.written());
    give_each(inputs, &cutter, &ServedInput::logs, model.written());
    cutter.cut(&making, model.making_bytes());
    for (char*& text : texts) cutter.cut(&text, text_room);
    scratch_bytes = model.scratch_bytes(text_room);
    cutter.cut(&scratch, scratch_bytes);
    cutter.cut(&pixels, model.pixel_numbers());
    std::byte* decoder_begin = nullptr;
    cutter.cut(&decoder_begin, model.decoder_bytes());
    decoder = {decoder_begin, model.decoder_bytes()};
    bytes_ = cutter.used_bytes();
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
  template <typename T>
  void give_each(std::int64_t inputs, ArrayCutter* cutter, T* ServedInput::*place, std::int64_t count) {
    T* all = nullptr;
    cutter->cut(&all, inputs * count);
    for (std::size_t i = 0; i < input.size(); ++i) input[i].*place = all + static_cast<std::int64_t>(i) * count;
  }

  std::size_t bytes_ = 0;
};

}  // namespace bascule
