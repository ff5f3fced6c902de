// SPDX-License-Identifier: Apache-2.0
#include "src/loader/distinct_batches.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/span.h"

namespace bascule {
namespace {

// A text of the data, by its place among all.
struct TextKey {
  std::uint64_t digest;
  std::uint64_t place;  // row * columns + column
};

// Numbers texts by their bytes, those of equal digests; returns the next free number.
std::uint32_t number_equal_texts(const Manifest& manifest, Span<const TextKey> group, std::uint32_t next,
                                 std::vector<std::uint32_t>* numbers) {
  const std::size_t columns = manifest.texts_of_a_row();
  const auto text_of = [&](std::size_t i) {
    return manifest.text(static_cast<std::int64_t>(group[i].place / columns), group[i].place % columns);
  };
  std::vector<bool> is_numbered(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (is_numbered[i]) continue;
    const std::string_view text = text_of(i);
    bool is_shared = false;
    for (std::size_t j = i + 1; j < group.size(); ++j) {
      if (is_numbered[j] || text_of(j) != text) continue;
      is_numbered[j] = true;
      is_shared = is_shared || group[j].place / columns != group[i].place / columns;
      (*numbers)[group[j].place] = next;
    }
    (*numbers)[group[i].place] = next;
    if (is_shared) {
      ++next;
      continue;
    }
    for (std::size_t j = i; j < group.size(); ++j) {
      if ((*numbers)[group[j].place] == next) (*numbers)[group[j].place] = 0;
    }
  }
  return next;
}

}  // namespace

DistinctBatches::DistinctBatches(const Manifest& manifest, std::uint64_t seed, const BatchCut& cut)
    : seed_(seed), cut_(cut), columns_(manifest.texts_of_a_row()) {
  BASCULE_CHECK(cut.rows == manifest.rows() && manifest.taken_out().empty());
  const std::size_t rows = static_cast<std::size_t>(cut.rows);
  if (rows > std::numeric_limits<std::uint32_t>::max())
    throw Error{ErrorKind::kData, manifest.name(), "more than 2^32 rows, among which no duplicates are looked for",
                "set training.batch_sampler = \"batch_sampler\""};
  texts_.resize(rows * columns_);
  std::vector<TextKey> keys;
  keys.reserve(texts_.size());
  for (std::size_t place = 0; place < texts_.size(); ++place) {
    const std::string_view text = manifest.text(static_cast<std::int64_t>(place / columns_), place % columns_);
    keys.push_back({digest_of(text.data(), text.size()), place});
  }
  std::sort(keys.begin(), keys.end(), [](const TextKey& a, const TextKey& b) {
    return a.digest != b.digest ? a.digest < b.digest : a.place < b.place;
  });
  std::uint32_t next = 1;
  for (std::size_t first = 0, end = 0; first < keys.size(); first = end) {
    while (end < keys.size() && keys[end].digest == keys[first].digest) ++end;
    if (end - first > 1) next = number_equal_texts(manifest, {keys.data() + first, end - first}, next, &texts_);
  }
  different_texts_ = next;
}

// One epoch. Rows wait in line for the text that kept them out of a batch: while a batch has that text, nobody in the
// line can join it, and all others are tried in the order of the epoch.
class DistinctBatches::Walk {
 public:
  Walk(const DistinctBatches& of, std::int64_t epoch, Epoch* plan)
      : of_(of),
        order_(of.seed_, epoch, of.cut_.rows),
        plan_(*plan),
        lines_(of.different_texts_),
        batch_(lines_.size()) {}

  // Whether rows are left.
  bool is_over() const { return first_in_line_.empty() && fresh_ == of_.cut_.rows; }

  // Fills the next batch; returns its rows.
  std::int64_t fill() {
    ++number_;
    std::int64_t rows = 0;
    const std::int64_t most = of_.cut_.global_batch();
    for (auto one = first_in_line_.begin(); one != first_in_line_.end() && rows < most;) {
      const auto [position, line] = *one;
      if (batch_[line] == number_) {
        ++one;
        continue;
      }
      leave_line(line);
      rows += join_or_wait(position) ? 1 : 0;
      one = first_in_line_.upper_bound({position, line});
    }
    while (rows < most && fresh_ < of_.cut_.rows) rows += join_or_wait(static_cast<std::uint32_t>(fresh_++)) ? 1 : 0;
    return rows;
  }

  // Takes the last batch back.
  void leave_out(std::size_t rows) {
    std::size_t left = rows;
    while (left > 0) {
      const std::size_t of_run = std::min<std::size_t>(left, planned_ - plan_.run_begins.back());
      planned_ -= of_run;
      left -= of_run;
      if (planned_ == plan_.run_begins.back()) {
        plan_.run_begins.pop_back();
        plan_.run_positions.pop_back();
      }
    }
  }
  std::uint32_t planned() const { return static_cast<std::uint32_t>(planned_); }

 private:
  using Line = std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;

