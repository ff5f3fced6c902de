// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/index/line_reader.h"
#include "src/index/open_manifest.h"
#include "src/index/relevance.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

constexpr char kEmbeddings[] = "embeddings", kDigests[] = "digests", kPlaces[] = "places";  // tensors
constexpr char kModel[] = "model", kState[] = "texts";                                      // metadata
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kBytesOfText = 64;  // of its row, digest and place, in lists that have grown
constexpr std::size_t kBytesOfScore = 8;  // and of its place among the others
constexpr char kHowToRemake[] = "remove it: the same command makes it again";

bool has_objects(const std::string& file) { return fs::path(file).extension() == ".jsonl"; }

std::string state_of(const std::string& file) {
  DataFiles files;
  files.manifests.emplace_back();
  files.manifests.back().path = file;
  const std::optional<std::uint64_t> digest = state_digest(files);
  return digest ? std::to_string(*digest) : "";
}

std::int64_t text_digest(const std::string& text) {
  return static_cast<std::int64_t>(digest_of(text.data(), text.size()));
}

}  // namespace

// The index's file in memory, as long as this lives, whatever becomes of its name.
class TextIndex::Mapping {
 public:
  explicit Mapping(const std::string& path) : bytes_(static_cast<std::size_t>(InputFile(path).size())) {
    const Descriptor file(open_regular_file(AT_FDCWD, path.c_str()));
    if (file.is_open()) data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.number(), 0);
    if (data_ == MAP_FAILED) throw Error(ErrorKind::kMemory, path, "cannot be mapped");
  }
  ~Mapping() { ::munmap(data_, bytes_); }
  Mapping(Mapping&&) = delete;
  Mapping& operator=(Mapping&&) = delete;

  template <typename Element>
  const Element* at(std::int64_t offset) const {
    return static_cast<const Element*>(static_cast<const void*>(static_cast<const char*>(data_) + offset));
  }

 private:
  std::size_t bytes_;
  void* data_ = MAP_FAILED;
};

TextIndex::TextIndex(Source source, const Plan& plan, const Embed& embed, const Say& say) : source_(std::move(source)) {
  state_ = state_of(source_.file);
  open();
  if (is_current_ && !state_.empty()) {
    plan(static_cast<std::size_t>(texts_) * kBytesOfScore);
    return;
  }
  refresh(plan, embed, say);
  open();
}

TextIndex::~TextIndex() = default;

// Leaves no texts where there is no index of this model.
void TextIndex::open() {
  texts_ = 0;
  is_current_ = false;
  if (!is_there(source_.index)) return;
  const SafetensorsHeader header = read_safetensors_header(InputFile(source_.index));
  const auto value = [&](const char* key) {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end() ? std::string() : found->second;
  };
  const auto tensor = [&](const char* name, DType dtype, std::size_t dimensions) -> const StoredTensor& {
    const auto found = std::find_if(header.tensors.begin(), header.tensors.end(),
                                    [&](const StoredTensor& one) { return one.name == name; });
    if (found == header.tensors.end() || found->dtype != dtype || found->shape.size() != dimensions)
      throw Error(ErrorKind::kData, source_.index, std::string("has no ") + name + " of texts: it is no index",
                  "choose another path with --index");
    return *found;
  };
  const StoredTensor& embeddings = tensor(kEmbeddings, DType::kFloat32, 2);
  const StoredTensor &digests = tensor(kDigests, DType::kInt64, 1), &places = tensor(kPlaces, DType::kInt64, 2);
  if (value(kModel) != source_.model || embeddings.shape[1] != source_.width) return;
  const std::int64_t texts = embeddings.shape[0];
  if (digests.shape[0] != texts || places.shape != Extents{texts, 2} ||
      texts > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::kData, source_.index, "is damaged: its tensors are of other counts", kHowToRemake);
  mapping_ = std::make_unique<Mapping>(source_.index);
  embeddings_ = mapping_->at<float>(embeddings.offset);
  digests_ = mapping_->at<std::int64_t>(digests.offset);
  places_ = mapping_->at<TextPlace>(places.offset);
  texts_ = texts;
  is_current_ = value(kState) == state_;
}

