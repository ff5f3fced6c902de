// SPDX-License-Identifier: Apache-2.0
// The keys of [[training.groups]].
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

using Group = GroupSettings;

constexpr Key kGroupKeys[] = {
    // [[training.groups]]
    {kGroupsTable, "match", text<&Group::match>(false), kNumbers,
     "tensor names in the group, a pattern with `*`, `?` and `[...]`; the prefix of the model's body may be omitted; a "
     "tensor belongs to the first group that matches it",
     "required"},
    {kGroupsTable, "learning_rate_multiplier", real<&Group::learning_rate_multiplier>(0.0, 1e6), kNumbers,
     "factor on the scheduled learning rate"},
    {kGroupsTable, "weight_decay", real<&Group::weight_decay>(0.0, 1e3), kNumbers,
     "weight decay of all tensors in the group, including biases and norms", "the rule of `training.weight_decay`"},
    {kGroupsTable, "freeze", boolean<&Group::freeze>(), kNumbers,
     "do not train these tensors; they then take no memory or time in the update; tensors of one matrix product, as "
     "query, "
     "key and value of many attentions, must be frozen together"},
};

}  // namespace

Span<const Key> keys_of_groups() { return {kGroupKeys, std::size(kGroupKeys)}; }

}  // namespace bascule
