# SPDX-License-Identifier: Apache-2.0
"""What is in the wheel, and that it loads on other systems."""
import multiprocessing
import pathlib
import pickle
import re
import subprocess
import sys
import threading
import unittest

import ballast
import numpy as np

HERE = pathlib.Path(ballast.__file__).parent
LIBRARY = HERE / "libballast_c.so"


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def digest_in_a_process(sampler, plan):
    """What a process that was spawned finds of what was pickled for it."""
    return ([cell.indices for cell in sampler.cells(0)], plan.owner.tolist(),
            ballast.plan(plan.lengths, len(plan)).digest)


class Wheel(unittest.TestCase):
    def test_needs_an_old_c_library_and_no_libstdcxx(self):
        needed = re.findall(r"NEEDED +(\S+)", printed("objdump", "-p", LIBRARY))
        self.assertLessEqual(set(needed), {"libc.so.6", "libm.so.6", "libgcc_s.so.1",
                                           "libpthread.so.0", "ld-linux-x86-64.so.2"})
        symbols = printed("objdump", "-T", LIBRARY)
        versions = {tuple(map(int, each.split("."))) for each in
                    re.findall(r"GLIBC_([\d.]+)", symbols)}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), (2, 34))
        self.assertNotIn("GLIBCXX", symbols)
        self.assertNotIn("arc4random", symbols)  # of std::random_device
        defined = {line.split()[-1] for line in symbols.splitlines()
                   if " .text" in line}
        self.assertTrue(defined)
        self.assertTrue(all(name.startswith("ballast_") for name in defined), defined)

    def test_is_small_and_says_what_it_is(self):
        self.assertLess(LIBRARY.stat().st_size, 2_000_000)
        self.assertTrue((HERE / "py.typed").exists())
        self.assertRegex(ballast.__version__, r"^\d+\.\d+\.\d+(\+g[0-9a-f]{10})?$")

    def test_loads_numpy_late_and_the_sampler_where_it_is_used(self):
        loaded = printed(sys.executable, "-c", "import ballast, sys; print(*sys.modules)").split()
        self.assertFalse({"numpy", "typing", "dataclasses", "ballast.sampler"} & set(loaded))

    def test_pickles_for_processes_that_are_spawned(self):
        sampler = ballast.BalancedBatchSampler(np.arange(1, 60), 16, rank=1, ranks=2)
        plan = ballast.plan(np.arange(1, 60), 4)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(digest_in_a_process, (sampler, plan))
        self.assertEqual(found, digest_in_a_process(sampler, plan))
        again = pickle.loads(pickle.dumps(plan))
        self.assertEqual((again.digest, again.gap, len(again)), (plan.digest, plan.gap, len(plan)))

    def test_plans_after_a_fork_that_another_thread_plans_at(self):
        lengths = np.arange(1, 3000)
        digest = ballast.plan(lengths, 16).digest
        stop = threading.Event()

        def work():
            while not stop.is_set():
                ballast.plan(lengths, 16)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                found = pool.starmap(digest_of, [(lengths, 16)] * 4)
        finally:
            stop.set()
            worker.join()
        self.assertEqual(set(found), {digest})


def digest_of(lengths, bags):
    return ballast.plan(lengths, bags).digest


if __name__ == "__main__":
    unittest.main()
