# SPDX-License-Identifier: Apache-2.0
"""Lets the reference set's oracle/make_goldens_vit_bert.py make cases of DeiT, by its rule for ViT."""

CLASSES = {"image_classification": "DeiTForImageClassification", "image_classification_with_teacher": "DeiTForImageClassificationWithTeacher"}


def extend_oracle(oracle):
    """Of the oracle's functions those that ask which family it is."""
    of_vit = {name: getattr(oracle, name) for name in ("model_class", "build_config", "make_batches", "forward", "check_sanity")}

    def is_deit(spec):
        return spec["family"] == "deit"

    def as_vit(spec):
        return {**spec, "family": "vit"} if is_deit(spec) else spec

    def model_class(spec):
        return getattr(oracle.transformers, CLASSES[spec["head"]]) if is_deit(spec) else of_vit["model_class"](spec)

    def build_config(spec):
        config = of_vit["build_config"](as_vit(spec))
        if not is_deit(spec):
            return config
        values = {key: value for key, value in config.to_dict().items() if key not in ("model_type", "architectures")}
        return oracle.transformers.DeiTConfig(**values)

    def make_batches(spec, config, generator):
        return of_vit["make_batches"](as_vit(spec), config, generator)

    def forward(model, spec, batch):
        if not is_deit(spec):
            return of_vit["forward"](model, spec, batch)
        dtype = next(model.parameters()).dtype
        inputs = {key: value.to(dtype) if value.is_floating_point() else value for key, value in batch.items()}
        captured = {}
        handle = model.deit.register_forward_hook(lambda module, args, output: captured.update(base=output))
        result = model(pixel_values=inputs["pixel_values"], output_hidden_states=True, **spec.get("forward", {}))
        handle.remove()
        loss = oracle.classification_loss(result["logits"], inputs, spec.get("label_smoothing", 0.0))
        outputs = {"last_hidden_state": captured["base"].last_hidden_state, "logits": result["logits"], "loss": loss}
        return loss, outputs, {f"layer.{i}": hidden for i, hidden in enumerate(result.hidden_states)}

    def check_sanity(model, spec, batch, outputs, gradients, folder):
        if not is_deit(spec):
            return of_vit["check_sanity"](model, spec, batch, outputs, gradients, folder)
        assert all(value.isfinite().all() for value in outputs.values())
        zero = {name for name, _, _ in oracle.insensitive_slices(gradients)}
        largest = max(gradient.abs().max().item() for gradient in gradients.values())
        for name, gradient in gradients.items():
            size = gradient.abs().max().item()
            assert (size < 1e-12 * largest) if name in zero else (size > 1e-7 * largest), (name, size, largest)
        rows = outputs["last_hidden_state"]
        if spec["head"] == "image_classification":  # the distillation token is a key and a value alone
            expected = model.classifier(rows[:, 0])
        else:
            expected = (model.cls_classifier(rows[:, 0]) + model.distillation_classifier(rows[:, 1])) / 2
        assert oracle.torch.allclose(expected, outputs["logits"], rtol=1e-12, atol=1e-12)

    oracle.ATTENTION["deit"] = oracle.ATTENTION["vit"]
    oracle.model_class, oracle.build_config, oracle.make_batches, oracle.forward, oracle.check_sanity = model_class, build_config, make_batches, forward, check_sanity
