// SPDX-License-Identifier: Apache-2.0
#include "src/judge/examples.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "src/base/nearest.h"
#include "src/files/durable_write.h"

namespace bascule {

std::vector<std::int64_t> evenly_spaced(const std::vector<std::int64_t>& all, std::int64_t count) {
  const std::int64_t size = static_cast<std::int64_t>(all.size()), shown = std::min(count, size);
  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < shown; ++i) some.push_back(all[static_cast<std::size_t>(i * size / shown)]);
  return some;
}

std::size_t PictureShelf::add(std::int64_t row) {
  const std::int64_t id = manifest_.image_id(row);
  const auto [place, is_new] = index_.emplace(id, report_->pictures.size());
  if (!is_new) return place->second;
  std::vector<std::uint8_t> file(folder_.largest_file_bytes() + 1);
  std::size_t bytes = 0;
  if (folder_.read(row, Span<std::uint8_t>(file), &bytes) != 0) bytes = 0;
  ReportPicture picture;
  picture.name = std::string(manifest_.row(row).image_path);
  picture.caption = std::string(manifest_.row(row).text);
  picture.file.assign(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes));
  report_->pictures.push_back(std::move(picture));
  return place->second;
}

namespace {

constexpr std::int64_t kPictures = 12;
constexpr std::size_t kConfusions = 10, kMistakes = 12;

std::string class_name(std::int32_t id, const std::vector<std::string>& names) {
  const std::size_t at = static_cast<std::size_t>(id);
  return at < names.size() ? names[at] : std::to_string(id);
}

// The least accurate first; classes without a row are left out.
void add_accuracies(Report* report, const JudgedClasses& judged, const std::vector<std::string>& names) {
  std::map<std::int32_t, ClassAccuracy> classes;
  for (const std::int32_t row : judged.rows) {
    const std::int32_t label = judged.labels[row];
    ClassAccuracy& one = classes[label];
    ++one.rows;
    one.right += judged.best[row * judged.stride].id == label ? 1 : 0;
  }
  for (auto& [id, one] : classes) {
    one.name = class_name(id, names);
    report->class_accuracies.push_back(std::move(one));
  }
  std::stable_sort(report->class_accuracies.begin(), report->class_accuracies.end(),
                   [](const ClassAccuracy& a, const ClassAccuracy& b) { return a.right * b.rows < b.right * a.rows; });
}

void add_confusions(Report* report, const JudgedClasses& judged, const std::vector<std::string>& names) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
  for (const std::int32_t row : judged.rows) {
    const std::int32_t label = judged.labels[row], predicted = judged.best[row * judged.stride].id;
    if (label != predicted) ++counts[{label, predicted}];
  }
  for (const auto& [pair, rows] : counts)
    report->confusions.push_back({class_name(pair.first, names), class_name(pair.second, names), rows});
  std::stable_sort(report->confusions.begin(), report->confusions.end(),
                   [](const Confusion& a, const Confusion& b) { return a.rows > b.rows; });
  if (report->confusions.size() > kConfusions) report->confusions.resize(kConfusions);
}

std::vector<Guess> guesses_of(const JudgedClasses& judged, std::int64_t row, const std::vector<std::string>& names) {
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < judged.shown; ++i) {
    const ClassPrediction& one = judged.best[row * judged.stride + i];
    guesses.push_back({class_name(one.id, names), static_cast<double>(one.probability), one.id == judged.labels[row]});
  }
  return guesses;
}

void add_pictures(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                  const std::vector<std::string>& names) {
  PictureShelf shelf(report, manifest);
  for (const std::int64_t row : evenly_spaced({judged.rows.begin(), judged.rows.end()}, kPictures))
    report->class_examples.push_back(
        {shelf.add(row), class_name(judged.labels[row], names), guesses_of(judged, row, names)});
}

