#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `bascule search` which caption each drawn picture shows: its own, or that of one of the nine pictures drawn after it.

  tools/search_drawn.py build/bascule runs/demo runs/sd_demo

The first run was trained on captions, the second one drew. Every prompt is searched in the folder of pictures, and the
scores of a picture for ten prompts are compared."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

CANDIDATES = 10


def scores(program, run, folder, prompt, number):
    """{name of a picture: its score for the prompt}"""
    with tempfile.TemporaryDirectory() as page:
        found = subprocess.run(
            [program, "search", run, prompt, "--images", folder, "--top", str(number), "--json", "--html", f"{page}/search.html"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(found.stderr.strip().splitlines()[-1])
    return {pathlib.Path(hit["path"]).name: hit["score"] for hit in json.loads(found.stdout)["results"]}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("run", help="output_dir of a finished run of the contrastive head")
    options.add_argument("drawn", help="output_dir of a run that drew, one picture of each prompt")
    options = options.parse_args()

    rows = [json.loads(line) for line in pathlib.Path(options.drawn, "images.jsonl").read_text(encoding="utf-8").splitlines()]
    rows.sort(key=lambda row: row["file"])
    names, prompts = [row["file"] for row in rows], [row["prompt"] for row in rows]
    if len(set(prompts)) != len(prompts) or len(prompts) < CANDIDATES:
        sys.exit(f"{options.drawn}: {len(prompts)} pictures: {CANDIDATES} or more are needed, each of another prompt")
    by_prompt = [scores(options.program, options.run, options.drawn, prompt, len(names)) for prompt in prompts]

    right = 0
    for number, name in enumerate(names):
        candidates = [(number + ahead) % len(names) for ahead in range(CANDIDATES)]
        best = max(candidates, key=lambda one: by_prompt[one][name])
        right += best == number
        if best != number:
            print(f'  {name} "{prompts[number]}" was taken for "{prompts[best]}"')
    print(f"bascule search finds the right caption among {CANDIDATES} for {right} of {len(names)} drawn pictures, "
          f"{100 * right / len(names):.0f} % (chance {100 / CANDIDATES:.0f} %)")


if __name__ == "__main__":
    main()
