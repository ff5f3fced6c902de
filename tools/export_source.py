# SPDX-License-Identifier: Apache-2.0
"""The data set that export_dataset.py reads: its splits, columns and names of classes."""
import pathlib
import re

from exported_rows import ExportError

SPLIT_WORDS = {"validation": {"validation", "valid", "val", "dev", "eval"}, "test": {"test", "testing"}}


def load_splits(options):
    """{split: Dataset}, of a hub name or a local folder."""
    try:
        import datasets
    except ImportError:
        raise ExportError(2, "the Python package datasets is missing; pip install datasets pillow") from None
    local = pathlib.Path(options.source)
    loader = {".parquet": "parquet", ".arrow": "arrow"}.get(local.suffix)
    try:
        if loader and local.is_file():
            loaded = datasets.load_dataset(loader, data_files={split_of(local.stem): str(local)})
        elif (local / "dataset_dict.json").exists() or (local / "state.json").exists():
            loaded = datasets.load_from_disk(str(local))
        else:
            loaded = datasets.load_dataset(options.source, options.config, revision=options.revision)
    except Exception as error:  # the library and the network raise anything
        raise ExportError(3, f"{options.source}: cannot be loaded: {first_line(error)}") from None
    splits = dict(loaded) if isinstance(loaded, dict) else {str(loaded.split or "train"): loaded}
    if options.make_test_split and "test" not in splits:
        splits = cut_into_three(splits, options.seed)
    if options.validation_fraction and "validation" not in splits:
        splits = cut_off_validation(splits, options.validation_fraction, options.seed)
    if options.split:
        missing = [name for name in options.split if name not in splits]
        if missing:
            raise ExportError(2, f"there is no split \"{missing[0]}\"; there are: {', '.join(splits)}")
        splits = {name: splits[name] for name in options.split}
    return splits


def split_of(stem):
    """Of a file's name, as the library finds it in a folder: "validation-00000-of-00001" is of "validation"."""
    words = re.findall("[a-z]+", stem.lower())
    return next((split for split, names in SPLIT_WORDS.items() if names & set(words)), "train")


def cut(dataset, fraction, seed):
    """{"train", "test"}, the latter with that fraction of the rows."""
    try:
        return dataset.train_test_split(test_size=fraction, seed=seed)
    except ValueError:
        raise ExportError(3, f"train: too few rows ({len(dataset)}) to cut off {fraction:g} of them") from None


def cut_into_three(splits, seed):
    """The published script's rule: train keeps 60 %, of the rest one half validates and the other tests."""
    if "train" not in splits:
        raise ExportError(2, "--make_test_split needs a split \"train\"")
    first = cut(splits["train"], 0.4, seed)
    second = cut(first["test"], 0.5, seed)
    return {"train": first["train"], "validation": second["train"], "test": second["test"]}


def cut_off_validation(splits, fraction, seed):
    if "train" not in splits:
        raise ExportError(2, "--validation_fraction needs a split \"train\"")
    both = cut(splits["train"], fraction, seed)
    return {**splits, "train": both["train"], "validation": both["test"]}


def class_names_of(dataset, columns):
    """By number; None where the data set names no classes."""
    if "tag" in columns:  # a list of classes
        return getattr(getattr(dataset.features[columns["tag"]], "feature", None), "names", None)
    return getattr(dataset.features[columns["class"]], "names", None) if "class" in columns else None


def encoded_rows(dataset, columns):
    """Only the columns that are needed; pictures as they are stored, never decoded."""
    import datasets

    for ours, theirs in columns.items():
        if theirs not in dataset.column_names:
            raise ExportError(2, f"there is no column \"{theirs}\"; name it with --{ours}_column, "
                                 f"one of: {', '.join(dataset.column_names)}")
    dataset = dataset.select_columns(list(dict.fromkeys(columns.values())))
    if "image" in columns and isinstance(dataset.features[columns["image"]], datasets.Image):
        dataset = dataset.cast_column(columns["image"], datasets.Image(decode=False))
    return dataset


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
