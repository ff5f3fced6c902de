// SPDX-License-Identifier: Apache-2.0
#include "src/json/error_json.h"

namespace bascule {
namespace {

const char* word_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return "bug";
    case ErrorKind::kSettings: return "settings";
    case ErrorKind::kData: return "data";
    case ErrorKind::kMemory: return "memory";
    case ErrorKind::kRank: return "rank";
    case ErrorKind::kDisk: return "disk";
    case ErrorKind::kNotAsRecorded: return "not_as_recorded";
  }
  return "";
}

}  // namespace

Json error_json(const Error& error) {
  return {{"kind", word_of(error.kind())},
          {"exit_code", exit_code(error.kind())},
          {"where", error.where()},
          {"what", error.problem()},
          {"what_to_do", error.what_to_do()}};
}

}  // namespace bascule
