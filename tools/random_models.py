# SPDX-License-Identifier: Apache-2.0
"""Models of random shape, drawn from a seed, as the CASES of the reference set's oracle/make_goldens*.py describe them."""
import functools
import random

BERT_HEADS = ["masked_lm", "pretraining", "sequence_classification", "token_classification"]
RELATIVES_HEADS = ["masked_lm", "sequence_classification", "token_classification"]
BRIDGETOWER_HEADS = ["contrastive", "image_text_matching", "masked_lm", "base"]
DEIT_HEADS = ["image_classification", "image_classification_with_teacher"]
HEADS = {"bridgetower": BRIDGETOWER_HEADS, "bert": BERT_HEADS, "roberta": RELATIVES_HEADS, "distilbert": RELATIVES_HEADS, "deit": DEIT_HEADS}  # of families with several
ACTIVATIONS = ["gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "tanh", "sigmoid", "linear"]
HEAD_SIZES = [1, 2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 72, 79, 80]
EMBEDDING_LOSSES = ["multiple_negatives_ranking", "multiple_negatives_symmetric_ranking", "cosent", "cosine_similarity"]
MLP_WIDTHS = [1, 7, 16, 33, 64, 100]


def vision_width(draw):
    """The tower has width // 64 heads, of any size from 64 on, as long as they divide the width."""
    return draw.choice([64, 65, 67, 72, 80, 96, 127, 128, 130, 134, 160, 192, 195])


def bridgetower_widths(draw, head):
    if head == "contrastive":  # one width for everything
        width = draw.choice([64, 66, 70, 72, 80, 96, 100, 128, 130, 160])
        sizes = [d for d in range(1, 81) if width % d == 0]
        return width, width // draw.choice(sizes), width
    size = draw.choice(HEAD_SIZES)
    heads = draw.randint(1, max(1, min(6, 160 // size)))
    while size * heads < 6:
        heads += 1
    return size * heads, heads, vision_width(draw)


def draw_bridgetower(seed, with_run):
    draw = random.Random(seed)
    head = BRIDGETOWER_HEADS[seed % len(BRIDGETOWER_HEADS)]
    width, heads, vision = bridgetower_widths(draw, head)
    layers = draw.randint(1, 4)
    cross = draw.randint(1, layers + 1)
    removed = draw.random() < 0.3
    pad = draw.choice([1, 1, 0, 3])
    longest = draw.choice([1, 2, 3, 5, 9, 16, 17, 33, 40])
    if head == "masked_lm":
        longest = max(longest, 3)
    samples = draw.randint(2 if head in ("contrastive", "image_text_matching") else 1, 6)
    lengths = [longest] + [draw.randint(1, longest) for _ in range(samples - 1)]
    draw.shuffle(lengths)
    patch = draw.choice([2, 3, 4, 5, 8, 14, 16])
    image = patch * draw.randint(1, 5) + draw.randint(0, patch - 1)
    positions = longest + pad + 1
    text = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=draw.choice(MLP_WIDTHS),
                hidden_act=draw.choice(ACTIVATIONS), vocab_size=draw.randint(12, 200), max_position_embeddings=draw.randint(positions, positions + 9),
                type_vocab_size=draw.choice([1, 1, 2, 3]), layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]), pad_token_id=pad,
                bos_token_id=4 if pad == 0 else 0, hidden_dropout_prob=draw.choice([0.0, 0.1]), attention_probs_dropout_prob=draw.choice([0.0, 0.1]))
    vision_config = dict(hidden_size=vision, num_hidden_layers=layers + draw.randint(0, 2) + removed, patch_size=patch, image_size=image,
                         num_channels=draw.choice([3, 3, 1, 2, 4]), layer_norm_eps=draw.choice([1e-5, 1e-6]), remove_last_layer=removed,
                         share_layernorm=draw.random() < 0.7, stop_gradient=draw.random() < 0.3)
    top = dict(hidden_size=width, num_hidden_layers=cross, link_tower_type=draw.choice(["add", "scaled_add", "interpolate"]),
               share_cross_modal_transformer_layers=head == "contrastive" or draw.random() < 0.5, hidden_act=draw.choice(ACTIVATIONS),
               layer_norm_eps=draw.choice([1e-5, 1e-6, 1e-12]), share_link_tower_layers=cross == 1 and draw.random() < 0.3)
    if head == "masked_lm":
        top["tie_word_embeddings"] = draw.random() < 0.4
    if head == "contrastive":
        top.update(contrastive_hidden_size=draw.choice([5, 16, 24, 33]), logit_scale_init_value=draw.choice([2.6592, 0.0, 1.3]))
    spec = dict(head=head, seed=seed, top=top, text=text, vision=vision_config, batch=dict(lengths=lengths, length=longest + draw.choice([0, 0, 2])),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])))
    if draw.random() < 0.3:
        spec["freeze"] = draw.choice([["vision_model"], ["text_model"], ["vision_model", "text_model"]])
    if draw.random() < 0.25:
        spec["batch"]["image"] = tuple(patch * draw.randint(1, 6) + draw.randint(0, patch - 1) for _ in range(2))
        spec["forward"] = dict(interpolate_pos_encoding=True)
    if with_run and head != "base":
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.05]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
    return spec


