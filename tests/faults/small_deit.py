# SPDX-License-Identifier: Apache-2.0
"""A small DeiT for runs from scratch on the classes of emoji, with a processor as published files have it: both sides to more than the model's, of which the centre is kept."""
import json

from bascule_run import ROOT

PLAIN, WITH_TEACHER = "image_classification", "image_classification_with_teacher"
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "image_size": 64, "patch_size": 8,
         "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
PROCESSOR = {"image_processor_type": "DeiTImageProcessor", "do_resize": True, "size": {"height": 73, "width": 73}, "resample": 3, "do_center_crop": True,
             "crop_size": {"height": 64, "width": 64}, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def write_deit(folder):
    classes = json.loads((ROOT / "tests" / "data" / "emoji-classes" / "model" / "config.json").read_text())["id2label"]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "deit", "id2label": classes, **SIZES}))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
