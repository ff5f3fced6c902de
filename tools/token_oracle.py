# SPDX-License-Identifier: Apache-2.0
"""The head "token_classification" for the reference set's oracle/make_goldens_vit_bert.py, beside sequence_oracle.py: a tag for some tokens, and the loss that Transformers computes of them."""
import bert_relatives

HEAD = "token_classification"


def add_token_head(oracle):
    torch, transformers = oracle.torch, oracle.transformers
    model_class, make_bert_batch, check_sanity = oracle.model_class, oracle.make_bert_batch, oracle.check_sanity

    def class_of(spec):
        if spec["head"] != HEAD:
            return model_class(spec)
        prefix = "Bert" if spec["family"] == "bert" else bert_relatives.FAMILIES[spec["family"]][0]
        return getattr(transformers, prefix + "ForTokenClassification")

    def make_batch(spec, config, generator, lengths):
        """As words have tags: two tokens in three, and no special one; in a text of one token that one."""
        batch = make_bert_batch(spec, config, generator, lengths)
        if spec["head"] != HEAD:
            return batch
        labels = torch.full_like(batch["input_ids"], -100)
        drawn = torch.randint(0, config.num_labels, labels.shape, generator=generator)
        tagged = torch.rand(labels.shape, generator=generator) < 0.67
        for row, length in enumerate(lengths):
            inner = slice(0, 1) if length < 3 else slice(1, length - 1)
            tagged[row, inner.start] = True
            labels[row, inner] = torch.where(tagged[row, inner], drawn[row, inner], -100)
        batch["labels"] = labels
        return batch

    def check(model, spec, batch, outputs, gradients, folder):
        if spec["head"] != HEAD:
            return check_sanity(model, spec, batch, outputs, gradients, folder)
        tied, model.config.tie_word_embeddings = model.config.tie_word_embeddings, False  # there is no decoder: the row of [PAD] has no gradient
        check_sanity(model, spec, batch, outputs, gradients, folder)
        model.config.tie_word_embeddings = tied
        with torch.no_grad():  # every token's logits are of its row
            assert torch.allclose(model.classifier(outputs["last_hidden_state"]), outputs["logits"], rtol=1e-12, atol=1e-12)
        expected = torch.nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), batch["labels"].flatten())
        assert abs(expected - outputs["loss"]) < 1e-12 * (1 + abs(expected))

    oracle.model_class, oracle.make_bert_batch, oracle.check_sanity = class_of, make_batch, check
