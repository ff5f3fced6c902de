// SPDX-License-Identifier: Apache-2.0
#include "src/loader/masking.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

// Keys of their own among those derived from the run's seed; masks have one a text, from here on.
constexpr std::uint32_t kMaskUse = 0x6d61736bu;
constexpr std::uint32_t kNegativeUse = 0x6e656761u;

// Eight of ten selected tokens become the mask, and one a random token.
constexpr std::uint32_t kTenths = 10;
constexpr std::uint32_t kMaskedTenths = 8;
constexpr std::uint32_t kRandomTenths = 1;

// Draws of another row before the search becomes a walk: enough wherever different pictures are not very rare.
constexpr std::uint32_t kDraws = 64;

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

// The smallest count that the number of successes of n trials exceeds with a chance below 2^-64, by Chernoff's bound:
// the chance of c or more is at most exp(-n KL(c/n || p)).
std::int64_t binomial_bound(std::int64_t trials, double chance) noexcept {
  const double n = static_cast<double>(trials), least = 64.0 * fixed_log(2.0);
  const auto is_bound = [&](std::int64_t count) {
    const double share = static_cast<double>(count) / n;
    if (share <= chance) return false;
    const double rest = share < 1.0 ? (1.0 - share) * fixed_log((1.0 - share) / (1.0 - chance)) : 0.0;
    return n * (share * fixed_log(share / chance) + rest) >= least;
  };
  std::int64_t below = 0, bound = trials;  // all of them are always enough
  while (bound - below > 1) {
    const std::int64_t middle = below + (bound - below) / 2;
    (is_bound(middle) ? bound : below) = middle;
  }
  return bound;
}

}  // namespace

std::int64_t masked_count(std::int64_t candidates, double probability) noexcept {
  const std::int64_t rounded =
      static_cast<std::int64_t>(std::floor(probability * static_cast<double>(candidates) + 0.5));
  return std::min(candidates, std::max<std::int64_t>(1, rounded));
}

std::int64_t counted_selection(std::int64_t tokens, std::int64_t candidates, const MaskingSettings& settings) noexcept {
  std::int64_t count = masked_count(candidates, settings.probability);
  if (settings.counts_special) {
    const auto rounded = static_cast<std::int64_t>(std::nearbyint(settings.probability * static_cast<double>(tokens)));
    count = std::min(candidates, std::max<std::int64_t>(1, rounded));
  }
  return std::min(count, settings.most);
}

std::int64_t selection_bound(std::int64_t samples, std::int64_t tokens, std::int64_t candidates,
                             const MaskingSettings& settings) noexcept {
  // At least one a sample, so that a graph always has a row to be made for.
  if (settings.rule == Masking::kBernoulli)
    return std::max<std::int64_t>(1, binomial_bound(samples * candidates, settings.probability));
  return samples * std::max<std::int64_t>(1, counted_selection(tokens, candidates, settings));
}

// Going through the candidates of kCounted, each is taken with the chance (still to take) / (still to come): Knuth's
// selection sampling, which takes exactly the wanted number, all choices equally likely, and needs one draw a position.
std::int64_t mask_tokens(Span<std::int32_t> ids, Span<std::int32_t> labels, const MaskingSettings& settings,
                         std::int64_t epoch, std::int64_t row) noexcept {
  BASCULE_DCHECK(ids.size() == labels.size());
  const PhiloxKey key = derive_key(settings.seed, kMaskUse + settings.text);
  std::int64_t to_come = 0;
  for (const std::int32_t id : ids) to_come += is_special(id, settings.special_ids) ? 0 : 1;
  const bool is_counted = settings.rule == Masking::kCounted;
  std::int64_t to_take = is_counted ? counted_selection(static_cast<std::int64_t>(ids.size()), to_come, settings) : 0;
  std::int64_t selected = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    labels[i] = kUnlabelled;
    if (is_special(ids[i], settings.special_ids)) continue;
    const PhiloxBlock random = philox4x32(random_coordinates(epoch, row, static_cast<std::uint32_t>(i)), key);
    const bool take =
        is_counted ? bounded(random.word[0], static_cast<std::uint32_t>(to_come)) < static_cast<std::uint64_t>(to_take)
                   : static_cast<double>(random.word[0]) * 0x1p-32 < settings.probability;
    --to_come;
    if (!take) continue;
    --to_take;
    ++selected;
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
  const std::uint64_t chance = philox4x32(random_coordinates(epoch, row, 0), key).word[0];
  if (static_cast<double>(chance) * 0x1p-32 >= settings.fraction) return MatchingSample{row, 1};
  BASCULE_DCHECK(manifest.pictures() >= 2);
  const std::int64_t picture = manifest.image_id(row);
  const std::uint64_t rows = static_cast<std::uint64_t>(manifest.rows());
  const auto is_of_no_use = [&](std::int64_t drawn) {
    return manifest.image_id(drawn) == picture || manifest.is_taken_out(drawn);
  };
  std::int64_t other = row;
  for (std::uint32_t draw = 1; draw <= kDraws && is_of_no_use(other); ++draw) {
    other = static_cast<std::int64_t>(philox4x32(random_coordinates(epoch, row, draw), key).wide(0) % rows);
  }
  while (is_of_no_use(other)) other = other + 1 < manifest.rows() ? other + 1 : 0;
  return MatchingSample{other, 0};
}

}  // namespace bascule
