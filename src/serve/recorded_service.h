// SPDX-License-Identifier: Apache-2.0
// A service, recorded and planned: the model, the graph of its batches, its memory. Nothing is loaded or mapped yet.
// Before the seal; throws Error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "src/files/input_file.h"
#include "src/http/http_server.h"
#include "src/machine/process_limits.h"
#include "src/plan/memory_plan.h"
#include "src/serve/served_model.h"
#include "src/serve/text_batch.h"
#include "src/session/session.h"
#include "src/settings/settings.h"

namespace bascule {

// The category of its plan beside the session's: inputs with their answers, requests, texts.
inline constexpr char kRequestMemory[] = "requests";

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
  int threads = 0;
  TextRoom room;               // of a batch
  std::size_t text_bytes = 0;  // of a text, at most
  HttpSettings http;           // without the headers, which need the weights
  MemoryPlan plan;

  ServedEndpoint endpoint(std::size_t number) const { return static_cast<ServedEndpoint>(http.endpoints[number].kind); }
};

// settings: with [serve]. Throws Error: kSettings, kData.
std::unique_ptr<RecordedService> record_service(const Settings& settings);

// What can be said before there is a model: its key, and the address where it will listen. Throws Error kSettings.
void check_service_address(const Settings& settings);

// The files that it reads.
std::vector<InputFolder> service_inputs(const RecordedService& service);

// Throws Error kMemory.
void check_service_fits(const RecordedService& service, const ProcessLimits& limits,
                        const std::string& own_limit = "machine.memory_limit_gib");

}  // namespace bascule
