// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_contents.h"

#include <algorithm>

namespace bascule {
namespace {

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

constexpr Named<Optimizer> kOptimizers[] = {
    {"adamw", Optimizer::kAdamW}, {"lamb", Optimizer::kLamb}, {"adafactor", Optimizer::kAdafactor}};
constexpr Named<Scheduler> kSchedulers[] = {{"linear", Scheduler::kLinear}, {"cosine", Scheduler::kCosine}};

template <typename Value, std::size_t kCount>
const Value* find(const Named<Value> (&all)[kCount], const std::string& name) {
  for (const Named<Value>& one : all) {
    if (name == one.name) return &one.value;
  }
  return nullptr;
}

// "optimizer \"x\" is not supported, only \"a\" or \"b\"".
template <typename Value, std::size_t kCount>
std::string unknown(const char* key, const std::string& name, const Named<Value> (&all)[kCount]) {
  std::string known;
  for (const Named<Value>& one : all) known += (known.empty() ? "\"" : " or \"") + (one.name + std::string("\""));
  return std::string(key) + " \"" + name + "\" is not supported, only " + known;
}

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

void read_expected(const CaseStatements& files, CaseContents* contents) {
  for (const StoredTensor& tensor : files.expected.tensors()) {
    if (begins_with(tensor.name, "generated.") || begins_with(tensor.name, "generated_scores.")) {
      if (files.generates) {
        contents->generated = true;
      } else {
        contents->not_compared.push_back({tensor.name, "the model generates no texts"});
      }
    } else if (begins_with(tensor.name, "grad.") || begins_with(tensor.name, "grad_sample.") ||
               begins_with(tensor.name, "grad_l2.")) {
      contents->gradients = true;
    } else {
      (tensor.name == "loss" ? contents->loss : contents->outputs) = true;
    }
  }
}

void read_run(const CaseStatements& files, CaseContents* contents) {
  const std::string where = files.folder + "/case.json";
  const Json* const train = find_member(files.description, "train", where);
  if (train == nullptr) {
    if (files.has_steps_file) contents->not_compared.push_back({"steps.safetensors", "case.json has no \"train\""});
    return;
  }
  get_object(files.description, "train", where);
  const std::string optimizer = optimizer_name(*train, where), scheduler = scheduler_name(*train, where);
  if (find_optimizer(optimizer) == nullptr) {
    contents->not_compared.push_back({"training run", unknown("optimizer", optimizer, kOptimizers)});
  } else if (find_scheduler(scheduler) == nullptr) {
    contents->not_compared.push_back({"training run", unknown("lr_scheduler_type", scheduler, kSchedulers)});
  } else {
    contents->run = true;
  }
}

void leave_out(const char* name, const char* reason, bool* held, CaseContents* contents) {
  if (*held) contents->not_compared.push_back({name, reason});
  *held = false;
}

}  // namespace

const Optimizer* find_optimizer(const std::string& name) { return find(kOptimizers, name); }
const Scheduler* find_scheduler(const std::string& name) { return find(kSchedulers, name); }

std::string optimizer_name(const Json& train, const std::string& where) {
  return get_string(train, "optimizer", where, "adamw");
}

std::string scheduler_name(const Json& train, const std::string& where) {
  return get_string(train, "lr_scheduler_type", where, "linear");
}

CaseContents contents_of(const CaseStatements& files, Precision precision) {
  CaseContents contents;
  read_expected(files, &contents);
  read_run(files, &contents);
  if (precision == Precision::kBf16) {
    leave_out("outputs", "bf16 has no limit for them", &contents.outputs, &contents);
    leave_out("generated texts", "bf16 has no limit for them", &contents.generated, &contents);
    leave_out("training run", "bf16 has no limit for it", &contents.run, &contents);
    if (find_member(files.errors, "bf16_autocast", files.folder + "/float32_error.json") == nullptr) {
      constexpr const char* kReason = "float32_error.json has no \"bf16_autocast\", which sets the limits in bf16";
      leave_out("loss", kReason, &contents.loss, &contents);
      leave_out("gradients", kReason, &contents.gradients, &contents);
    }
  }
  // Which parameters have no gradient says only a graph that makes gradients.
  const Json* const unused = find_member(files.description, "unused_parameters", files.folder);
  if (unused != nullptr && unused->is_array() && unused->size() > 0 && !contents.gradients && !contents.run)
    contents.not_compared.push_back({"unused_parameters", "no gradients and no training run are compared"});
  return contents;
}

}  // namespace bascule
