#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a Hugging Face data set into files that the settings file can name.

    tools/export_dataset.py jmhessel/newyorker_caption_contest --config matching \\
        --caption_column image_description --output data/newyorker
    tools/export_dataset.py AI-Lab-Makerere/beans --class_column labels --output data/beans
    tools/export_dataset.py Salesforce/wikitext --config wikitext-2-raw-v1 --text_column text --output data/wikitext
    tools/export_dataset.py abisee/cnn_dailymail --config 3.0.0 --output data/cnn_dailymail
    tools/export_dataset.py eriktks/conll2003 --text_column tokens --tag_column ner_tags --output data/conll2003
    tools/export_dataset.py nyu-mll/glue --config mrpc --text_column sentence1 --text_pair_column sentence2 --class_column label --output data/mrpc

SOURCE is a name on the hub, a local folder (saved with save_to_disk, with parquet files, or of pictures with metadata), or a
.parquet or .arrow file, whose name says of which split it is (else train).
It writes OUTPUT/<split>.jsonl with the columns image and caption (and label), and OUTPUT/images/. JPEG, PNG and still
WebP files keep their bytes; anything else becomes a JPEG of quality 95 without colour subsampling, and is counted. Equal pictures are
one file, named by their content. A caption column with lists gives a row for each caption.

With --class_column the rows have the column label with the name of the class, and no caption. With --text_column there
are no pictures: OUTPUT/<split>.txt holds the lines of the rows, with an empty line between two rows. With --summary_column
too, OUTPUT/<split>.jsonl has the columns text and summary; the names of these two columns are known of the data sets
cnn_dailymail, xsum, samsum and others in tools/summary_columns.py, and need not be given. With --text_column and --class_column,
OUTPUT/<split>.jsonl has the columns text and label, and with --text_pair_column text_pair: labels are classes, or values where
they are decimal numbers. Classes with names are written as their numbers in the data set, which decide what F1 is of; a line gives
the id2label that names them in the model's config.json. With --text_column and --tag_column, of lists of words and their tags as in
conll2003 and wnut_17, OUTPUT/<split>.jsonl has the columns tokens and tags, with the tags' names. A split whose labels are all -1, as those of
GLUE's test files, has none: a line says so, and `bascule run` writes predictions for it.

With --shard_rows N the same rows become tar shards of N samples instead, OUTPUT/<split>-00000.tar and so on, which the
settings file names as "<split>-{00000..00041}.tar"; the command prints the name.

A picture or manifest appears under its name only when it is complete. Run the same command again after an interruption:
it keeps finished files. Needs the Python packages `datasets` and `pillow`.
Exit code: 0 done, 2 command line, 3 data, 6 disk.
"""
import argparse
import json
import pathlib
import sys
import time

from export_pictures import JPEG_QUALITY, Manifest, Pictures, Shards, picture_bytes, write_whole
from export_source import class_names_of, encoded_rows, load_splits
from export_texts import has_no_labels, of_texts, tell_classes
from exported_rows import NO_LABELS, BadRow, ExportError, labelled_text, row_captions, row_class, row_label, row_lines, row_text, tagged_words
from summary_columns import summary_columns

PROGRESS_SECONDS = 2.0
EXPORT_RECORD = "export.json"


def add_row(row, columns, destination, folder, class_names):
    """columns: our names -> the source's. Returns how many rows it became."""
    if "summary" in columns:
        return destination.add([json.dumps({ours: row_text(row[theirs], ours) for ours, theirs in columns.items()}, ensure_ascii=False)])
    if "tag" in columns:
        return destination.add([json.dumps(tagged_words(row, columns, class_names), ensure_ascii=False)])
    if "text" in columns and "class" in columns:
        return destination.add([json.dumps(labelled_text(row, columns, class_names), ensure_ascii=False)])
    if "text" in columns:
        return destination.add(row_lines(row[columns["text"]]))
    captions = [{"caption": caption} for caption in row_captions(row[columns["caption"]])] if "caption" in columns else [{}]
    extra = {"label": row_label(row[columns["label"]])} if "label" in columns else {}
    if "class" in columns:
        extra["label"] = row_class(row[columns["class"]], class_names)
    return destination.add(picture_bytes(row[columns["image"]], folder), captions, extra)


