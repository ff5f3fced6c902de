# SPDX-License-Identifier: Apache-2.0
"""Lets the reference set's oracle/make_goldens_vit_bert.py make cases of RoBERTa and DistilBERT, by its own rule.

Batches are the oracle's, without token types: neither model has any that count. `batch.padding_inside` puts the padding token in the middle of the longest text,
where RoBERTa numbers the tokens behind it as if it were not there.
"""
import re

# Of each its prefix of Transformers' classes, and config.json's rates of dropout.
FAMILIES = {"roberta": ("Roberta", ("hidden_dropout_prob", "attention_probs_dropout_prob")), "distilbert": ("DistilBert", ("dropout", "attention_dropout"))}


def extend_oracle(oracle):
    """Of the oracle's functions those that ask which family it is."""
    of_bert = {name: getattr(oracle, name) for name in ("model_class", "build_config", "make_bert_batch", "forward", "check_sanity")}

    def model_class(spec):
        if spec["family"] not in FAMILIES:
            return of_bert["model_class"](spec)
        return getattr(oracle.transformers, FAMILIES[spec["family"]][0] + "ForMaskedLM")

    def build_config(spec):
        if spec["family"] not in FAMILIES:
            return of_bert["build_config"](spec)
        name, dropouts = FAMILIES[spec["family"]]
        return getattr(oracle.transformers, name + "Config")(**dict.fromkeys(dropouts, 0.0), **spec["config"])

    def make_bert_batch(spec, config, generator, lengths):
        batch = of_bert["make_bert_batch"](spec, config, generator, lengths)
        if spec["family"] in FAMILIES:
            del batch["token_type_ids"]
            if spec["batch"].get("padding_inside"):
                row = lengths.index(max(lengths))
                batch["input_ids"][row, lengths[row] // 2] = config.pad_token_id
        return batch

    def forward(model, spec, batch):
        if spec["family"] not in FAMILIES:
            return of_bert["forward"](model, spec, batch)
        captured = {}
        handle = model.base_model.register_forward_hook(lambda module, args, output: captured.update(base=output))
        result = model(**batch, output_hidden_states=True)
        handle.remove()
        outputs = {"last_hidden_state": captured["base"].last_hidden_state, "loss": result.loss, "logits": result.logits}
        return result.loss, outputs, {f"layer.{i}": h for i, h in enumerate(result.hidden_states)}

    def check_sanity(model, spec, batch, outputs, gradients, folder):
        if spec["family"] in FAMILIES:
            check_facts(oracle, model, spec, batch, outputs, gradients)
        else:
            of_bert["check_sanity"](model, spec, batch, outputs, gradients, folder)

    oracle.ATTENTION.update(dict.fromkeys(FAMILIES, "eager"))
    oracle.KEY_BIAS = re.compile(oracle.KEY_BIAS.pattern + r"|\.attention\.k_lin\.bias$")
    oracle.model_class, oracle.build_config, oracle.make_bert_batch, oracle.forward, oracle.check_sanity = model_class, build_config, make_bert_batch, forward, check_sanity


def check_facts(oracle, model, spec, batch, outputs, gradients):
    """The case is not degenerate, and what the pages say of the two models holds."""
    assert all(v.isfinite().all() for v in outputs.values())
    largest = max(g.abs().max().item() for g in gradients.values())
    zero = {name for name, _, _ in oracle.insensitive_slices(gradients)}
    for name, g in gradients.items():
        size = g.abs().max().item()
        assert (size < 1e-12 * largest) if name in zero else (size > 1e-7 * largest), (name, size, largest)
    config, prefix = model.config, model.base_model_prefix
    pad = config.pad_token_id
    assert spec["head"] != "masked_lm" or (batch["labels"] >= 0).any()
    # The padding token's row of the word table has no gradient through the look-up; tied, it has one through the decoder.
    word = gradients[f"{prefix}.embeddings.word_embeddings.weight"][pad].abs().max().item()
    assert (word > 0) == bool(config.tie_word_embeddings)
    position = gradients[f"{prefix}.embeddings.position_embeddings.weight"].abs().amax(1) > 0
    longest = int(batch["attention_mask"].sum(1).max())
    first = pad + 1 if spec["family"] == "roberta" else 0
    counted = longest - (1 if spec["family"] == "roberta" and spec["batch"].get("padding_inside") else 0)
    assert position.nonzero().flatten().tolist() == list(range(first, first + counted)), position.nonzero().flatten().tolist()
    with oracle.torch.no_grad():
        if spec["family"] == "roberta" and spec["head"] == "masked_lm":  # the head's activation is gelu, whatever the layers' is
            h = model.lm_head.layer_norm(oracle.torch.nn.functional.gelu(model.lm_head.dense(outputs["last_hidden_state"])))
            assert oracle.torch.allclose(model.lm_head.decoder(h), outputs["logits"], rtol=1e-12, atol=1e-12)