  bool join_or_wait(std::uint32_t position) {
    const std::uint32_t* const texts =
        of_.texts_.data() + static_cast<std::size_t>(order_.row(position)) * of_.columns_;
    for (std::size_t i = 0; i < of_.columns_; ++i) {
      if (texts[i] == 0 || batch_[texts[i]] != number_) continue;
      join_line(position, texts[i]);
      return false;
    }
    for (std::size_t i = 0; i < of_.columns_; ++i) batch_[texts[i]] = number_;
    batch_[0] = 0;
    const bool follows =
        !plan_.run_begins.empty() && plan_.run_positions.back() + (planned_ - plan_.run_begins.back()) == position;
    if (!follows) {
      plan_.run_begins.push_back(static_cast<std::uint32_t>(planned_));
      plan_.run_positions.push_back(position);
    }
    ++planned_;
    return true;
  }

  void join_line(std::uint32_t position, std::uint32_t text) {
    Line& line = lines_[text];
    const bool is_first = line.empty() || position < line.top();
    if (is_first && !line.empty()) first_in_line_.erase({line.top(), text});
    if (is_first) first_in_line_.insert({position, text});
    line.push(position);
  }

  void leave_line(std::uint32_t text) {
    Line& line = lines_[text];
    first_in_line_.erase({line.top(), text});
    line.pop();
    if (!line.empty()) first_in_line_.insert({line.top(), text});
  }

  const DistinctBatches& of_;
  const EpochOrder order_;
  Epoch& plan_;
  std::vector<Line> lines_;                                          // by text: positions
  std::set<std::pair<std::uint32_t, std::uint32_t>> first_in_line_;  // position and text
  std::vector<std::uint32_t> batch_;                                 // by text: the last batch that has it
  std::uint32_t number_ = 0;                                         // of the batch, from 1 on
  std::int64_t fresh_ = 0;                                           // the next position that nobody has looked at
  std::size_t planned_ = 0;                                          // rows
};

void DistinctBatches::add_epoch() {
  Epoch plan;
  Walk walk(*this, epochs(), &plan);
  while (!walk.is_over()) {
    const std::int64_t rows = walk.fill();
    const bool is_small = rows < cut_.global_batch();
    if (is_small && cut_.drop_last) {
      walk.leave_out(static_cast<std::size_t>(rows));
      rows_left_out_ += rows;
      continue;
    }
    small_batches_ += is_small ? 1 : 0;
    plan.ends.push_back(walk.planned());
  }
  for (std::vector<std::uint32_t>* const part : {&plan.run_begins, &plan.run_positions, &plan.ends})
    part->shrink_to_fit();
  before_.push_back(
      {before_.back().batches + static_cast<std::int64_t>(plan.ends.size()), before_.back().samples + walk.planned()});
  epochs_.push_back(std::move(plan));
}

std::int64_t DistinctBatches::epoch_of_batch(std::int64_t number) const noexcept {
  const auto behind = std::upper_bound(before_.begin(), before_.end(), number,
                                       [](std::int64_t one, const Before& before) { return one < before.batches; });
  return behind - before_.begin() - 1;
}

SampleRange DistinctBatches::batch(std::int64_t epoch, std::int64_t number) const noexcept {
  const std::vector<std::uint32_t>& ends = epochs_[index(epoch)].ends;
  const std::int64_t begin = number == 0 ? 0 : ends[index(number - 1)];
  return {begin, ends[index(number)] - begin};
}

std::int64_t DistinctBatches::plain(std::int64_t epoch, std::int64_t position) const noexcept {
  const Epoch& plan = epochs_[index(epoch)];
  const auto behind = std::upper_bound(plan.run_begins.begin(), plan.run_begins.end(), position);
  const std::size_t run = static_cast<std::size_t>(behind - plan.run_begins.begin()) - 1;
  return plan.run_positions[run] + (position - plan.run_begins[run]);
}

std::size_t DistinctBatches::bytes() const noexcept {
  std::size_t elements = 0;
  for (const Epoch& epoch : epochs_)
    elements += epoch.run_begins.size() + epoch.run_positions.size() + epoch.ends.size();
  return elements * sizeof(std::uint32_t);
}

std::size_t DistinctBatches::bytes_like(const BatchCut& other) const noexcept {
  if (other.global_batch() == cut_.global_batch()) return bytes();
  const bool is_larger = other.global_batch() > cut_.global_batch();
  const std::int64_t eighths = is_larger ? 16 * divide_up(other.global_batch(), cut_.global_batch()) : 9;
  std::int64_t elements = epochs() * other.batches_per_epoch() + small_batches_;
  for (const Epoch& epoch : epochs_)
    elements += 2 * std::min(cut_.rows, 1 + eighths * static_cast<std::int64_t>(epoch.run_begins.size()) / 8);
  return static_cast<std::size_t>(elements) * sizeof(std::uint32_t);
}

}  // namespace bascule
