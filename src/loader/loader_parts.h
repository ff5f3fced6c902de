// SPDX-License-Identifier: Apache-2.0
// A loader's settings as its parts want them: the one place where they are taken apart, for plan and construction
// alike. Before the seal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/loader/augmenting.h"
#include "src/loader/loader.h"
#include "src/loader/media.h"
#include "src/loader/ring.h"
#include "src/loader/sample.h"
#include "src/loader/sampler.h"

namespace bascule {

BatchDealing batch_dealing(const LoaderSettings& settings, const StreamSettings& stream);
// The random changes to the stream's pictures; none where it is not training's.
Augmenting augmenting_of(const LoaderSettings& settings, const StreamSettings& stream);
MixSettings mix_settings(const LoaderSettings& settings, const StreamSettings& stream);
// plan: of the stream, whose lengths its texts have; or none.
SampleSettings sample_settings(const LoaderSettings& settings, const StreamSettings& stream,
                               const StreamPlan& plan = {});
// The settings of the text of that number: of each, where they are several in a row.
std::vector<TextSettings> text_settings(const LoaderSettings& settings, int text, const StreamSettings& stream);
MediaSettings media_settings(const LoaderSettings& settings);
// Whether a sample has a picture, and the text of that number.
bool reads_pictures(const LoaderSettings& settings);
bool reads_text(const LoaderSettings& settings, int text = 0);

// Whether the cache holds the lengths of all texts of a stream's rows, so that none is read to plan it.
bool has_text_lengths(const LoaderSettings& settings, const StreamSettings& stream);

SlotShape slot_shape(const LoaderSettings& settings, const StreamSettings& stream, const StreamPlan& plan);
// The bytes of the longest text, all streams.
std::size_t longest_text_bytes(const LoaderSettings& settings);
// Scratch of one worker.
std::size_t scratch_bytes(const LoaderSettings& settings, const LoaderPlan& plan);
// The pictures that one worker changes, of all streams.
std::size_t augmenting_bytes(const LoaderSettings& settings);
// The buffer of one job; one byte more than the largest file, so that a file that has grown is noticed.
std::size_t buffer_bytes(const LoaderPlan& plan);
// The workers that there are: also the calling thread is one.
std::int64_t worker_count(const LoaderSettings& settings);

}  // namespace bascule
