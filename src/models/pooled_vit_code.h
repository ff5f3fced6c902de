// SPDX-License-Identifier: Apache-2.0
// The Python file that lets Transformers load a ViT whose classifier reads the mean of the patches' rows.
#pragma once

namespace bascule {

constexpr char kPooledViTFile[] = "modeling_pooled_vit.py";
constexpr char kPooledViTClass[] = "PooledViTForImageClassification";
constexpr char kPooledViTAutoClass[] = "AutoModelForImageClassification";
extern const char* const kPooledViTCode;

}  // namespace bascule