void add_mistakes(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                  const std::vector<std::string>& names) {
  const auto best = [&](std::int32_t row) -> const ClassPrediction& { return judged.best[row * judged.stride]; };
  std::vector<std::int32_t> wrong;
  std::copy_if(judged.rows.begin(), judged.rows.end(), std::back_inserter(wrong),
               [&](std::int32_t row) { return best(row).id != judged.labels[row]; });
  std::stable_sort(wrong.begin(), wrong.end(),
                   [&](std::int32_t a, std::int32_t b) { return best(a).probability > best(b).probability; });
  wrong.resize(std::min(wrong.size(), kMistakes));
  for (const std::int32_t row : wrong) {
    const ManifestRow texts = manifest.row(row);
    report->text_mistakes.push_back({std::string(texts.text), std::string(texts.second_text.value_or("")),
                                     class_name(judged.labels[row], names), guesses_of(judged, row, names)});
  }
}

}  // namespace

void add_class_examples(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                        const std::vector<std::string>& names) {
  add_accuracies(report, judged, names);
  add_confusions(report, judged, names);
  if (manifest.has_pictures()) {
    add_pictures(report, judged, manifest, names);
  } else {
    add_mistakes(report, judged, manifest, names);
  }
}

namespace {

constexpr std::int64_t kExamples = 8, kAnswers = 5;

// The judged rows, and which rows show which picture.
struct Judged {
  Judged(const RowEmbeddings& embeddings, const Manifest& of_manifest) : of(embeddings), manifest(of_manifest) {
    std::set<std::int64_t> seen;
    for (std::size_t place = 0; place < of.rows.size(); ++place) {
      captions.push_back(static_cast<std::int64_t>(place));
      if (seen.insert(picture(captions.back())).second) pictures.push_back(captions.back());
    }
  }
  Span<const float> embedding(const float* embeds, std::int64_t place) const {
    return {embeds + place * of.width, static_cast<std::size_t>(of.width)};
  }
  std::int64_t row(std::int64_t place) const { return of.rows[static_cast<std::size_t>(place)]; }
  std::int64_t picture(std::int64_t place) const { return manifest.image_id(row(place)); }
  std::string caption(std::int64_t place) const { return std::string(manifest.row(row(place)).text); }

  const RowEmbeddings& of;
  const Manifest& manifest;
  std::vector<std::int64_t> captions;  // every place
  std::vector<std::int64_t> pictures;  // the first place of each distinct picture
};

// Finds pictures by a caption, or captions by a picture.
RetrievalExample search(const Judged& judged, std::int64_t place, bool by_picture, PictureShelf& shelf) {
  RetrievalExample example;
  if (by_picture) {
    example.picture = shelf.add(judged.row(place));
  } else {
    example.text = judged.caption(place);
  }
  const float* const from = by_picture ? judged.of.image : judged.of.text;
  std::int64_t rank = 0;
  for (const Neighbour& answer : nearest(judged.embedding(from, place), by_picture ? judged.of.text : judged.of.image,
                                         by_picture ? judged.captions : judged.pictures)) {
    const bool right = judged.picture(answer.row) == judged.picture(place);
    const bool is_best = right && example.right_rank == 0;
    if (++rank > kAnswers && !is_best) continue;
    const RetrievalHit hit{by_picture ? kNoPicture : shelf.add(judged.row(answer.row)),
                           by_picture ? judged.caption(answer.row) : "", answer.score, right};
    if (rank <= kAnswers) example.hits.push_back(hit);
    if (!is_best) continue;
    example.right_hit = hit;
    example.right_rank = rank;
  }
  return example;
}

}  // namespace

void add_retrieval_examples(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest) {
  const Judged judged(embeddings, manifest);
  PictureShelf shelf(report, manifest);
  for (const std::int64_t place : evenly_spaced(judged.captions, kExamples))
    report->caption_examples.push_back(search(judged, place, false, shelf));
  for (const std::int64_t place : evenly_spaced(judged.pictures, kExamples))
    report->picture_examples.push_back(search(judged, place, true, shelf));
}

