// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/files/input_file.h"
#include "src/loader/media.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

// Huge: with so many times the pixels that the model reads, and more than this.
constexpr double kHugeTimes = 256.0, kHugePixels = 4e6;
constexpr std::int64_t kTinyTimes = 4;       // shorter side times this is less than the model's
constexpr std::int64_t kElongatedTimes = 4;  // the longer side is more than this many times the shorter

std::string location(const OpenedData& opened, std::size_t split, std::int64_t picture) {
  return opened.data().splits[split].manifest->picture_location(picture);
}

// What is wrong with it, or its size.
std::string state_text(const PictureRecord& record) {
  if (record.reason == 0) return formatted("%u x %u pixels", record.width, record.height);
  if (record.reason == -ENOENT) return "the file is missing";
  if (-record.reason == EISDIR || -record.reason == kNotAFile) return "not a file";
  return record.reason < 0 ? std::generic_category().message(static_cast<int>(-record.reason))
                           : picture_reason_text(record.reason);
}

// A finding about the pictures that `is_one` chooses.
struct PictureCheck {
  Level level = Level::kWarning;
  const char* check = "";
  std::function<bool(const PictureRecord& record)> is_one;
  std::string one, many;  // behind "1 of 9 pictures" and behind "3 of 9 pictures"
  const char* what_to_do = "";
};

void find_those(const OpenedData& opened, const SplitPictures& pictures, const PictureCheck& check,
                std::vector<Finding>* findings) {
  Finding finding{check.level, check.check, "", check.what_to_do, 0};
  for (std::size_t picture = 0; picture < pictures.records.size(); ++picture) {
    const PictureRecord& record = pictures.records[picture];
    if (!check.is_one(record)) continue;
    ++finding.count;
    if (finding.examples.size() >= opened.most_examples()) continue;
    const std::string place = location(opened, pictures.split, static_cast<std::int64_t>(picture));
    const std::string note = record.reason == -ENOENT ? note_on_other_form(place) : "";
    finding.examples.push_back({shown_path(place) + ": " + state_text(record) + note, {}});
    if (record.width > 0) finding.examples.back().pictures.push_back(place);
  }
  if (finding.count == 0) return;
  finding.what = opened.name(pictures.split) + ": " + count_text(finding.count) + " of " +
                 counted(static_cast<std::int64_t>(pictures.records.size()), "picture") + " " +
                 (finding.count == 1 ? check.one : check.many);
  findings->push_back(std::move(finding));
}

// stops: a run ends at such a picture.
std::vector<PictureCheck> checks_of_files(bool stops) {
  const Level level = stops ? Level::kFails : Level::kWarning;
  return {{level, "missing_pictures", [](const PictureRecord& record) { return record.reason == -ENOENT; },
           "is missing", "are missing",
           stops ? "correct the paths, remove the rows, or set data.on_bad_sample = \"skip\""
                 : "correct the paths, or remove the rows, which the run skips"},
          {Level::kFails, "unreadable_pictures",
           [](const PictureRecord& record) { return record.reason < 0 && record.reason != -ENOENT; }, "cannot be read",
           "cannot be read",
           "put pictures in their place, or remove the rows: data.on_bad_sample = \"skip\" skips only files that are "
           "missing or cannot be decoded"},
          {level, "damaged_pictures", [](const PictureRecord& record) { return record.reason > 0; }, "cannot be used",
           "cannot be used",
           stops ? "repair them, remove the rows, or set data.on_bad_sample = \"skip\""
                 : "repair them, or remove the rows, which the run skips"}};
}

// side: of the pictures that the model reads.
std::vector<PictureCheck> checks_of_sizes(std::int64_t side) {
  const auto is_usable = [](const PictureRecord& record) { return record.reason == 0 && record.width > 0; };
  const std::string square = std::to_string(side) + " x " + std::to_string(side);
  const std::string grey = " of 16 bits, of which every value above 255 is read as white, as by Transformers",
                    huge = " more than 256 times the pixels of the " + square + " that the model reads",
                    tiny = " less than a quarter as large as the " + square + " pixels that the model reads";
  const auto is_huge = [=](const PictureRecord& record) {
    const double pixels = static_cast<double>(record.width) * static_cast<double>(record.height);
    return is_usable(record) && pixels > kHugePixels && pixels > kHugeTimes * static_cast<double>(side * side);
  };
  const auto is_tiny = [=](const PictureRecord& record) {
    return is_usable(record) && kTinyTimes * std::min(record.width, record.height) < side;
  };
  const auto is_elongated = [=](const PictureRecord& record) {
    return is_usable(record) &&
           std::max(record.width, record.height) > kElongatedTimes * std::min(record.width, record.height);
  };
  const auto is_grey_16 = [=](const PictureRecord& record) { return is_usable(record) && record.is_grey_16; };
  return {{Level::kWarning, "grey_16_bit_pictures", is_grey_16, "is a grey PNG" + grey, "are grey PNGs" + grey,
           "convert them to 8 bits"},
          {Level::kWarning, "huge_pictures", is_huge, "has" + huge, "have" + huge,
           "scale them down once: every epoch decodes them anew"},
          {Level::kWarning, "tiny_pictures", is_tiny, "is" + tiny, "are" + tiny,
           "find larger ones: scaled up, they show little"},
          {Level::kWarning, "elongated_pictures", is_elongated, "is more than four times as long as it is wide",
           "are more than four times as long as they are wide",
           "cut them: the model reads a square, which has a part of them or squeezes them"}};
}