namespace {

// The rows of a new index, in the order of the file: each one of the old index, or one that was just embedded.
struct NewRows {
  const float* old = nullptr;
  std::vector<float> embedded;
  std::vector<std::int64_t> rows;  // of the old index; below 0: ~row of `embedded`
  std::int64_t width = 0;

  static Status read(void* context, float* destination, std::int64_t first, std::int64_t count) noexcept {
    const NewRows& all = *static_cast<const NewRows*>(context);
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t row = (first + done) / all.width, column = (first + done) % all.width;
      const std::int64_t number = all.rows[static_cast<std::size_t>(row)];
      const float* const from = number >= 0 ? all.old + number * all.width : all.embedded.data() + ~number * all.width;
      const std::int64_t part = std::min(count - done, all.width - column);
      std::copy_n(from + column, part, destination + done);
      done += part;
    }
    return ok_status();
  }
};

Error changed_file(const std::string& file) {
  return Error(ErrorKind::kData, file, "was changed while it was read", "run the same command again");
}

void read_texts(const std::string& file, const std::function<void(std::string text, const TextPlace& place)>& take) {
  LineReader lines(file);
  const bool are_objects = has_objects(file);
  for (std::string_view line; lines.next(&line);) {
    if (is_empty_text(line)) continue;
    if (const std::size_t byte = first_invalid_utf8(line); byte != line.size())
      throw Error(ErrorKind::kData, file + ":" + std::to_string(lines.line()),
                  "byte " + std::to_string(byte) + " is not UTF-8", "write it in UTF-8");
    take(are_objects ? text_with_id(line, file, lines.line()).text : std::string(line), {lines.offset(), lines.line()});
  }
}

}  // namespace

// Two passes over the file: the first one finds what is new, so that its memory is planned before anything is embedded.
void TextIndex::refresh(const Plan& plan, const Embed& embed, const Say& say) {
  NewRows all;
  all.old = embeddings_;
  all.width = source_.width;
  std::vector<std::int64_t> digests;
  std::vector<TextPlace> places;
  std::int64_t embedded = 0, taken = 0;
  std::size_t together = 0, most_together = 0;  // bytes of the texts that are embedded at once
  {
    std::unordered_map<std::int64_t, std::int64_t> known;  // row of the old index by digest; those taken: -1
    for (std::int64_t row = 0; row < texts_; ++row) known.emplace(digests_[row], row);
    read_texts(source_.file, [&](const std::string& text, const TextPlace& at) {
      const std::int64_t digest = text_digest(text);
      const auto [place, is_new] = known.emplace(digest, -1);
      if (!is_new && place->second < 0) return;  // equal to one before
      all.rows.push_back(is_new ? ~embedded++ : place->second);
      taken += is_new ? 0 : 1;
      place->second = -1;
      digests.push_back(digest);
      places.push_back(at);
      if (!is_new) return;
      together += text.size() + sizeof(std::string);
      most_together = std::max(most_together, together);
      if (embedded % static_cast<std::int64_t>(kTextsAtOnce) == 0) together = 0;
    });
  }
  const std::int64_t count = static_cast<std::int64_t>(all.rows.size());
  if (count == 0) throw Error(ErrorKind::kData, source_.file, "has no texts", "add at least one");
  const std::size_t numbers = static_cast<std::size_t>(embedded * source_.width);
  plan(numbers * sizeof(float) + static_cast<std::size_t>(count) * kBytesOfText + most_together);
  all.embedded.reserve(numbers);
  std::vector<std::string> waiting;
  const auto embed_waiting = [&] {
    if (!waiting.empty()) embed(waiting, &all.embedded);
    waiting.clear();
  };
  std::size_t next = 0;
  read_texts(source_.file, [&](std::string text, const TextPlace& at) {
    if (next == places.size() || at.line != places[next].line) return;  // equal to one before
    if (text_digest(text) != digests[next]) throw changed_file(source_.file);
    if (all.rows[next++] >= 0) return;
    waiting.push_back(std::move(text));
    if (waiting.size() == kTextsAtOnce) embed_waiting();
  });
  embed_waiting();
  if (next != places.size()) throw changed_file(source_.file);
  TensorToWrite of_rows, of_digests, of_places;
  of_rows.name = kEmbeddings;
  of_rows.shape = {count, source_.width};
  of_rows.reader = {NewRows::read, &all};
  of_digests.name = kDigests;
  of_digests.dtype = of_places.dtype = DType::kInt64;
  of_digests.shape = {count};
  of_digests.data = digests.data();
  of_places.name = kPlaces;
  of_places.shape = {count, 2};
  of_places.data = places.data();
  const SafetensorsWritePlan file({of_rows, of_digests, of_places},
                                  {{"format", "pt"}, {kModel, source_.model}, {kState, state_}});
  const fs::path path(source_.index);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".",
                    name = path.filename().string();
  try {
    throw_if_failed(file.write((folder + "/" + kTemporaryPrefix + name).c_str()), source_.index, "writing");
    throw_if_failed(publish_file(folder.c_str(), name), source_.index, "renaming");
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.problem(), "choose another path with --index");
  }
  say(source_.index + ": " + count_of(embedded, "text") + " embedded, " + count_of(taken, "text") + " of before, " +
      count_of(texts_ - taken, "text") + " gone");
}

