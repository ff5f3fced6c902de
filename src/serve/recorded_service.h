// SPDX-License-Identifier: Apache-2.0
// A service, recorded and planned: the model, the graph of its batches, its memory. Nothing is loaded or mapped yet.
// Before the seal; throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/files/input_file.h"
#include "src/http/http_server.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/runtime/core_groups.h"
#include "src/serve/served_model.h"
#include "src/session/session.h"
#include "src/settings/settings.h"

namespace bascule {

// The category of its plan beside the session's: inputs with their answers, requests, texts.
inline constexpr char kRequestMemory[] = "requests";
// And of each worker, where a batch needs more than its graph: the decoder of pictures and their pixels, and what
// belongs to texts that are written or pictures that are drawn.
inline constexpr char kBatchMemory[] = "batches";

// What there is to ask for: HttpEndpoint::kind.
enum class ServedEndpoint : int {
  kHealth,
  kReady,
  kMetrics,
  kInfo,
  kModels,
  kUi,
  kTokenize,
  kNative,  // the family's own, under whatever name
  kPredict,
  kOpenAi
};

struct RecordedService {
  Settings settings;
  std::string name;  // of the model, in answers
  std::unique_ptr<ServedModel> model;
  Session session;
  int threads = 0;                  // of all workers
  std::vector<CoreGroups> workers;  // the threads of each
  TextRoom room;                    // of a batch
  std::size_t text_bytes = 0;       // of a text, at most
  HttpSettings http;                // without the headers, which need the weights
  MemoryPlan plan;

  ServedEndpoint endpoint(std::size_t number) const { return static_cast<ServedEndpoint>(http.endpoints[number].kind); }
};

// What its requests need, cut from one range of the plan: inputs with their answers, and room for one text that becomes
// tokens.
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
    for (char*& text : texts) cutter.cut(&text, text_room);
    scratch_bytes = model.scratch_bytes(text_room);
    cutter.cut(&scratch, scratch_bytes);
    bytes_ = cutter.used_bytes();
  }

  std::size_t bytes() const { return bytes_; }

  Span<ServedInput> input;
  char* texts[2] = {};  // text_room bytes each: a text without its escapes, behind its prompt
  std::size_t text_room = 0;
  std::byte* scratch = nullptr;
  std::size_t scratch_bytes = 0;

 private:
  template <typename T>
  void give_each(std::int64_t inputs, ArrayCutter* cutter, T* ServedInput::*place, std::int64_t count) {
    T* all = nullptr;
    cutter->cut(&all, inputs * count);
    for (std::size_t i = 0; i < input.size(); ++i) input[i].*place = all + static_cast<std::int64_t>(i) * count;
  }

  std::size_t bytes_ = 0;
};

// settings: with [serve]. Throws Error: kSettings, kData.
std::unique_ptr<RecordedService> record_service(const Settings& settings);

// What can be said before there is a model: its key, the address where it will listen, and its workers. Throws Error
// kSettings.
void check_service_address(const Settings& settings);

// The files that it reads.
std::vector<InputFolder> service_inputs(const RecordedService& service);

// Throws Error kMemory.
void check_service_fits(const RecordedService& service, const ProcessLimits& limits,
                        const std::string& own_limit = "machine.memory_limit_gib");

}  // namespace bascule
