// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <cstdio>

#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/finish/judge_repeat.h"
#include "src/json/json.h"

namespace bascule {
namespace {

Json division_json(const UpdateDivision& division) {
  return {{"ranks", division.ranks},
          {"samples", division.samples},
          {"micro_batches", division.micro_batches},
          {"mini_batch_size", division.of_piece}};
}

// "2 ranks x 4 samples", "1 rank x 4 samples x 2 micro-batches, in pieces of 3"
std::string division_text(const UpdateDivision& division) {
  const auto counted = [](std::int64_t count, const char* one, const char* many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
  };
  std::string text = counted(division.ranks, "rank", "ranks") + " x " + counted(division.samples, "sample", "samples");
  if (division.micro_batches > 1) text += " x " + std::to_string(division.micro_batches) + " micro-batches";
  return division.of_piece == 0 ? text : text + ", in pieces of " + std::to_string(division.of_piece);
}

// Says what the division of the samples does to gradients; "" where both runs have the same.
std::string division_note(const UpdateDivision& a, const UpdateDivision& b) {
  if (a == b) return "";
  const std::string both = "(" + division_text(a) + "; " + division_text(b) + ")";
  if (a.all_samples() != b.all_samples()) return "an update has other samples in each run " + both;
  return "the runs divide an update differently " + both +
         ": that alone makes gradients differ by rounding, and with contrastive negatives of one micro-batch by more";
}

// For two runs that draw.
int diff_pictures(const DiffArguments& arguments) {
  const std::vector<PictureLogRow> a = drawn_pictures(arguments.a), b = drawn_pictures(arguments.b);
  const PictureParting parting = find_picture_parting(a, b);
  if (parting.common == 0)
    throw Error(ErrorKind::kData, arguments.b, "has no picture in common with " + shown_path(arguments.a));
  const bool is_equal = parting.kind == PictureParting::Kind::kNone;
  if (arguments.json) {
    Json document = {{"compared", kPictureLogFile},
                     {"equal", is_equal},
                     {"pictures", static_cast<std::uint64_t>(parting.common)},
                     {"equal_pictures", static_cast<std::uint64_t>(parting.equal)},
                     {"pictures_of_a_alone", static_cast<std::uint64_t>(parting.only_a)},
                     {"pictures_of_b_alone", static_cast<std::uint64_t>(parting.only_b)}};
    if (!is_equal) {
      document["picture"] = parting.picture;
      document["kind"] = kind_word(parting.kind);
      document["call"] = parting.call;
      document["calls"] = parting.calls;
    }
    std::printf("%s\n", json_text(document, 2).c_str());
  } else if (is_equal) {
    std::printf("equal: the latents after every call, and the pixels, of %s\n",
                count_of(parting.equal, "picture").c_str());
  } else {
    std::printf("%s\n", parting_text(parting).c_str());
    std::printf("it is the first in the order of the list; %zu of %zu pictures differ\n",
                parting.common - parting.equal, parting.common);
  }
  if (!arguments.json && parting.only_a + parting.only_b > 0)
    std::printf("not compared: %zu that only the first run has, %zu that only the second has\n", parting.only_a,
                parting.only_b);
  if (!arguments.json)
    std::printf(
        "compared: %s of both runs, not the files of the pictures, which `bascule reproduce --check` compares "
        "with each run's record\n",
        kPictureLogFile);
  return is_equal ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace

int diff_command(const DiffArguments& arguments) {
  const bool a_draws = has_pictures(arguments.a), b_draws = has_pictures(arguments.b);
  if (a_draws && b_draws) return diff_pictures(arguments);
  if (a_draws != b_draws)
    throw Error(ErrorKind::kData, a_draws ? arguments.b : arguments.a,
                "has no pictures, but " + shown_path(a_draws ? arguments.a : arguments.b) + " is of a run that draws",
                "compare two runs of one kind");
  const HashLog a(arguments.a), b(arguments.b);  // in this order: the first that is wrong is named
  const Parting parting = find_parting(a, b);
  const bool is_equal = parting.step == 0;
  if (arguments.json) {
    Json document = {{"compared", kTensorHashesFile},
                     {"equal", is_equal},
                     {"equal_updates", parting.equal_updates},
                     {"first_update", parting.first_common},
                     {"last_update", parting.last_common}};
    if (!is_equal) {
      document["update"] = parting.step;
      document["tensor"] = parting.tensor;
      document["kind"] = parting.is_gradient ? "gradient" : "value";
      document["values_that_differ"] = static_cast<std::uint64_t>(parting.values);
      document["gradients_that_differ"] = static_cast<std::uint64_t>(parting.gradients);
      document["divisions"] = {division_json(parting.division_of_a), division_json(parting.division_of_b)};
    }
    std::printf("%s\n", json_text(document, 2).c_str());
  } else if (is_equal) {
    std::printf("equal: all values and gradients of %lld hashed updates, %lld to %lld\n",
                static_cast<long long>(parting.equal_updates), static_cast<long long>(parting.first_common),
                static_cast<long long>(parting.last_common));
  } else {
    std::printf("update %lld: the %s of %s differs\n", static_cast<long long>(parting.step),
                parting.is_gradient ? "gradient" : "value", parting.tensor.c_str());
    std::printf(
        "it is the first in the order of the tape; differing in this update: values, as it read them: %zu, gradients: "
        "%zu\n",
        parting.values, parting.gradients);
    std::printf("%lld hashed updates before it are equal\n", static_cast<long long>(parting.equal_updates));
    const std::string note = division_note(parting.division_of_a, parting.division_of_b);
    if (!note.empty()) std::printf("%s\n", note.c_str());
  }
  if (!arguments.json) std::printf("compared: %s of both runs\n", kTensorHashesFile);
  return is_equal ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
