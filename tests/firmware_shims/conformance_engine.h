// SPDX-License-Identifier: Apache-2.0
// What the conformance tests share: their pictures, by name, and a configuration of the engine that they are linked
// with.
#pragma once

#include <cstdint>

#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {

constexpr std::uint32_t kSide = 64;

inline Bytes picture(const char* name) { return read_bytes(reference_dir() + "/images/jpeg/" + name); }

inline media_engine_config config_of(std::uint32_t queue_depth, std::uint32_t units) {
  media_engine_config config = media_engine_default_config(media_engine_builtin());
  config.queue_depth = queue_depth;
  config.units = units;
  config.max_side = kSide;
  return config;
}

}  // namespace bascule::test