def export_split(name, rows, columns, destination, folder, skip_bad, class_names=None):
    """rows: an iterable of dicts with encoded pictures. Returns (rows written, rows left out)."""
    written, left_out, told = 0, 0, time.monotonic()
    for number, row in enumerate(rows):
        try:
            written += add_row(row, columns, destination, folder, class_names)
        except BadRow as bad:
            if not skip_bad:
                raise ExportError(3, f"{name}, row {number}: {bad}; correct it, or leave such rows out with --skip_bad") from None
            left_out += 1
            print(f"{name}, row {number} skipped: {bad}", file=sys.stderr)
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"{name}: {number + 1} rows", file=sys.stderr)
    if not written:
        raise ExportError(3, f"{name}: the split has no usable row")
    destination.finish()
    return written, left_out


def earlier_record(output, what):
    """The record of an earlier export of the same thing, or a new one; a folder of something else is refused."""
    path = output / EXPORT_RECORD
    if path.exists():
        try:
            record = json.loads(path.read_text())
        except ValueError:
            raise ExportError(3, f"{path}: is not a record of an export; choose another folder") from None
        splits = record.get("splits") if isinstance(record, dict) else None
        if not isinstance(splits, dict) or not all(isinstance(split, dict) for split in splits.values()):
            raise ExportError(3, f"{path}: is not a record of an export; choose another folder")
        if record.get("what") != what:
            raise ExportError(2, f"{output}: holds another export; choose another folder")
        return record
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ExportError(2, f"{output}: holds something else; choose another folder")
    return {"what": what, "splits": {}}


def write_record(output, record):
    write_whole(output / EXPORT_RECORD, json.dumps(record, indent=1).encode())


def wanted_columns(options):
    """Our names -> the source's."""
    has_pictures = options.class_column or options.label_column or options.caption_column
    if options.text_pair_column and not (options.text_column and options.class_column):
        raise ExportError(2, "--text_pair_column needs --text_column and --class_column")
    if options.tag_column:
        if not options.text_column or has_pictures or options.summary_column or options.shard_rows:
            raise ExportError(2, "--tag_column needs --text_column, and no other column")
        return {"text": options.text_column, "tag": options.tag_column}
    if options.text_column or options.summary_column:
        if options.label_column or options.shard_rows or (options.class_column and options.summary_column):
            raise ExportError(2, "--text_column, --summary_column: texts have neither shards nor --label_column, and summaries no classes")
        text = options.text_column or summary_columns(options.source)[0]
        if text is None:
            raise ExportError(2, "--summary_column: name the column with the texts with --text_column")
        if options.summary_column:
            return {"text": text, "summary": options.summary_column}
        pair = {"text_pair": options.text_pair_column} if options.text_pair_column else {}
        return {"text": text, **pair, "class": options.class_column} if options.class_column else {"text": text}
    if summary_columns(options.source)[0] and not has_pictures:
        return dict(zip(("text", "summary"), summary_columns(options.source)))
    if options.class_column:
        if options.label_column:
            raise ExportError(2, "--class_column and --label_column: give one of them")
        return {"image": options.image_column, "class": options.class_column}
    columns = {"image": options.image_column, "caption": options.caption_column or "caption"}
    return {**columns, "label": options.label_column} if options.label_column else columns


def ending_of(options, columns, shards):
    """Of the last file of a split, after its name."""
    if of_texts(columns):
        return of_texts(columns).ENDING
    return f"-{shards - 1:05}.tar" if options.shard_rows else ".jsonl"


