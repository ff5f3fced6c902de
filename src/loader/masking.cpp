// SPDX-License-Identifier: Apache-2.0
#include "src/loader/masking.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

// Keys of their own among those derived from the run's seed.
constexpr std::uint32_t kMaskUse = 0x6d61736bu;
constexpr std::uint32_t kNegativeUse = 0x6e656761u;

// Eight of ten selected tokens become the mask, and one a random token.
constexpr std::uint32_t kTenths = 10;
constexpr std::uint32_t kMaskedTenths = 8;
constexpr std::uint32_t kRandomTenths = 1;

// Draws of another row before the search becomes a walk: enough wherever different pictures are not very rare.
constexpr std::uint32_t kDraws = 64;

// Rows are below 2^40 and positions below 2^24, epochs below 2^32.
PhiloxCounter coordinates(std::int64_t epoch, std::int64_t row, std::uint32_t position) noexcept {
  const std::uint64_t wide_row = static_cast<std::uint64_t>(row);
  const std::uint64_t wide_epoch = static_cast<std::uint64_t>(epoch);
  return PhiloxCounter{{position, static_cast<std::uint32_t>(wide_row), static_cast<std::uint32_t>(wide_row >> 32),
                        static_cast<std::uint32_t>(wide_epoch)}};
}

bool is_special(std::int32_t id, Span<const std::int32_t> special_ids) noexcept {
  return std::binary_search(special_ids.begin(), special_ids.end(), id);
}

// Any token but the special ones: a random <pad> amid the text would shift the positions of all that follow.
std::int32_t random_token(std::uint32_t word, const MaskingSettings& settings) noexcept {
  const std::uint32_t ordinary =
      static_cast<std::uint32_t>(settings.vocabulary_size) - static_cast<std::uint32_t>(settings.special_ids.size());
  std::int32_t token = static_cast<std::int32_t>(bounded(word, ordinary));
  for (const std::int32_t special : settings.special_ids) token += token >= special ? 1 : 0;
  return token;
}

}  // namespace

std::int64_t masked_count(std::int64_t candidates, double probability) noexcept {
  const std::int64_t rounded =
      static_cast<std::int64_t>(std::floor(probability * static_cast<double>(candidates) + 0.5));
  return std::min(candidates, std::max<std::int64_t>(1, rounded));
}

// Going through the candidates, each is taken with the chance (still to take) / (still to come): Knuth's selection
// sampling, which takes exactly the wanted number, all choices equally likely, and needs one draw a position.
std::int64_t mask_tokens(Span<std::int32_t> ids, Span<std::int32_t> labels, const MaskingSettings& settings,
                         std::int64_t epoch, std::int64_t row) noexcept {
  BASCULE_DCHECK(ids.size() == labels.size());
  const PhiloxKey key = derive_key(settings.seed, kMaskUse);
  std::int64_t to_come = 0;
  for (const std::int32_t id : ids) to_come += is_special(id, settings.special_ids) ? 0 : 1;
  const std::int64_t selected = masked_count(to_come, settings.probability);
  std::int64_t to_take = selected;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    labels[i] = kUnlabelled;
    if (is_special(ids[i], settings.special_ids)) continue;
    const PhiloxBlock random = philox4x32(coordinates(epoch, row, static_cast<std::uint32_t>(i)), key);
    const bool take =
        bounded(random.word[0], static_cast<std::uint32_t>(to_come)) < static_cast<std::uint64_t>(to_take);
    --to_come;
    if (!take) continue;
    --to_take;
    labels[i] = ids[i];
    const std::uint32_t tenth = bounded(random.word[1], kTenths);
    if (tenth < kMaskedTenths) {
      ids[i] = settings.mask_id;
    } else if (tenth < kMaskedTenths + kRandomTenths) {
      ids[i] = random_token(random.word[2], settings);
    }
  }
  return selected;
}

void check_negatives(const Manifest& manifest, const NegativeSettings& settings) {
  if (settings.fraction > 0.0 && manifest.pictures() < 2) {
    throw Error{ErrorKind::kData, manifest.where(0),
                "all " + std::to_string(manifest.rows()) +
                    " rows show the same picture, so there is no wrong caption to swap in",
                "add other pictures, or set data.label_column or data.negative_fraction = 0"};
  }
}

MatchingSample matching_sample(const Manifest& manifest, const NegativeSettings& settings, std::int64_t epoch,
                               std::int64_t row) noexcept {
  const PhiloxKey key = derive_key(settings.seed, kNegativeUse);
  const std::uint64_t chance = philox4x32(coordinates(epoch, row, 0), key).word[0];
  if (static_cast<double>(chance) * 0x1p-32 >= settings.fraction) return MatchingSample{row, 1};
  BASCULE_DCHECK(manifest.pictures() >= 2);
  const std::int64_t picture = manifest.image_id(row);
  const std::uint64_t rows = static_cast<std::uint64_t>(manifest.rows());
  const auto is_of_no_use = [&](std::int64_t drawn) {
    return manifest.image_id(drawn) == picture || manifest.is_taken_out(drawn);
  };
  std::int64_t other = row;
  for (std::uint32_t draw = 1; draw <= kDraws && is_of_no_use(other); ++draw) {
    other = static_cast<std::int64_t>(philox4x32(coordinates(epoch, row, draw), key).wide(0) % rows);
  }
  while (is_of_no_use(other)) other = other + 1 < manifest.rows() ? other + 1 : 0;
  return MatchingSample{other, 0};
}

}  // namespace bascule
