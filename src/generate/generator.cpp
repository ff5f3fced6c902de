// SPDX-License-Identifier: Apache-2.0
#include "src/generate/generator.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "src/base/check.h"
#include "src/base/elementary.h"
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

}  // namespace

RecordedGeneration record_generation(Session* session, const Model& model, const Fields& fields,
                                     const BatchCounts& bounds, const SearchOptions& options, Precision precision,
                                     const std::vector<std::string>& frozen, std::int64_t slots) {
  RecordedGeneration recorded;
  recorded.source_offsets = field_from(fields, FieldSource::kTextOffsets);
  const int ids = field_from(fields, FieldSource::kTokenIds);
  BASCULE_CHECK(serves(model, Use::kDecode) && recorded.source_offsets >= 0 && ids >= 0);
  recorded.source_stream = fields[static_cast<std::size_t>(ids)].rows.stream;
  DecodingShape& shape = recorded.shape;
  const std::int64_t longest = bounds.longest[recorded.source_stream], rows = bounds[recorded.source_stream];
  recorded.slots = slots > 0 ? slots : bounds.samples();
  shape.keeps_sources = slots > 0;
  shape.slots = recorded.slots * options.num_beams;
  shape.max_length = options.max_length;
  shape.longest_source = longest > 0 ? longest : rows;
  shape.source_rows = shape.keeps_sources ? slots * shape.longest_source : rows;

  RecordOptions record_options;
  record_options.frozen = frozen;
  record_options.decoding = shape;
  Fields encoded = fields;
  recorded.kept_sources = static_cast<int>(fields.size());
  if (shape.keeps_sources)
    encoded.push_back(
        {kKeptSources, DType::kInt32, rows_of_stream(recorded.source_stream), 1, FieldSource::kGenerator});
  Graph& encode = session->add_graph(bounds, encoded);
  recorded.encode = session->graphs() - 1;
  model.record(encode, Use::kEncode, record_options);
  BatchCounts live;
  live[kSamples] = recorded.slots;
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

std::size_t Generator::cut_memory(std::byte* memory) {
  const DecodingShape& shape = recorded_.shape;
  ArrayCutter cutter(memory);
  cutter.cut(&next_places_, shape.slots);
  cutter.cut(&past_counts_, shape.slots);
  cutter.cut(&past_places_, shape.slots * shape.max_length);
  cutter.cut(&live_offsets_, max_samples_ + 1);
  cutter.cut(&source_places_, max_samples_ * shape.longest_source);
  for (std::int32_t** const by_sample : {&source_counts_, &sources_, &source_lengths_})
    cutter.cut(by_sample, max_samples_);
  if (!shape.keeps_sources) return cutter.used_bytes();
  cutter.cut(&kept_sources_, shape.source_rows);
  cutter.cut(&stepped_, shape.slots);
  for (std::int32_t** const by_slot : {&wants_logs_, &is_finite_}) cutter.cut(by_slot, max_samples_);
  cutter.cut(&logs_, max_samples_ * shape.max_length);
  return cutter.used_bytes();
}

std::size_t Generator::bytes() const {
  return const_cast<Generator*>(this)->cut_memory(nullptr) + search_.bytes();  // only counts
}

void Generator::seal(std::byte* memory, const Tapes& tapes) {
  search_.seal(memory + cut_memory(memory));
  encode_ = tapes[recorded_.encode].get();
  decode_ = tapes[recorded_.decode].get();
  logits_ = decode_->at(recorded_.logits);
  top_ = decode_->at(recorded_.sums.top);
  log_sum_ = decode_->at(recorded_.sums.log_sum);
}

void Generator::seal_alone(const Session& session) {
  memory_.reset(std::aligned_alloc(kCacheLine, align_up(bytes(), kCacheLine)));
  if (memory_ == nullptr) throw std::bad_alloc();
  seal(static_cast<std::byte*>(memory_.get()), session.tapes());
}

// Fills the places of the rows that the search wants decoded. Returns the number of their samples.
std::int64_t Generator::fill_places() noexcept {
  const std::int64_t most = recorded_.shape.max_length;
  std::int64_t live = 0;
  live_offsets_[0] = 0;
  for (std::int64_t r = 0; r < search_.rows(); ++r) {
    const std::int64_t position = search_.position(r);
    const std::size_t row = static_cast<std::size_t>(r);
    const auto place_of = [&](std::int32_t slot, std::int64_t p) { return static_cast<std::int32_t>(slot * most + p); };
    std::int32_t* const past = past_places_ + r * most;
    const std::int32_t* const history = search_.history(r);
    for (std::int64_t p = 0; p < position; ++p) past[p] = place_of(history[p], p);
    past[position] = next_places_[r] = place_of(search_.slots()[row], position);
    past_counts_[r] = static_cast<std::int32_t>(position + 1);

    const std::int32_t sample = search_.samples()[row];
    if (r == 0 || sample != search_.samples()[row - 1]) {
      const std::int32_t first = sources_[sample], count = source_lengths_[sample];
      std::int32_t* const places = source_places_ + live * recorded_.shape.longest_source;
      for (std::int32_t i = 0; i < count; ++i) places[i] = first + i;
      source_counts_[live++] = count;
    }
    live_offsets_[live] = static_cast<std::int32_t>(r + 1);
  }
  return live;
}

void Generator::step(Threads& threads) noexcept {
  Replay decoding;
  const std::int64_t rows = search_.rows();
  Batch& next = decoding.batch;
  next.counts[kSamples] = fill_places();
  next.counts[kLiveRows] = rows;
  next.fields[kTokens] = search_.tokens().data();
  next.fields[kPlaces] = next_places_;
  next.fields[kPast] = past_places_;
  next.fields[kPastNumber] = past_counts_;
  next.fields[kOffsets] = live_offsets_;
  next.fields[kSources] = source_places_;
  next.fields[kSourceNumber] = source_counts_;
  decode_->replay(threads, decoding);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (std::isfinite(logits_[r * vocabulary_size_])) continue;
    saw_not_finite_ = true;
    if (is_finite_ != nullptr) is_finite_[search_.samples()[static_cast<std::size_t>(r)]] = 0;
  }
  decoded_rows_ += rows;
  ++decoded_steps_;
  const Span<const std::int32_t> samples = search_.samples();
  if (stepped_ != nullptr) std::copy(samples.begin(), samples.end(), stepped_);
  search_.take(threads, logits_, vocabulary_size_, top_, log_sum_);
  if (wants_logs_ != nullptr) keep_logs(threads, rows);
}

