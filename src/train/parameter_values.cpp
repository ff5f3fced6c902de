// SPDX-License-Identifier: Apache-2.0
#include "src/train/parameter_values.h"

#include "src/base/elementary.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

// FNV-1a: names become streams of random numbers; two names of one model never collide (tested).
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

void fill_initial(float* destination, std::int64_t count, const InitialValue& law, std::uint64_t seed,
                  const std::string& name) {
  if (law.standard_deviation <= 0.0f) {
    for (std::int64_t i = 0; i < count; ++i) destination[i] = law.constant;
    return;
  }
  const std::uint64_t stream = hash_of(name);
  const double deviation = static_cast<double>(law.standard_deviation);
  const PhiloxKey key{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  for (std::int64_t i = 0; i < count; i += 4) {
    const std::uint64_t block = static_cast<std::uint64_t>(i) / 4;
    const PhiloxCounter counter{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
    const PhiloxBlock words = philox4x32(counter, key);
    double values[4];
    fixed_normal_pair(words.word[0], words.word[1], &values[0], &values[1]);
    fixed_normal_pair(words.word[2], words.word[3], &values[2], &values[3]);
    for (std::int64_t k = 0; k < 4 && i + k < count; ++k)
      destination[i + k] = static_cast<float>(deviation * values[k]);
  }
}

void initialise_parameters(const ParameterMemory& memory, std::uint64_t seed) {
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      fill_initial(memory.at(p) + piece.first_element, piece.elements, piece.initial, seed, piece.name);
    }
  }
}

LoadReport load_parameters(const TensorSource& source, const ParameterMemory& memory, const Model& model,
                           std::uint64_t seed) {
  std::vector<WantedTensor> wanted;
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      float* destination = memory.at(p) + piece.first_element;
      const bool may_be_fresh = model.may_be_fresh(piece.name);
      if (may_be_fresh) fill_initial(destination, piece.elements, piece.initial, seed, piece.name);
      wanted.push_back({piece.name, piece.shape, destination, 0, -1, !may_be_fresh});
    }
  }
  return load_tensors(source, wanted, model.body_prefix());
}

std::vector<TensorToWrite> tensors_to_write(const ParameterSet& set, const ParameterLayout& layout, const float* values,
                                            const float* fixed, const std::string& name_prefix) {
  std::vector<TensorToWrite> tensors;
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(p)];
    const float* base = place.trained ? values : fixed;
    if (base == nullptr) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      TensorToWrite tensor;
      tensor.name = name_prefix + piece.name;
      tensor.shape = piece.shape;
      tensor.data = base + place.offset + piece.first_element;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace bascule
