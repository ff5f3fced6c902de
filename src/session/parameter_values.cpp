// SPDX-License-Identifier: Apache-2.0
#include "src/session/parameter_values.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "src/base/elementary.h"
#include "src/base/paths.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

// One thread computes a part, in about 10 ms. A multiple of the four numbers of a Philox block.
constexpr std::int64_t kPartElements = std::int64_t{1} << 18;

// FNV-1a: names become streams of random numbers; two names of one model never collide (tested).
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

void fill_initial(float* destination, std::int64_t first, std::int64_t count, const InitialValue& law,
                  std::uint64_t seed, const std::string& name) noexcept {
  if (law.standard_deviation <= 0.0f) {
    for (std::int64_t i = 0; i < count; ++i) destination[i] = law.constant;
    return;
  }
  const double deviation = static_cast<double>(law.standard_deviation);
  const PhiloxKey key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  fill_normal(destination, first, count, deviation, key, hash_of(name));
  for (std::int64_t i = std::max(first, law.zero_first); i < std::min(first + count, law.zero_end); ++i)
    destination[i - first] = 0.0f;
}

namespace {

// Rounded where the destination is bf16.
void write_initial(Elements destination, std::int64_t first, std::int64_t count, const ParameterPiece& piece,
                   std::uint64_t seed) noexcept {
  if (!destination.is_bf16()) return fill_initial(destination.float32(), first, count, piece.initial, seed, piece.name);
  constexpr std::int64_t kValues = 4096;  // a multiple of four, as above
  float values[kValues];
  for (std::int64_t done = 0; done < count; done += kValues) {
    const std::int64_t part = std::min(kValues, count - done);
    fill_initial(values, first + done, part, piece.initial, seed, piece.name);
    convert_to_bf16(destination.bf16() + done, values, part);
  }
}

void add_initial_values(StartWork* work, Elements destination, const ParameterPiece& piece, std::uint64_t seed) {
  for (std::int64_t first = 0; first < piece.elements; first += kPartElements) {
    const std::int64_t count = std::min(kPartElements, piece.elements - first);
    work->add(
        StartWork::Kind::kComputing, count * static_cast<std::int64_t>(sizeof(float)),
        [=, &piece] {
          write_initial(destination + first, first, count, piece, seed);
          return ok_status();
        },
        nullptr);
  }
}

}  // namespace

void initialise_parameters(StartWork* work, const ParameterMemory& memory, std::uint64_t seed) {
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces)
      add_initial_values(work, memory.elements(p) + piece.first_element, piece, seed);
  }
}

std::optional<std::string> name_in_part(const std::string& tensor, const std::string& part) {
  const std::size_t end = tensor.find('/');  // no tensor of a model has one in its name
  if (part.empty()) return end == std::string::npos ? std::optional<std::string>(tensor) : std::nullopt;
  if (end != part.size() || tensor.compare(0, end, part) != 0) return std::nullopt;
  return tensor.substr(end + 1);
}

LoadReport load_parameters(StartWork* work, const TensorSource& source, const ParameterMemory& memory,
                           const Model& model, std::uint64_t seed, bool has_new_classes, const std::string& part) {
  std::vector<WantedTensor> wanted;
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      const std::optional<std::string> name = name_in_part(piece.name, part);
      if (!name) continue;
      const Elements destination = memory.elements(p) + piece.first_element;
      if (has_new_classes && model.depends_on_classes(*name)) {
        add_initial_values(work, destination, piece, seed);
        continue;
      }
      const StoredTensor* const stored = find_tensor(source, *name, model.file_names());
      if (stored != nullptr && stored->shape != piece.shape) {
        if (const Model::TensorChange change = model.change_of(*name, stored->shape)) {
          wanted.push_back({*name, stored->shape});  // checked only: it is read here
          std::vector<float> values(static_cast<std::size_t>(element_count(stored->shape)));
          source.read_float32(values.data(), *stored, 0, element_count(stored->shape));
          change(memory.at(p) + piece.first_element, values.data());  // of a table: no product reads it
          continue;
        }
      }
      const bool may_be_fresh = model.may_be_fresh(*name);
      wanted.push_back({*name, piece.shape, destination, 0, -1, !may_be_fresh, piece.order});
      if (may_be_fresh && stored == nullptr) add_initial_values(work, destination, piece, seed);
    }
  }
  return load_tensors(work, source, wanted, model.file_names());
}

LoadReport load_tensors(StartWork* work, const TensorSource& source, const std::vector<WantedTensor>& wanted,
                        const FileNames& names) {
  TensorReads reads = plan_reads(source, wanted, names);
  for (const TensorPart& part : reads.parts) {
    work->add(
        StartWork::Kind::kReading, part.count * static_cast<std::int64_t>(sizeof(float)),
        [&source, part] { return read_part(source, part); },
        [&source, part](const Status& status) { return error_of_part(source, part, status); });
  }
  return std::move(reads.report);
}

