// SPDX-License-Identifier: Apache-2.0
#include "src/models/pooled_vit_code.h"

namespace bascule {

// ViTModel is kept, so that its names in the file are those of every ViT; only its embeddings are others.
const char* const kPooledViTCode = R"py(# SPDX-License-Identifier: Apache-2.0
"""A ViT without a class token: its classifier reads the mean of the patches' rows."""
import torch
from torch import nn
from transformers import ViTForImageClassification
from transformers.modeling_outputs import ImageClassifierOutput


class PooledViTEmbeddings(nn.Module):
    """The embeddings of a ViT without the class token and its row of the position table."""

    def __init__(self, embeddings, config):
        super().__init__()
        self.patch_embeddings = embeddings.patch_embeddings
        self.dropout = embeddings.dropout
        side = config.image_size // config.patch_size
        table = torch.randn(1, side * side, config.hidden_size) * config.initializer_range
        self.position_embeddings = nn.Parameter(table)
        self.image_size, self.patch_size, self.side = config.image_size, config.patch_size, side

    def positions(self, height, width, resize):
        if height == width == self.image_size:
            return self.position_embeddings
        if not resize:
            raise ValueError(f"pictures of {height}x{width} pixels, but the model's side is {self.image_size}")
        grid = (height // self.patch_size, width // self.patch_size)
        if height == width and grid[0] == self.side:
            return self.position_embeddings
        table = self.position_embeddings.unflatten(1, (self.side, self.side)).permute(0, 3, 1, 2)
        return nn.functional.interpolate(table, size=grid, mode="bicubic").flatten(2).transpose(1, 2)

    def forward(self, pixel_values, bool_masked_pos=None, interpolate_pos_encoding=False):
        patches = self.patch_embeddings.projection(pixel_values).flatten(2).transpose(1, 2)
        return self.dropout(patches + self.positions(*pixel_values.shape[2:], interpolate_pos_encoding))


class PooledViTForImageClassification(ViTForImageClassification):
    def __init__(self, config):
        super().__init__(config)
        self.vit.embeddings = PooledViTEmbeddings(self.vit.embeddings, config)

    def forward(self, pixel_values=None, labels=None, interpolate_pos_encoding=False, return_dict=True, **kwargs):
        found = self.vit(pixel_values, interpolate_pos_encoding=interpolate_pos_encoding, return_dict=True, **kwargs)
        logits = self.classifier(found.last_hidden_state.mean(dim=1))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = ImageClassifierOutput(
            loss=loss, logits=logits, hidden_states=found.hidden_states, attentions=found.attentions
        )
        return output if return_dict else output.to_tuple()
)py";

}  // namespace bascule