// Of what was chosen in a step of so many rows.
void Generator::keep_logs(Threads& threads, std::int64_t rows) noexcept {
  run_tasks(threads, rows, [&](std::int64_t r) {
    const std::int32_t sample = stepped_[r];
    if (wants_logs_[sample] == 0) return;
    const float* const logits = logits_ + r * vocabulary_size_;
    const double top = static_cast<double>(*std::max_element(logits, logits + vocabulary_size_));
    double sum = 0.0;
    for (std::int64_t i = 0; i < vocabulary_size_; ++i) sum += fixed_exp(static_cast<double>(logits[i]) - top);
    const double chosen = static_cast<double>(logits[search_.chosen(sample)]);
    logs_[sample * recorded_.shape.max_length + past_counts_[r] - 1] =
        static_cast<float>(chosen - top - fixed_log(sum));
  });
}

int Generator::run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept {
  Replay encoding;
  encoding.batch = batch;
  encode_->replay(threads, encoding);
  const std::int32_t* const offsets = batch.field<std::int32_t>(recorded_.source_offsets);
  const std::int64_t samples = batch.counts.samples();
  for (std::int64_t s = 0; s < samples; ++s) {
    sources_[s] = offsets[s];
    source_lengths_[s] = offsets[s + 1] - offsets[s];
  }
  search_.begin(samples);
  while (!search_.done()) {
    const std::int64_t rows = search_.rows(), live = search_.live();
    step(threads);
    const int signal = watch != nullptr ? watch->decoded(rows, samples - live) : 0;
    if (signal != 0) return signal;
  }
  return 0;
}

void Generator::open() noexcept { search_.begin(0); }

void Generator::join(const Batch& batch, Span<const Joining> joining, Threads& threads) noexcept {
  const std::int32_t* const offsets = batch.field<std::int32_t>(recorded_.source_offsets);
  Replay encoding;
  encoding.batch = batch;
  for (std::size_t s = 0; s < joining.size(); ++s) {
    const Joining& one = joining[s];
    const std::int32_t first = static_cast<std::int32_t>(one.slot * recorded_.shape.longest_source);
    sources_[one.slot] = first;
    source_lengths_[one.slot] = offsets[s + 1] - offsets[s];
    for (std::int32_t t = offsets[s]; t < offsets[s + 1]; ++t) kept_sources_[t] = first + t - offsets[s];
    is_finite_[one.slot] = 1;
    wants_logs_[one.slot] = one.wants_logs ? 1 : 0;
  }
  encoding.batch.fields[recorded_.kept_sources] = kept_sources_;
  encode_->replay(threads, encoding);
  for (const Joining& one : joining) search_.join(one.slot, one.max_length);
}

}  // namespace bascule