void pack_parameters(StartWork* work, const ParameterMemory& memory, Span<const int> parameters,
                     const KernelTable& kernels) {
  for (const int p : parameters) {
    const Parameter& parameter = (*memory.set)[p];
    const std::int64_t cols = parameter.cols;
    const Elements all = memory.elements(p);
    const std::size_t bytes = static_cast<std::size_t>(kPackedCols * cols) * (all.is_bf16() ? 2 : sizeof(float));
    const auto pack = [=, &kernels](Elements rows) {
      const std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[bytes]);
      if (copy == nullptr) return Status{StatusCode::kReadFailed, {0, ENOMEM}};
      std::memcpy(copy.get(), rows.data, bytes);
      (all.is_bf16() ? kernels.pack_columns_bf16 : kernels.pack_columns)({rows, {copy.get(), rows.type}, cols});
      return ok_status();
    };
    const auto error_of = [&parameter](const Status&) {
      return Error(ErrorKind::kMemory, parameter.name,
                   "there is no memory for a copy of " + count_of(kPackedCols, "row"));
    };
    for (std::int64_t row = 0; row < parameter.rows; row += kPackedCols) {
      const Elements rows = all + row * cols;
      work->add(
          StartWork::Kind::kComputing, static_cast<std::int64_t>(bytes), [=] { return pack(rows); }, error_of);
    }
  }
}

std::string names_left_out(const LoadReport& report, const Model& model) {
  constexpr std::size_t kNamed = 10;
  const std::vector<ParameterPiece> passed_on = model.unused_tensors();
  std::vector<std::string> names;
  for (const std::string& name : report.unused) {
    const bool passes = std::any_of(passed_on.begin(), passed_on.end(), [&](const ParameterPiece& piece) {
      return piece.name == name || model.body_prefix() + name == piece.name || model.body_prefix() + piece.name == name;
    });
    if (!model.is_ignored(name) && !passes) names.push_back(name);
  }
  return shown_list(names, kNamed);
}

std::vector<TensorToWrite> tensors_to_write(const ParameterSet& set, const ParameterLayout& layout, const float* values,
                                            const float* fixed, const std::string& name_prefix,
                                            const std::string& part) {
  std::vector<TensorToWrite> tensors;
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(p)];
    BASCULE_CHECK(!place.rounded);  // nothing is written of a session that does not train
    const float* base = place.trained ? values : fixed;
    if (base == nullptr) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      const std::optional<std::string> name = name_in_part(piece.name, part);
      if (!name) continue;
      TensorToWrite tensor;
      tensor.name = name_prefix + *name;
      tensor.shape = piece.shape;
      if (!piece.order.empty()) tensor.strides = strides_in_memory(piece.shape, piece.order);
      tensor.data = base + place.offset + piece.first_element;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

namespace {

void want_part_of_node(std::vector<WantedTensor>* wanted, const StateRange& range, const StateTensor& tensor,
                       int node) {
  const std::int64_t end = tensor.first + element_count(tensor.shape);
  const std::vector<StateShards::Block>& blocks = range.shards.blocks;
  for (std::size_t b = range.shards.block_at(tensor.first); b < blocks.size() && blocks[b].first < end; ++b) {
    if (blocks[b].node != node) continue;
    const std::int64_t from = std::max(tensor.first, blocks[b].first);
    const std::int64_t to = std::min(end, blocks[b].first + blocks[b].count);
    float* const destination = range.of_block(b) + from - blocks[b].first;
    wanted->push_back({tensor.name, tensor.shape, destination, from - tensor.first, to - from, true});
  }
}

}  // namespace

std::vector<TensorToWrite> states_to_write(const OptimizerStates& states, const ParameterMemory& parameters,
                                           StateExchange* exchange, std::deque<StateExchange::Part>* parts) {
  std::vector<TensorToWrite> all;
  for (std::size_t i = 0; i < states.ranges.size(); ++i) {
    for (StateTensor& tensor : state_tensors(states.ranges[i].state, *parameters.set, *parameters.layout)) {
      TensorToWrite one;
      one.name = std::move(tensor.name);
      one.shape = std::move(tensor.shape);
      if (exchange != nullptr) {
        parts->push_back({exchange, i, tensor.first});
        one.reader = {&StateExchange::read_part, &parts->back()};
      } else {
        one.data = states.ranges[i].values + tensor.first;
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<WantedTensor> wanted_states(const OptimizerStates& states, const ParameterMemory& parameters, int node) {
  std::vector<WantedTensor> wanted;
  for (const StateRange& range : states.ranges) {
    for (const StateTensor& tensor : state_tensors(range.state, *parameters.set, *parameters.layout)) {
      float* const all = states.are_shared_out ? nullptr : range.values + tensor.first;
      wanted.push_back({tensor.name, tensor.shape, all, 0, -1, true});  // without a destination it is only looked for
      if (states.are_shared_out) want_part_of_node(&wanted, range, tensor, node);
    }
  }
  return wanted;
}

}  // namespace bascule
