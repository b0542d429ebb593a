# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python.md runs."""
import contextlib
import io
import pathlib
import re
import unittest

import torch
from torch.utils.data import DataLoader

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Page(unittest.TestCase):
    def test_code_runs(self):
        page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(blocks), 3)
        model = torch.nn.Linear(1, 1)
        names = {"DataLoader": DataLoader, "data": list(range(64)), "epochs": 1,
                 "profile": str(ROOT / "examples/layout_profile.csv"),
                 "collate": lambda batch: torch.tensor(batch, dtype=torch.float32).reshape(-1, 1),
                 "mean_loss": lambda batch: model(batch).mean(),
                 "optimizer": torch.optim.SGD(model.parameters(), lr=1e-6)}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(block, names)  # pylint: disable=exec-used
        self.assertEqual(printed.getvalue(),
                         "[0] [1 2 3 4 5] at most 0.0 % above the best plan there is\n")
        self.assertEqual(names["saved"]["epoch"], 1)
        self.assertEqual(names["found"]["layouts"][0]["modules"]["vision"]["kind"], 1)


if __name__ == "__main__":
    unittest.main()