void add_embedding_map(Report* report, const RowEmbeddings& embeddings, const Manifest& manifest) {
  MapSource source;
  source.rows = static_cast<std::int64_t>(embeddings.rows.size());
  source.width = embeddings.width;
  source.text = embeddings.text;
  source.image = embeddings.image;
  source.row = [&](std::int64_t place) {
    const ManifestRow row = manifest.row(embeddings.rows[static_cast<std::size_t>(place)]);
    return MapRow{manifest.picture_location(row.image_id), std::string(row.text)};
  };
  report->map = make_embedding_map(source);
}

namespace {

std::string token_name(std::int32_t id, const std::vector<std::string>& names) {
  const std::size_t at = static_cast<std::size_t>(id);
  return at < names.size() && !names[at].empty() ? names[at] : std::to_string(id);
}

}  // namespace

SentenceExample sentence_example(const KeptSentence& kept, const std::vector<std::string>& names) {
  SentenceExample example;
  for (std::int64_t i = 0; i < kept.tokens; ++i) example.tokens.push_back({token_name(kept.ids[i], names), "", {}});
  for (std::int64_t i = 0; i < kept.masked_tokens; ++i) {
    const TokenGuesses& masked = kept.masked[i];
    ShownToken& token = example.tokens[static_cast<std::size_t>(masked.position)];
    token.expected = token_name(masked.expected, names);
    for (std::int64_t g = 0; g < kept.guesses; ++g) {
      const std::int32_t id = masked.ids[g];
      token.guesses.push_back(
          {token_name(id, names), static_cast<double>(masked.probabilities[g]), id == masked.expected});
    }
  }
  return example;
}

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;  // written at a time

// One line, with its line break.
std::string line_of(std::int64_t place, std::int64_t row, std::int64_t caption_row, const Manifest& manifest,
                    const AddPrediction& add, const TextKeys& keys) {
  const std::string_view image = manifest.row(row).image_path;
  const ManifestRow texts = manifest.row(caption_row);
  const bool has_texts = manifest.longest_text_bytes() > 0;
  for (std::string buffer(4096 + 2 * (image.size() + texts.text.size()), '\0');; buffer.resize(2 * buffer.size())) {
    JsonStream out(Span<char>(buffer.data(), buffer.size()));
    out.begin_object();
    out.key("row").integer(row);
    if (image.empty() && !has_texts) out.key("begins").string(manifest.where(row));  // of a text corpus
    if (!image.empty()) out.key("image").string(image);
    if (has_texts && keys.first != nullptr) out.key(keys.first).string(texts.text);
    if (texts.second_text && keys.second != nullptr) out.key(keys.second).string(*texts.second_text);
    add(out, place, row);
    out.end_object();
    if (!out.overflowed()) return std::string(out.text()) + "\n";
  }
}

}  // namespace

std::int64_t predictions_bytes(std::int64_t of_manifest, std::int64_t rows, std::int64_t judgement_bytes) {
  constexpr std::int64_t kRowBytes = 160;
  return 2 * of_manifest + rows * (kRowBytes + judgement_bytes);
}

void write_predictions(const JudgedFiles& files, Span<const std::int32_t> rows, const std::int32_t* caption_rows,
                       const AddPrediction& add, const TextKeys& keys) {
  const std::string path = files.folder + "/" + kPredictionsFile;
  OutputFile file;
  throw_if_failed(file.create((files.folder + "/" + kTemporaryPrefix + kPredictionsFile).c_str()), path, "creating");
  std::string block;
  for (std::size_t place = 0; place < rows.size(); ++place) {
    const std::int64_t row = rows[place];
    block += line_of(static_cast<std::int64_t>(place), row, caption_rows == nullptr ? row : caption_rows[row],
                     files.manifest, add, keys);
    if (block.size() < kBlockBytes && place + 1 < rows.size()) continue;
    throw_if_failed(file.write(block.data(), block.size()), path, "writing");
    block.clear();
  }
  throw_if_failed(file.sync_and_close(), path, "syncing");
  throw_if_failed(publish_file(files.folder.c_str(), kPredictionsFile), path, "renaming");
}

}  // namespace bascule
