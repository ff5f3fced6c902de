// SPDX-License-Identifier: Apache-2.0
// The keys by table, each file of them one list: for keys.cpp, which joins them.
#pragma once

#include <iterator>
#include <limits>

#include "src/base/batch.h"
#include "src/settings/key_of_member.h"

namespace bascule {

// A bound for counts where only the machine sets a limit.
inline constexpr std::int64_t kMany = 1'000'000'000;
// Of one text, or of a source and a target together.
inline constexpr std::int64_t kMostTokens = kMaxTokensOfTexts;
// The update computes in float32, where a smaller value would be zero.
inline constexpr double kLeastFloat = 1.2e-38;
inline constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

// Precision and WireType, in the order of their enumerators.
inline constexpr const char* kNumberTypes[] = {"float32", "bf16"};

inline constexpr KeyEffect kNumbers = KeyEffect::kNumbers;
inline constexpr KeyEffect kFromThereOn = KeyEffect::kFromThereOn;
inline constexpr KeyEffect kSameFiles = KeyEffect::kSameFiles;
inline constexpr KeyEffect kSameRows = KeyEffect::kSameRows;
inline constexpr KeyEffect kLonger = KeyEffect::kLonger;
inline constexpr KeyEffect kLower = KeyEffect::kLower;
inline constexpr KeyEffect kSameProduct = KeyEffect::kSameProduct;
inline constexpr KeyEffect kBetweenMachines = KeyEffect::kBetweenMachines;
inline constexpr KeyEffect kWhileTraining = KeyEffect::kWhileTraining;
inline constexpr KeyEffect kWithLibrary = KeyEffect::kWithLibrary;
inline constexpr KeyEffect kFree = KeyEffect::kFree;

Span<const Key> keys_of_data();      // [model], [data], [media_engine]
Span<const Key> keys_of_training();  // [training], [generation]
Span<const Key> keys_of_drawing();   // [draw]
Span<const Key> keys_of_machine();   // [distributed], [machine], [report]
Span<const Key> keys_of_groups();    // [[training.groups]]

}  // namespace bascule
