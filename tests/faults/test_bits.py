# SPDX-License-Identifier: Apache-2.0
"""Contract 3: the same bits again, with any number of compute threads and loader workers, on each instruction set."""
import pathlib
import tempfile
import unittest

from bascule_run import digest, run, settings


def parameters_after(**changes):
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", settings(folder, **changes))
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return digest(pathlib.Path(folder) / "run" / "model.safetensors")


class Bits(unittest.TestCase):
    def test_do_not_depend_on_threads_workers_or_slots(self):
        for isa in ("avx2", "auto"):
            with self.subTest(isa=isa):
                first = parameters_after(machine__threads="1", machine__isa=f'"{isa}"', data__dataloader_num_workers="0")
                for threads, workers, slots in ((1, 1, 3), (2, 0, 2), (3, 2, 8), (4, 4, 3)):
                    again = parameters_after(machine__threads=str(threads), machine__isa=f'"{isa}"', data__ring_slots=str(slots),
                                             data__dataloader_num_workers=str(workers))
                    self.assertEqual(first, again, f"{threads} threads, {workers} workers, {slots} slots")

    def test_are_those_of_avx2_with_scalar_kernels(self):
        for head in ("contrastive", "image_text_matching", "masked_lm"):
            with self.subTest(head=head):
                scalar = parameters_after(model__head=f'"{head}"', machine__isa='"scalar"')
                self.assertEqual(scalar, parameters_after(model__head=f'"{head}"', machine__isa='"avx2"'))

    def test_are_the_same_for_the_other_heads_too(self):
        for head in ("image_text_matching", "masked_lm"):
            with self.subTest(head=head):
                one = parameters_after(model__head=f'"{head}"', machine__threads="1")
                self.assertEqual(one, parameters_after(model__head=f'"{head}"', machine__threads="3"))

    def test_change_with_the_seed(self):
        self.assertNotEqual(parameters_after(training__seed="1"), parameters_after(training__seed="2"))


if __name__ == "__main__":
    unittest.main()
