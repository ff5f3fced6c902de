// SPDX-License-Identifier: Apache-2.0
#include "src/generate/generator.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/element_types.h"

namespace bascule {
namespace {

std::size_t bytes_of_words(std::int64_t count) {
  return align_up(static_cast<std::size_t>(count) * sizeof(std::int32_t), kCacheLine);
}

}  // namespace

std::size_t GeneratedRows::bytes() const noexcept {
  return bytes_of_words(samples_ * most_ids_) + 2 * bytes_of_words(samples_);
}

void GeneratedRows::seal(std::byte* memory) noexcept {
  ids_ = static_cast<std::int32_t*>(static_cast<void*>(memory));
  memory += bytes_of_words(samples_ * most_ids_);
  counts_ = static_cast<std::int32_t*>(static_cast<void*>(memory));
  scores_ = static_cast<float*>(static_cast<void*>(memory + bytes_of_words(samples_)));
  clear();
}

void GeneratedRows::take(const TokenSearch& search, std::int64_t samples) noexcept {
  for (std::int64_t s = 0; s < samples; ++s) {
    const Span<const std::int32_t> ids = search.generated(s);
    std::copy(ids.begin(), ids.end(), ids_ + s * most_ids_);
    counts_[s] = static_cast<std::int32_t>(ids.size());
    scores_[s] = search.score(s);
  }
}

void GeneratedRows::clear() noexcept {
  std::fill_n(counts_, samples_, -1);
  std::fill_n(scores_, samples_, 0.0f);
}

namespace {

// The fields of a decoding batch, in the order of decoding_fields().
enum : std::size_t { kTokens, kPlaces, kPast, kPastNumber, kOffsets, kSources, kSourceNumber };

constexpr std::int64_t kWord = 16;  // elements of a cache line

std::int64_t aligned(std::int64_t count) { return align_up<std::int64_t>(count, kWord); }

}  // namespace

RecordedGeneration record_generation(Session* session, const Model& model, const Fields& fields,
                                     const BatchCounts& bounds, const SearchOptions& options, Precision precision,
                                     const std::vector<std::string>& frozen) {
  RecordedGeneration recorded;
  recorded.source_offsets = field_from(fields, FieldSource::kTextOffsets);
  const int ids = field_from(fields, FieldSource::kTokenIds);
  BASCULE_CHECK(serves(model, Use::kDecode) && recorded.source_offsets >= 0 && ids >= 0);
  recorded.source_stream = fields[static_cast<std::size_t>(ids)].rows.stream;
  DecodingShape& shape = recorded.shape;
  shape.slots = bounds.samples() * options.num_beams;
  shape.max_length = options.max_length;
  shape.source_rows = bounds[recorded.source_stream];
  const std::int64_t longest = bounds.longest[recorded.source_stream];
  shape.longest_source = longest > 0 ? longest : shape.source_rows;

  RecordOptions record_options;
  record_options.frozen = frozen;
  record_options.decoding = shape;
  Graph& encode = session->add_graph(bounds, fields);
  recorded.encode = session->graphs() - 1;
  model.record(encode, Use::kEncode, record_options);
  BatchCounts live;
  live[kSamples] = bounds.samples();
  live[kLiveRows] = shape.slots;
  Graph& decode = session->add_graph(live, decoding_fields(shape));
  recorded.decode = session->graphs() - 1;
  recorded.logits = model.record(decode, Use::kDecode, record_options).output("logits");
  if (options.num_beams > 1) {
    recorded.sums = log_sums(decode, recorded.logits);
    decode.keep(recorded.sums.top);
    decode.keep(recorded.sums.log_sum);
  }
  if (precision == Precision::kBf16) {
    choose_element_types(encode);
    choose_element_types(decode);
  }
  return recorded;
}

Generator::Generator(const RecordedGeneration& recorded, const SearchOptions& options, std::int64_t max_samples)
    : recorded_(recorded),
      max_samples_(max_samples),
      search_(options, max_samples),
      vocabulary_size_(options.vocabulary_size) {}

std::size_t Generator::bytes() const {
  const DecodingShape& shape = recorded_.shape;
  const std::int64_t words = 2 * aligned(shape.slots) + aligned(shape.slots * shape.max_length) +
                             aligned(max_samples_ + 1) + aligned(max_samples_ * shape.longest_source) +
                             aligned(max_samples_);
  return static_cast<std::size_t>(words) * sizeof(std::int32_t) + search_.bytes();
}

void Generator::seal(std::byte* memory, const Session& session, bool averaged) {
  const DecodingShape& shape = recorded_.shape;
  std::int32_t* next = static_cast<std::int32_t*>(static_cast<void*>(memory));
  const auto cut = [&next](std::int64_t count) {
    std::int32_t* const place = next;
    next += aligned(count);
    return place;
  };
  next_places_ = cut(shape.slots);
  past_counts_ = cut(shape.slots);
  past_places_ = cut(shape.slots * shape.max_length);
  live_offsets_ = cut(max_samples_ + 1);
  source_places_ = cut(max_samples_ * shape.longest_source);
  source_counts_ = cut(max_samples_);
  search_.seal(static_cast<std::byte*>(static_cast<void*>(next)));
  encode_ = averaged ? &session.averaged_tape(recorded_.encode) : &session.tape(recorded_.encode);
  decode_ = averaged ? &session.averaged_tape(recorded_.decode) : &session.tape(recorded_.decode);
  logits_ = decode_->at(recorded_.logits);
  top_ = decode_->at(recorded_.sums.top);
  log_sum_ = decode_->at(recorded_.sums.log_sum);
}

void Generator::seal_alone(const Session& session) {
  memory_.reset(std::aligned_alloc(kCacheLine, align_up(bytes(), kCacheLine)));
  if (memory_ == nullptr) throw std::bad_alloc();
  seal(static_cast<std::byte*>(memory_.get()), session);
}

// Fills the places of the rows that the search wants decoded. Returns the number of their samples.
std::int64_t Generator::fill_places(const std::int32_t* source_offsets) noexcept {
  const std::int64_t position = search_.position(), most = recorded_.shape.max_length;
  std::int64_t live = 0;
  live_offsets_[0] = 0;
  for (std::int64_t r = 0; r < search_.rows(); ++r) {
    const std::size_t row = static_cast<std::size_t>(r);
    const auto place_of = [&](std::int32_t slot, std::int64_t p) { return static_cast<std::int32_t>(slot * most + p); };
    std::int32_t* const past = past_places_ + r * most;
    const std::int32_t* const history = search_.history(r);
    for (std::int64_t p = 0; p < position; ++p) past[p] = place_of(history[p], p);
    past[position] = next_places_[r] = place_of(search_.slots()[row], position);
    past_counts_[r] = static_cast<std::int32_t>(position + 1);

    const std::int32_t sample = search_.samples()[row];
    if (r == 0 || sample != search_.samples()[row - 1]) {
      const std::int32_t first = source_offsets[sample], count = source_offsets[sample + 1] - first;
      std::int32_t* const places = source_places_ + live * recorded_.shape.longest_source;
      for (std::int32_t i = 0; i < count; ++i) places[i] = first + i;
      source_counts_[live++] = count;
    }
    live_offsets_[live] = static_cast<std::int32_t>(r + 1);
  }
  return live;
}

int Generator::run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept {
  Replay encoding;
  encoding.batch = batch;
  encode_->replay(threads, encoding);
  const std::int32_t* const source_offsets = batch.field<std::int32_t>(recorded_.source_offsets);
  search_.begin(batch.counts.samples());
  while (!search_.done()) {
    Replay decoding;
    const std::int64_t rows = search_.rows();
    Batch& next = decoding.batch;
    const std::int64_t live = next.counts[kSamples] = fill_places(source_offsets);
    next.counts[kLiveRows] = rows;
    next.fields[kTokens] = search_.tokens().data();
    next.fields[kPlaces] = next_places_;
    next.fields[kPast] = past_places_;
    next.fields[kPastNumber] = past_counts_;
    next.fields[kOffsets] = live_offsets_;
    next.fields[kSources] = source_places_;
    next.fields[kSourceNumber] = source_counts_;
    decode_->replay(threads, decoding);
    for (std::int64_t r = 0; r < rows; ++r)
      saw_not_finite_ = saw_not_finite_ || !std::isfinite(logits_[r * vocabulary_size_]);
    decoded_rows_ += rows;
    ++decoded_steps_;
    search_.take(threads, logits_, vocabulary_size_, top_, log_sum_);
    const int signal = watch != nullptr ? watch->decoded(rows, batch.counts.samples() - live) : 0;
    if (signal != 0) return signal;
  }
  return 0;
}

}  // namespace bascule