// The words for pictures that several splits, or one, have twice.
struct Sameness {
  const char *in_two, *in_one;  // checks
  const char* how;              // " as the same file"
};

void add_equal(const OpenedData& opened, const std::vector<SplitPictures>& pictures, const EqualContent& content,
               const Sameness& same, std::vector<Finding>* findings) {
  const auto add = [&](const SharedRows& shared, Level level, const char* check, const std::string& end,
                       const std::string& what_to_do) {
    Finding finding{level, check,
                    opened.name(shared.of) + ": " + count_text(shared.rows) + " of " +
                        counted(static_cast<std::int64_t>(pictures[shared.of].records.size()), "picture") + " " + end,
                    what_to_do, shared.rows};
    for (const auto& [picture, other] : shared.examples) {
      const std::string one = location(opened, picture.split, picture.row);
      const std::string two = location(opened, other.split, other.row);
      finding.examples.push_back({shown_path(one) + " and " + shown_path(two), {one, two}});
    }
    findings->push_back(std::move(finding));
  };
  for (const SharedRows& shared : content.shared) {
    add(shared, Level::kWarning, same.in_two,
        std::string(verb_of(shared.rows)) + " in " + opened.name(shared.in) + " too" + same.how,
        advice_for_shared(opened, shared.in));
  }
  for (const SharedRows& shared : content.repeated)
    add(shared, Level::kNote, same.in_one,
        std::string(shared.rows == 1 ? "repeats" : "repeat") + " an earlier one" + same.how, "");
}

// Each picture that can be used, once for all files with the same bytes.
struct Unlike {
  std::vector<RowOfSplit> pictures;
  std::vector<Thumbnail> thumbnails;
};

Unlike with_other_bytes(const std::vector<SplitPictures>& pictures, const std::vector<const RowDigests*>& digests) {
  std::vector<std::vector<bool>> is_repeated;
  is_repeated.reserve(pictures.size());
  for (const SplitPictures& split : pictures) is_repeated.emplace_back(split.records.size(), false);
  find_equal_rows(digests, [&](const std::vector<RowOfSplit>& group) {
    for (std::size_t i = 1; i < group.size(); ++i) is_repeated[group[i].split][group[i].row] = true;
  });
  Unlike unlike;
  std::size_t all = 0;
  for (const SplitPictures& split : pictures) all += split.records.size();
  unlike.pictures.reserve(all);
  unlike.thumbnails.reserve(all);
  for (std::size_t split = 0; split < pictures.size(); ++split) {
    for (std::size_t picture = 0; picture < pictures[split].records.size(); ++picture) {
      if (!pictures[split].records[picture].has_thumbnail || is_repeated[split][picture]) continue;
      unlike.pictures.push_back({static_cast<std::uint32_t>(split), static_cast<std::uint32_t>(picture)});
      unlike.thumbnails.push_back(pictures[split].thumbnails[picture]);
    }
  }
  return unlike;
}

// A group is joined by pictures that are alike, not all of which need be: a film's frames are, one after another. So
// each picture is compared with those before it, the nearest first, at most 256 of a split.
void add_alike(const Unlike& unlike, const std::vector<std::uint32_t>& group, EqualContentCounter* alike) {
  constexpr std::size_t kMostCompared = 256;
  std::vector<std::size_t> begins;  // of the splits in the group
  for (std::size_t i = 0; i < group.size(); ++i) {
    const RowOfSplit picture = unlike.pictures[group[i]];
    if (i == 0 || unlike.pictures[group[i - 1]].split != picture.split) begins.push_back(i);
    for (std::size_t part = 0; part < begins.size(); ++part) {
      const std::size_t end = part + 1 < begins.size() ? begins[part + 1] : i;
      const std::size_t least = end - std::min(end - begins[part], kMostCompared);
      for (std::size_t j = end; j-- > least;) {
        if (!are_alike(unlike.thumbnails[group[i]], unlike.thumbnails[group[j]])) continue;
        alike->add(picture, unlike.pictures[group[j]]);
        break;
      }
    }
  }
}

}  // namespace

void find_in_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                      std::vector<Finding>* findings) {
  for (const SplitPictures& split : pictures) {
    for (const PictureCheck& check : checks_of_files(opened.stops_at_bad_samples()))
      find_those(opened, split, check, findings);
    for (const PictureCheck& check : checks_of_sizes(opened.data().loader.media.image_side))
      find_those(opened, split, check, findings);
  }
}

void find_equal_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                         std::vector<Finding>* findings) {
  if (pictures.empty()) return;
  std::vector<const RowDigests*> digests;
  digests.reserve(pictures.size());
  for (const SplitPictures& split : pictures) digests.push_back(&split.digests);
  add_equal(opened, pictures, equal_content(digests, opened.most_examples()),
            {"pictures_in_two_splits", "repeated_pictures", ", the same file byte for byte"}, findings);
  const Unlike unlike = with_other_bytes(pictures, digests);
  EqualContentCounter alike(pictures.size(), opened.most_examples());
  for (const std::vector<std::uint32_t>& group : find_alike(unlike.thumbnails)) add_alike(unlike, group, &alike);
  add_equal(opened, pictures, alike.content(),
            {"alike_pictures_in_two_splits", "alike_pictures", ", as far as 8 x 8 pixels show"}, findings);
}

}  // namespace bascule
