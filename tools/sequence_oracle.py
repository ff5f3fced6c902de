# SPDX-License-Identifier: Apache-2.0
"""The head "sequence_classification" for the reference set's oracle/make_goldens_vit_bert.py, which has BERT's other heads and with bert_relatives.py those of its relatives: one label a text, and
the loss that Transformers computes of it."""
import bert_relatives

HEAD = "sequence_classification"


def add_sequence_head(oracle):
    torch, transformers = oracle.torch, oracle.transformers
    model_class, build_config, make_bert_batch, forward, check_sanity = oracle.model_class, oracle.build_config, oracle.make_bert_batch, oracle.forward, oracle.check_sanity

    def class_of(spec):
        if spec["head"] != HEAD:
            return model_class(spec)
        prefix = "Bert" if spec["family"] == "bert" else bert_relatives.FAMILIES[spec["family"]][0]
        return getattr(transformers, prefix + "ForSequenceClassification")

    def config_of(spec):
        config = build_config(spec)
        if spec["head"] == HEAD and spec["family"] == "distilbert":
            config.seq_classif_dropout = 0.0
        return config

    def make_batch(spec, config, generator, lengths):
        batch = make_bert_batch(spec, config, generator, lengths)
        if spec["head"] != HEAD:
            return batch
        rows = len(lengths)
        if config.num_labels == 1:
            batch["labels"] = 2.0 * torch.randn(rows, generator=generator)
        else:
            batch["labels"] = torch.randint(0, config.num_labels, (rows,), generator=generator)
        return batch

    def forward_with_pooler(model, spec, batch):
        if spec["head"] != HEAD or spec["family"] != "bert":
            return forward(model, spec, batch)
        pooled = {}
        handle = model.bert.register_forward_hook(lambda module, args, output: pooled.update(rows=output.pooler_output))
        loss, outputs, layers = forward(model, spec, batch)
        handle.remove()
        return loss, {**outputs, "pooler_output": pooled["rows"]}, layers

    def check(model, spec, batch, outputs, gradients, folder):
        if spec["head"] != HEAD:
            return check_sanity(model, spec, batch, outputs, gradients, folder)
        tied, model.config.tie_word_embeddings = model.config.tie_word_embeddings, False  # there is no decoder: the row of [PAD] has no gradient
        check_sanity(model, spec, batch, outputs, gradients, folder)
        model.config.tie_word_embeddings = tied
        logits, labels = outputs["logits"], batch["labels"]
        expected = torch.nn.functional.mse_loss(logits[:, 0], labels.double()) if model.config.num_labels == 1 else torch.nn.functional.cross_entropy(logits, labels)
        assert abs(expected - outputs["loss"]) < 1e-12 * (1 + abs(expected))

    oracle.model_class, oracle.build_config = class_of, config_of
    oracle.make_bert_batch, oracle.forward, oracle.check_sanity = make_batch, forward_with_pooler, check