def width_and_heads(draw):
    size = draw.choice(HEAD_SIZES)
    heads = draw.randint(1, max(1, min(6, 160 // size)))
    while size * heads < 6:
        heads += 1
    return size * heads, heads


def draw_vit(seed, with_run):
    draw = random.Random(seed)
    width, heads = width_and_heads(draw)
    patch = draw.choice([2, 3, 4, 5, 8, 14, 16])
    config = dict(hidden_size=width, num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads, intermediate_size=draw.choice(MLP_WIDTHS),
                  hidden_act=draw.choice(ACTIVATIONS), patch_size=patch, image_size=patch * draw.randint(1, 6) + draw.randint(0, patch - 1),
                  num_channels=draw.choice([3, 3, 1, 2, 4]), num_labels=draw.choice([2, 3, 10, 33, 200]), qkv_bias=draw.random() < 0.7,
                  layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]))
    spec = dict(family="vit", head="image_classification", seed=seed, config=config, batch=dict(rows=draw.randint(1, 6), mixed=draw.random() < 0.4),
                description=f"drawn from seed {seed}", label_smoothing=draw.choice([0.0, 0.1, 0.3]))
    if draw.random() < 0.4:
        spec["pooled"] = True
    else:
        spec["save"] = dict(dtype=draw.choice(["float32", "bfloat16"]))
        if draw.random() < 0.3:
            spec["batch"]["image"] = [patch * draw.randint(1, 7) + draw.randint(0, patch - 1) for _ in range(2)]
            spec["forward"] = dict(interpolate_pos_encoding=True)
    if with_run:
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.05, 0.24]), gradient_accumulation_steps=draw.choice([1, 1, 2]),
                             lr_scheduler_type=draw.choice(["linear", "cosine"]))
    return spec


