# SPDX-License-Identifier: Apache-2.0
"""Contract 3: the same bits again, with any number of compute threads and loader workers, and on each instruction set."""
import pathlib
import tempfile
import unittest

from bascule_run import EMOJI, digest, has_onednn, instruction_sets, is_sanitized, run, settings, run_ok


def parameters_after(**changes):
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", settings(folder, **changes))
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return digest(pathlib.Path(folder) / "run" / "model.safetensors")


HEADS = ("contrastive", "image_text_matching", "masked_lm")
SHORT = {"training__max_steps": "4", "training__save_steps": "0"}


class Bits(unittest.TestCase):
    def test_do_not_depend_on_instruction_set_threads_workers_or_slots(self):
        first = parameters_after(machine__threads="1", data__dataloader_num_workers="0")
        places = ((1, 1, 3), (2, 0, 2), (3, 2, 8), (4, 4, 3))  # 12 updates: more than slots
        *others, best = instruction_sets()
        for isa, (threads, workers, slots) in [*((best, place) for place in places), *((isa, places[-1 - number]) for number, isa in enumerate(others))]:
            with self.subTest(isa=isa, threads=threads, workers=workers, slots=slots):
                again = parameters_after(machine__threads=str(threads), machine__isa=f'"{isa}"', data__ring_slots=str(slots),
                                         data__dataloader_num_workers=str(workers))
                self.assertEqual(first, again)

    def test_are_the_same_for_every_head_on_every_instruction_set(self):
        for head in HEADS:
            changes = {"model__head": f'"{head}"', **SHORT}
            one = parameters_after(**changes, machine__threads="1")
            for isa in instruction_sets():
                if isa == "scalar" and head != HEADS[0]:
                    continue
                with self.subTest(head=head, isa=isa):
                    self.assertEqual(one, parameters_after(**changes, machine__isa=f'"{isa}"', machine__threads="3"))

    def test_of_the_librarys_products_do_not_depend_on_threads(self):
        if not has_onednn():
            self.skipTest("built without oneDNN")
        for isa in instruction_sets():
            if isa not in ("avx2", "avx512"):  # the two that the library tells apart
                continue
            with self.subTest(isa=isa):
                keys = {"machine__products": '"onednn"', "machine__isa": f'"{isa}"', **SHORT}
                self.assertEqual(parameters_after(machine__threads="1", **keys), parameters_after(machine__threads="3", **keys))

    @unittest.skipIf(is_sanitized(), "a sanitizer has the heap")
    def test_are_computed_without_an_allocation_by_any_library(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_ok("run", settings(folder, data__validation_file=f'"{EMOJI}/validation.jsonl"'))
            self.assertIn("libraries allocated nothing", done.stdout)

    def test_change_with_the_seed(self):
        self.assertNotEqual(parameters_after(training__seed="1", **SHORT), parameters_after(training__seed="2", **SHORT))