def export(options):
    output = pathlib.Path(options.output)
    columns = wanted_columns(options)
    what = {"source": options.source, "config": options.config, "revision": options.revision, "columns": columns,
            "make_test_split": options.make_test_split,
            "seed": options.seed if options.make_test_split or options.validation_fraction else None,
            "skip_bad": options.skip_bad}
    if options.validation_fraction:
        what["validation_fraction"] = options.validation_fraction
    if options.shard_rows:
        what["shard_rows"] = options.shard_rows
    record = earlier_record(output, what)
    tables = {name: encoded_rows(dataset, columns) for name, dataset in load_splits(options).items()}
    write_record(output, record)
    tell_classes(tables, columns)
    for name, rows in tables.items():
        last_file = name + ending_of(options, columns, record["splits"].get(name, {}).get("shards", 1))
        if name in record["splits"] and (output / last_file).exists():
            print(f"{name}: already exists", file=sys.stderr)
            continue
        names = NO_LABELS if has_no_labels(rows, columns) else class_names_of(rows, columns)
        if names is NO_LABELS:
            print(f"{name}: its labels are all -1, that is, it has none: as data.test_file it gets predictions alone", file=sys.stderr)
        shards = Shards(name, output, options.shard_rows) if options.shard_rows else None
        pictures = shards or Pictures(output)
        destination = of_texts(columns)(name, output) if of_texts(columns) else shards or Manifest(name, output, pictures)
        try:
            lines, left_out = export_split(name, rows, columns, destination, pathlib.Path(options.source), options.skip_bad, names)
        finally:
            output.joinpath(name + ending_of(options, columns, 1) + ".part").unlink(missing_ok=True)
        record["splits"][name] = {"rows": lines, "left_out": left_out, "pictures": len(pictures.stored),
                                  "re_encoded": pictures.re_encoded}
        if shards:
            record["splits"][name]["shards"] = shards.shards
            print(f"{name}: {shards.written_name()}", file=sys.stderr)
        write_record(output, record)
        note = f", {pictures.re_encoded} re-encoded as JPEG of quality {JPEG_QUALITY}" if pictures.re_encoded else ""
        stored = "" if of_texts(columns) else f", {len(pictures.stored)} pictures{note}"
        print(f"{name}: {lines} rows{stored}, {left_out} skipped", file=sys.stderr)


def positive(text):
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def seed(text):
    if not 0 <= int(text) < 2**32:
        raise ValueError(text)
    return int(text)


def fraction(text):
    if not 0.0 < float(text) < 1.0:
        raise ValueError(text)
    return float(text)


def parse(arguments):
    summary, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE", help="name on the hub, local folder, or .parquet or .arrow file")
    parser.add_argument("--output", required=True, metavar="FOLDER")
    parser.add_argument("--config", help="configuration of the data set, such as \"matching\"")
    parser.add_argument("--revision", help="branch, tag or commit of the data set on the hub")
    parser.add_argument("--image_column", default="image", metavar="NAME")
    parser.add_argument("--caption_column", metavar="NAME", help="default: caption")
    parser.add_argument("--label_column", metavar="NAME", help="column with 0 or 1, for image-text matching")
    parser.add_argument("--class_column", metavar="NAME", help="column with classes, for image classification, or with --text_column for texts; no captions are exported")
    parser.add_argument("--text_column", metavar="NAME", help="column with texts, for a text corpus; no pictures are exported")
    parser.add_argument("--text_pair_column", metavar="NAME", help="column with the second text of each row, beside --text_column and --class_column")
    parser.add_argument("--tag_column", metavar="NAME", help="column with a list of tags, beside --text_column with a list of words")
    parser.add_argument("--summary_column", metavar="NAME", help="column with the summary of each text; no pictures are exported")
    parser.add_argument("--split", action="append", metavar="NAME", help="only this split; may be repeated")
    parser.add_argument("--make_test_split", action="store_true",
                        help="without a split test: cut train into 60 %% train, 20 %% validation, 20 %% test")
    parser.add_argument("--validation_fraction", type=fraction, metavar="F",
                        help="without a split validation: draw this fraction of the rows of train for it")
    parser.add_argument("--seed", type=seed, default=42, help="seed of --make_test_split and --validation_fraction (default 42)")
    parser.add_argument("--shard_rows", type=positive, metavar="N", help="write tar shards of N samples instead of picture files")
    parser.add_argument("--skip_bad", action="store_true", help="skip and count rows that cannot be exported")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    try:
        export(options)
    except ExportError as error:
        print(f"export_dataset: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"export_dataset: {error.filename or options.output}: {error.strerror}; free or choose another disk, "
              "then run the same command again", file=sys.stderr)
        return 6
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