def draw_deit(seed, with_run):
    """Each head with and without a run."""
    spec = {"save": {"dtype": "float32"}, **draw_vit(seed, with_run), "family": "deit", "head": DEIT_HEADS[seed // 3 % len(DEIT_HEADS)]}
    spec.pop("pooled", None)
    return spec


def draw_labels(draw, config):
    """Of sequences; one label: a regression."""
    config["num_labels"] = draw.choice([1, 1, 2, 3, 33])
    config["problem_type"] = draw.choice([None, "regression" if config["num_labels"] == 1 else "single_label_classification"])


def draw_bert(seed, with_run):
    draw = random.Random(seed)
    width, heads = width_and_heads(draw)
    head = BERT_HEADS[seed // 3 % len(BERT_HEADS)]  # each with and without a run
    pairs = head == "pretraining" or draw.random() < 0.3
    longest = draw.choice([5, 6, 9, 16, 17, 33, 40])
    samples = draw.randint(2, 6)
    lengths = [longest] + [draw.randint(4 if pairs else 1, longest) for _ in range(samples - 1)]
    draw.shuffle(lengths)
    length = longest + draw.choice([0, 0, 2])
    config = dict(hidden_size=width, num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads, intermediate_size=draw.choice(MLP_WIDTHS),
                  hidden_act=draw.choice(ACTIVATIONS), vocab_size=draw.randint(12, 200), max_position_embeddings=length + draw.choice([0, 1, 9]),
                  type_vocab_size=draw.choice([2, 2, 3]) if pairs else draw.choice([1, 2, 3]), layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]),
                  pad_token_id=draw.choice([0, 0, 1]), tie_word_embeddings=draw.random() < 0.6)
    spec = dict(family="bert", head=head, seed=seed, config=config, batch=dict(lengths=lengths, length=length, pairs=pairs),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])))
    if head == "sequence_classification":
        draw_labels(draw, config)
    if head == "token_classification":
        config["num_labels"] = draw.choice([2, 3, 9, 33])
    if with_run:
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.01]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
        if draw.random() < 0.4:
            spec["train"].update(optimizer="lamb", learning_rate=2e-2, eps=1e-6)
    return spec


def draw_relative(family, seed, with_run):
    """RoBERTa or DistilBERT: texts without types."""
    draw = random.Random(seed)
    head = RELATIVES_HEADS[seed // 3 % len(RELATIVES_HEADS)]  # each with and without a run
    width, heads = width_and_heads(draw)
    longest = draw.choice([5, 6, 9, 16, 17, 33, 40])
    lengths = [longest] + [draw.randint(1, longest) for _ in range(draw.randint(1, 5))]
    draw.shuffle(lengths)
    length, pad = longest + draw.choice([0, 0, 2]), draw.choice([1, 1, 0, 3])
    positions = length + draw.choice([0, 1, 9])
    common = dict(vocab_size=draw.randint(12, 200), pad_token_id=pad, tie_word_embeddings=draw.random() < 0.6)
    if family == "roberta":
        config = dict(hidden_size=width, num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads, intermediate_size=draw.choice(MLP_WIDTHS),
                      hidden_act=draw.choice(ACTIVATIONS), max_position_embeddings=positions + pad + 1, type_vocab_size=draw.choice([1, 1, 2]),
                      layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]), **common)
    else:
        config = dict(dim=width, n_layers=draw.randint(1, 4), n_heads=heads, hidden_dim=draw.choice(MLP_WIDTHS), activation=draw.choice(ACTIVATIONS),
                      max_position_embeddings=positions, **common)
    spec = dict(family=family, head=head, seed=seed, config=config,
                batch=dict(lengths=lengths, length=length, pairs=False, padding_inside=longest > 6 and draw.random() < 0.5),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])))
    if with_run:
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.01]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
        if draw.random() < 0.4:
            spec["train"].update(optimizer="lamb", learning_rate=2e-2, eps=1e-6)
    if head == "sequence_classification":
        draw_labels(draw, config)
    if head == "token_classification":
        config["num_labels"] = draw.choice([2, 3, 9, 33])
        spec["batch"]["pairs"] = min(lengths) > 3 and draw.random() < 0.6
    return spec


def t5_head(draw):
    """What decides how the head is made: two keys of config.json, and whether the file holds an lm_head."""
    keys = dict(tie_word_embeddings=draw.random() < 0.6)
    if draw.random() < 0.4:
        keys["scale_decoder_outputs"] = draw.random() < 0.5
    return keys, draw.choice(["own", "absent", "equal"])


