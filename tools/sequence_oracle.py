# SPDX-License-Identifier: Apache-2.0
"""The head "sequence_classification" for the reference set's oracle/make_goldens_vit_bert.py, which has BERT's other heads: one label a text, and the loss that Transformers computes of it."""

HEAD = "sequence_classification"


def add_sequence_head(oracle):
    torch, transformers = oracle.torch, oracle.transformers
    model_class, make_bert_batch, forward, check_sanity = oracle.model_class, oracle.make_bert_batch, oracle.forward, oracle.check_sanity

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
        if spec["head"] != HEAD:
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

    oracle.model_class = lambda spec: transformers.BertForSequenceClassification if spec["head"] == HEAD else model_class(spec)
    oracle.make_bert_batch, oracle.forward, oracle.check_sanity = make_batch, forward_with_pooler, check