std::vector<Neighbour> TextIndex::nearest(Span<const float> query, std::size_t top, GemmLibrary& products,
                                          Threads& threads) const {
  const std::unique_ptr<Gemm> product = products.make(
      {GemmKind::kForward, 1, texts_, source_.width, source_.width, source_.width, texts_, false, true, false});
  std::vector<float> scores(static_cast<std::size_t>(texts_));
  struct Call {
    const Gemm& product;
    GemmRun run;
  };
  const Call call{*product, {scores.data(), query.data(), embeddings_, nullptr, 1, false}};
  const Step step{
      [](const void* arguments, const Replay&, std::int64_t task, int thread) {
        const Call& its = *static_cast<const Call*>(arguments);
        its.product.run(task, thread, its.run);
      },
      [](const void* arguments, const Replay&) { return static_cast<const Call*>(arguments)->product.tasks(1); }, &call,
      0};
  threads.replay(Span<const Step>(&step, 1), Replay(), {});
  const auto bad = std::find_if(scores.begin(), scores.end(), [](float score) { return !std::isfinite(score); });
  if (bad != scores.end())
    throw Error(ErrorKind::kData, source_.index,
                "is damaged: text " + std::to_string(bad - scores.begin()) + " has an embedding that is not finite",
                kHowToRemake);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t row) { return scores[static_cast<std::size_t>(row)]; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(top, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::int32_t a, std::int32_t b) {
    return score(a) > score(b) || (!(score(b) > score(a)) && a < b);
  });
  std::vector<Neighbour> found;
  for (auto row = order.begin(); row != end; ++row) found.push_back({*row, static_cast<double>(score(*row))});
  return found;
}

FoundText TextIndex::text(std::int64_t row) const {
  const InputFile file(source_.file);
  const auto [offset, number] = places_[row];
  std::string line;
  for (std::int64_t bytes = 1 << 12;; bytes *= 2) {
    line.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(bytes, file.size() - offset))));
    file.read(line.data(), offset, line.size());
    const std::size_t end = find_line_break(line, 0);
    const bool is_whole = end < line.size() || static_cast<std::int64_t>(line.size()) < bytes;
    line.resize(end);
    if (is_whole) break;
  }
  if (offset == 0 && line.rfind(kByteOrderMark, 0) == 0) line.erase(0, kByteOrderMark.size());
  FoundText found{line, fs::path(source_.file).filename().string() + ":" + std::to_string(number)};
  if (has_objects(source_.file)) {
    TextWithId one = text_with_id(line, source_.file, number);
    found.text = std::move(one.text);
    if (!one.id.empty()) found.name = std::move(one.id);
  }
  return found;
}

}  // namespace bascule