def t5_batch(draw):
    """Lengths of both sides; labels of -100 inside the rows, or padding that counts in the loss."""
    samples = draw.randint(1, 6)
    lengths = lambda longest: [longest] + [draw.randint(1, longest) for _ in range(samples - 1)]
    batch = dict(source=lengths(draw.choice([2, 3, 9, 16, 17, 33, 40, 150])), target=lengths(draw.choice([2, 3, 8, 9, 16, 17, 24, 40])))
    for side in batch.values():
        draw.shuffle(side)
    counts_padding = draw.random() < 0.25
    if counts_padding:
        batch.update(max_source_length=max(batch["source"]) + draw.choice([0, 3]), max_target_length=max(batch["target"]) + draw.choice([0, 1, 5]))
    elif draw.random() < 0.5:  # the longest row keeps a label
        full = batch["target"].index(max(batch["target"]))
        batch["holes"] = [[row, draw.randrange(1 if row == full else 0, length)] for row, length in enumerate(batch["target"]) if draw.random() < 0.5]
    return batch, counts_padding


def t5_searches(draw, vocabulary):
    """What is generated: greedily, and by beams twice, with whatever options there are."""
    searches = {}
    for name, beams in (("greedy", 1), ("beams", draw.randint(2, 6)), ("more_beams", draw.randint(2, 6))):
        search = dict(num_beams=beams, max_length=draw.randint(2, 16))
        if draw.random() < 0.4:
            search["min_length"] = draw.randint(1, search["max_length"])
        if draw.random() < 0.4:
            search["no_repeat_ngram_size"] = draw.randint(1, 3)
        if draw.random() < 0.3:
            search["eos_token_id"] = [1, draw.randrange(2, vocabulary)]
        if beams > 1:
            search.update(length_penalty=draw.choice([-1.0, 0.0, 0.5, 1.0, 2.0]), early_stopping=draw.choice([False, True, "never"]))
        searches[name] = search
    return searches


def draw_t5(seed, with_run):
    draw = random.Random(seed)
    size = draw.choice(HEAD_SIZES)
    buckets = draw.choice([4, 6, 7, 8, 16, 32])
    keys, lm_head = t5_head(draw)
    batch, counts_padding = t5_batch(draw)
    activation = draw.choice(["relu", "gated-gelu", "gated-silu", *ACTIVATIONS, *("gated-" + name for name in ACTIVATIONS)])
    config = dict(vocab_size=draw.randint(12, 200), d_model=draw.choice([6, 8, 15, 16, 24, 31, 33, 48, 64, 96]), d_kv=size, num_heads=draw.randint(1, max(1, min(6, 160 // size))),
                  d_ff=draw.choice(MLP_WIDTHS), num_layers=draw.randint(1, 3), num_decoder_layers=draw.randint(1, 3), feed_forward_proj=activation,
                  relative_attention_num_buckets=buckets, relative_attention_max_distance=draw.choice([buckets // 2 + 1, buckets, 20, 31, 64, 128]),
                  layer_norm_epsilon=draw.choice([1e-6, 1e-5, 1e-3]), decoder_start_token_id=draw.choice([0, 0, 2]), **keys)
    spec = dict(family="t5", head="conditional_generation", seed=seed, config=config, lm_head=lm_head, batch=batch, label_smoothing=draw.choice([0.0, 0.0, 0.1, 0.3]),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])), layers=False)
    spec["generate"] = t5_searches(draw, config["vocab_size"])
    if counts_padding:
        spec["ignore_pad_token_for_loss"] = False
    if with_run:
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.05]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
        if draw.random() < 0.4:
            spec["train"].update(optimizer="adafactor", learning_rate=3e-3)
    return spec


def draw_embedding(seed, with_run):
    """Texts that a body of BERT, RoBERTa or DistilBERT embeds, a folder of sentence-transformers."""
    draw = random.Random(seed)
    loss = EMBEDDING_LOSSES[seed // 3 % len(EMBEDDING_LOSSES)]  # each with and without a run
    body = draw.choice(["bert", "roberta", "distilbert"])
    width, heads = width_and_heads(draw)
    columns = draw.choice([2, 2, 3, 5]) if "ranking" in loss else 2
    longest, samples = draw.choice([2, 5, 9, 16, 17, 33, 40]), draw.randint(2, 7)
    lengths = [[draw.randint(1, longest) for _ in range(samples)] for _ in range(columns)]
    lengths[draw.randrange(columns)][draw.randrange(samples)] = longest
    positions, activation, vocabulary = max(3, longest + draw.choice([0, 1, 9])), draw.choice(ACTIVATIONS), draw.randint(12, 200)
    if body == "distilbert":
        config = dict(dim=width, n_layers=draw.randint(1, 4), n_heads=heads, hidden_dim=draw.choice(MLP_WIDTHS), activation=activation, max_position_embeddings=positions)
    else:
        config = dict(hidden_size=width, num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads, intermediate_size=draw.choice(MLP_WIDTHS), hidden_act=activation,
                      max_position_embeddings=positions + (2 if body == "roberta" else 0), layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]))
    spec = dict(family="embedding", body=body, head="sentence_embedding", seed=seed, config=dict(config, vocab_size=vocabulary), pooling=draw.choice(["mean", "mean", "cls", "max"]),
                normalize=draw.random() < 0.5, layout=draw.choice(["2.0", "5.4", "6.2"]), max_seq_length=longest, objective=dict(loss=loss), batch=dict(lengths=lengths),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])), layers=False)
    if loss != "cosine_similarity":
        spec["objective"]["scale"] = draw.choice([1.0, 20.0, 20.0, 50.0])
    if "ranking" not in loss:
        scores = [draw.choice([0.0, 0.2, 0.5, 0.8, 1.0, draw.random()]) for _ in range(samples - 1)]
        spec["batch"]["scores"] = [*scores, 0.6]  # of equal ones the loss is 0
    if body != "distilbert":
        spec["add_pooling_layer"] = draw.random() < 0.5
    if with_run:
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.01]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
    return spec


