# SPDX-License-Identifier: Apache-2.0
"""Small runs of one optimizer, by whole runs of the program: what test_lamb.py and test_adafactor.py share."""

from bascule_run import FolderTest, digest, run_ok
from rank_runs import STRATEGIES, ranks_settings


class OptimizerRuns(FolderTest):
    SETTINGS = {}  # of every run: "table__key": value

    def trained(self, name, ranks=1, **changes):
        """The output folder of a run in the folder `name`, and what it said."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        done = run_ok("run", ranks_settings(folder, ranks, **{**self.SETTINGS, **changes}))
        return folder / "run", done.stderr

    def digests(self, *arguments, **changes):
        folder, _ = self.trained(*arguments, **changes)
        return digest(folder / "model.safetensors"), digest(folder / "checkpoint-4/training_state.safetensors")

    def expect_equal_strategies(self):
        found = {name: self.digests(name, 2, training__per_device_train_batch_size="2", **changes) for name, changes in STRATEGIES.items()}
        self.assertEqual(len(set(found.values())), 1, found)