DRAWS = {"bridgetower": draw_bridgetower, "vit": draw_vit, "deit": draw_deit, "bert": draw_bert, **{family: functools.partial(draw_relative, family) for family in ("roberta", "distilbert")}, "t5": draw_t5, "embedding": draw_embedding}


def summary(spec):
    if "family" not in spec:
        text, vision, top = spec["text"], spec["vision"], spec["top"]
        return (f"width {text['hidden_size']:3d} heads {text['num_attention_heads']:3d} vision {vision['hidden_size']:3d} "
                f"layers {text['num_hidden_layers']}+{top['num_hidden_layers']} {top['link_tower_type']:11s} {text['hidden_act']:17s}")
    config = spec["config"]
    if spec["family"] == "t5":
        scaled = {None: "", True: "scaled", False: "unscaled"}[config.get("scale_decoder_outputs")]
        return (f"width {config['d_model']:3d} heads {config['num_heads']} x {config['d_kv']:2d} layers {config['num_layers']}+{config['num_decoder_layers']} "
                f"{config['feed_forward_proj']:23s} tie {config['tie_word_embeddings']:d} {spec['lm_head']:6s} {scaled:8s} "
                f"{'padded' if 'ignore_pad_token_for_loss' in spec else 'holes' if spec['batch'].get('holes') else '':6s}")
    layout = "pooled" if spec.get("pooled") else "untied" if not config.get("tie_word_embeddings", True) else ""
    width, heads, layers, activation = (config[ours if ours in config else theirs] for ours, theirs in
                                        (("hidden_size", "dim"), ("num_attention_heads", "n_heads"), ("num_hidden_layers", "n_layers"), ("hidden_act", "activation")))
    if spec["family"] == "embedding":
        return (f"{spec['body']:10s} width {width:3d} heads {heads:3d} layers {layers} {spec['pooling']:4s} {'norm' if spec['normalize'] else '':4s} "
                f"{spec['objective']['loss']:36s} {len(spec['batch']['lengths'])} texts")
    return (f"width {width:3d} heads {heads:3d} layers {layers} {activation:17s} "
            f"{layout:6s} {spec.get('train', {}).get('optimizer', ''):4s}")
