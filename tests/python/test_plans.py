# SPDX-License-Identifier: Apache-2.0
"""Plans from Python are the library's, refuse in sentences and share their arrays."""
import contextlib
import inspect
import itertools
import os
import pathlib
import pickle
import signal
import tempfile
import threading
import time
import unittest

import ballast
import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

LENGTHS = [16000, 3900, 2800, 2600, 2200, 1800, 1700, 1300, 900, 700]
COST = "transformer:d=3072,gamma=0.405"


class OnDevice:
    """An array of a GPU, for who asks."""

    def __dlpack__(self, stream=None):
        raise RuntimeError("there is no GPU")

    def __dlpack_device__(self):
        return 2, 0

    def cpu(self):
        return self.__dlpack__()


class Shared:
    """An array of another library on the host."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


class Plans(unittest.TestCase):
    def test_is_the_plan_of_the_readme(self):
        plan = ballast.plan(LENGTHS, "g1n4+g4n1", cost=COST)
        tokens = [sum(LENGTHS[sample] for sample in bag) for bag in plan]
        self.assertEqual(tokens, [4600, 4100, 4300, 4900, 16000])
        self.assertTrue(plan.proven_optimal)
        self.assertEqual(plan.gap, 0)
        self.assertEqual(plan.gpus.tolist(), [1, 1, 1, 1, 4])
        self.assertEqual(plan.digest, ballast.plan(LENGTHS, "g1n4+g4n1", cost=COST).digest)

    def test_no_plan_of_a_few_samples_is_better(self):
        rng = np.random.default_rng(1)
        for _ in range(20):
            lengths = rng.integers(1, 100, 6)
            best = min(max(sum(int(length) for length, own in zip(lengths, owner) if own == bag)
                           for bag in range(3)) for owner in itertools.product(range(3), repeat=6))
            plan = ballast.plan(lengths, 3, policy="refine:nodes=1000000")
            self.assertEqual(plan.makespan, best)
            self.assertLessEqual(ballast.plan(lengths, 3).lower_bound, best)

    def test_reads_and_shows_arrays_where_they_lie(self):
        lengths = np.array(LENGTHS)
        self.assertIs(ballast._integers(lengths, "lengths"), lengths)
        plan = ballast.plan(lengths, 2)
        for array in (plan.owner, plan.loads, plan.costs, plan.samples, plan.offsets, plan[1]):
            self.assertFalse(array.flags.writeable)
            self.assertFalse(array.flags.owndata)
        row = plan[-1]
        del plan
        self.assertEqual(sorted(row.tolist()), row.tolist())  # the row keeps the plan alive

    def test_takes_other_arrays(self):
        digest = ballast.plan(LENGTHS, 3).digest
        for lengths in (np.array(LENGTHS, np.int32), np.array(LENGTHS, np.uint64), tuple(LENGTHS),
                        np.repeat(LENGTHS, 2)[::2], Shared(np.array(LENGTHS))):
            self.assertEqual(ballast.plan(lengths, 3).digest, digest)

    def test_costs_are_names_models_arrays_or_functions(self):
        model = ballast.Cost(COST)
        own = model(np.array(LENGTHS))
        digest = ballast.plan(LENGTHS, 3, cost=COST).digest
        for cost in (model, own, model.__call__, ballast.Cost(*model.coefficients),
                     pickle.loads(pickle.dumps(model))):
            self.assertEqual(ballast.plan(LENGTHS, 3, cost=cost).digest, digest)

    def test_keeps_constraints(self):
        together = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        owner = ballast.plan(LENGTHS, 3, together=together).owner
        self.assertTrue(np.array_equal(owner[::2], owner[1::2]))
        plan = ballast.plan(LENGTHS, 4, most_per_gpu=16000,
                            samples=ballast.counts.at_most(4))
        self.assertLessEqual(max(plan.loads), 16000)
        self.assertLessEqual(max(len(bag) for bag in plan), 4)
        stays = ballast.plan(LENGTHS, 2, home=[0, 1] * 5, then="fewest_moves",
                             within_per_million=1_000_000)
        self.assertLess(stays.moved, 0.5)

    def test_keeps_several_limits(self):
        lengths, images = [9, 8, 7, 6, 5, 4, 3, 2], [1, 0, 2, 1, 0, 1, 0, 3]
        caps = [{"of": images, "most_per_gpu": 3}]
        plan = ballast.plan(lengths, 4, most_per_gpu=13, also=caps,
                            samples=ballast.counts.equal())
        self.assertEqual((max(plan.loads), plan.proven_optimal), (12, True))
        self.assertEqual([len(bag) for bag in plan], [2] * 4)
        self.assertLessEqual(max(sum(images[each] for each in bag) for bag in plan), 3)
        even = ballast.plan([9, 5, 4, 4, 2], 3, then="level")
        self.assertEqual(sorted(even.loads), [7, 8, 9])
        stays = ballast.plan(lengths, 4, home=[0, 1, 2, 3] * 2, apart=[0, 0, 1, 2, 3, 4, 5, 6],
                             then="fewest_moves", within_per_million=100_000)
        self.assertLess(stays.moved, 0.3)
        filled = ballast.plan([30, 1, 1], 3, samples=ballast.counts.filled(), then=[1, 1, 1])
        self.assertEqual([len(bag) for bag in filled], [1, 1, 1])
        for what, call in {
                "has neither": lambda: ballast.plan(lengths, 4, also=[{"of": images}]),
                "a cap with 'limit'": lambda: ballast.plan(lengths, 4, also=[{"limit": 3}]),
                                "give 'level'": lambda: ballast.plan(lengths, 4, then="even"),
                "limits.also has 5": lambda: ballast.plan(lengths, 4, also=caps * 5)}.items():
            with self.assertRaisesRegex(ValueError, what):
                call()

    def test_sends_samples_where_they_fit(self):
        lengths = [6, 5, 4, 3]
        fits = np.array([[0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 0]], bool)
        for given in (fits, fits.tolist(), np.repeat(fits, 2, axis=1)[:, ::2],
                      torch.from_numpy(fits)):
            plan = ballast.plan(lengths, 3, fits=given)
            self.assertEqual((plan.owner.tolist(), plan.makespan), ([2, 2, 0, 0], 11))
            grid = ballast.grid(lengths, 3, microbatches=2, fits=given)
            self.assertEqual(((grid.owner % 3).tolist(), grid.makespan), ([2, 2, 0, 0], 11))
        self.assertEqual(ballast.plan(lengths, 3, fits=np.ones((4, 3), bool)).makespan, 7)
        self.assertEqual(len(ballast.plan([], 3, fits=[])), 3)
        for call in (ballast.plan, ballast.grid):
            for what, wrong in {
                    r"fits is of \[3 x 4\]; .* \[4 x 3\]": fits.T,
                    r"fits is of \[3\]; .* \[4 x 3\]": fits[0],
                    r"fits is of \[4 x 0\]; .* \[4 x 3\]": [[]] * 4,
                    "fits holds values of type int64; give True and False": fits.astype(int),
                    "fits is .*; give an array": [[True], [True, False]],
                    "no plan": np.zeros((4, 3), bool)}.items():
                with self.subTest(f"{call.__name__}: {what}"), \
                        self.assertRaisesRegex(ValueError, what):
                    call(lengths, 3, fits=wrong)

    def test_plans_without_the_lock(self):
        lengths = np.random.default_rng(1).integers(1, 2**31, 40)
        planner = threading.Thread(  # half a second
            target=lambda: ballast.plan(lengths, 8, policy="refine:nodes=2000000"))
        counted = 0
        planner.start()
        while planner.is_alive():
            counted += 1
        self.assertGreater(counted, 100)  # one or two, if the planner had the lock

    def test_threads_plan_at_once(self):
        digests = [0] * 4
        lengths = np.random.default_rng(1).integers(1, 10000, 512)

        def work(at):
            digests[at] = ballast.plan(lengths, 16).digest

        workers = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(set(digests), {ballast.plan(lengths, 16).digest})


class OtherPlans(unittest.TestCase):
    def test_grid_keeps_its_cap(self):
        lengths = [7000, 6500, 5000, 4200, 3000, 2500, 1500, 900, 700]
        grid = ballast.grid(lengths, 2, most_per_gpu=8192)
        self.assertEqual((grid.microbatches, grid.fewest_microbatches), (2, 2))
        self.assertEqual(grid.why, "the cap decides: at least 2 microbatches are needed")
        self.assertEqual(grid.filled.shape, (2, 2))
        self.assertLessEqual(grid.filled.max(), 8192)
        seen = [sample for slot in range(2) for rank in range(2)
                for sample in grid.microbatch(rank, slot).tolist()]
        self.assertEqual(sorted(seen), list(range(9)))
        self.assertTrue(np.array_equal(grid.microbatch(1, 0), grid[1]))
        self.assertEqual(grid.used_microbatches, 2)
        joined = ballast.grid(lengths, 2, microbatches=3, meet="microbatch")
        self.assertEqual((joined.microbatches, joined.used_microbatches), (3, 1))
        counts = ballast.grid(lengths[:8], 2, microbatches=2,
                              samples=ballast.counts.equal())
        self.assertEqual([len(cell) for cell in counts], [2] * 4)

    def test_speeds_share_equal_samples(self):
        for made in (ballast.plan([9] * 1000, 4, speeds=[3, 3, 2, 2]),
                     ballast.grid([9] * 1000, 4, speeds=[3, 3, 2, 2], microbatches=1)):
            self.assertEqual([len(bag) for bag in made], [300, 300, 200, 200])
        with self.assertRaisesRegex(ValueError, "speed"):
            ballast.plan([9], 2, speeds=[3])

    def test_pack_fills_few_bins(self):
        packing = ballast.pack([3, 4, 5, 6], 9, samples=ballast.counts.at_most(2))
        self.assertEqual((len(packing), packing.fewest_bins, packing.largest), (2, 2, 9))
        self.assertTrue(packing.proven_optimal)
        self.assertEqual(len(ballast.pack([3, 4, 5, 6], most_per_gpu=9, multiple_of=4)), 4)
        images = [4, 4, 0, 0]
        both = ballast.pack([3, 4, 1, 1], 9, also=[{"of": images, "most_per_gpu": 4}], then="level")
        self.assertEqual((len(both), both.fewest_bins, both.largest), (2, 2, 5))
        alone = ballast.pack([3, 12, 1], also=[{"most_per_gpu": 9, "is_soft": True}])
        self.assertEqual((len(alone), alone.above_cap.tolist()), (2, [int(alone.owner[1])]))

    def test_order_is_that_of_the_readme(self):
        forward = np.full((8, 4), 5)
        forward[:, 0] = [9, 1, 7, 2, 8, 1, 6, 2]
        order = ballast.order(forward)
        self.assertEqual((order.makespan, order.makespan_given), (153, 179))
        self.assertEqual(sorted(order.order.tolist()), list(range(8)))
        self.assertEqual(order.gap, 0)

    def test_search_finds_layouts(self):
        data = np.genfromtxt(ROOT / "examples/layout_data.csv", delimiter=",", names=True)
        profile = str(ROOT / "examples/layout_profile.csv")
        modules = [line.split(",")[0] for line in pathlib.Path(profile).read_text().splitlines()]
        names = [name for name in dict.fromkeys(modules) if name in data.dtype.names]
        sizes = np.stack([data[name].astype(np.int64) for name in names], axis=1)
        found = ballast.search(profile, sizes, gpus=16, memory_bytes=80 * 10**9,
                               global_batch=64, best=2)
        self.assertEqual(len(found["layouts"]), 2)
        best = found["layouts"][0]
        gpus = sum(own["tp"] * own["sp"] * own["ep"] * own["pp"] * own["dp"]
                   for own in best["modules"].values())
        self.assertEqual(gpus, 16)
        self.assertGreaterEqual(best["step_seconds"], found["lower_bound_seconds"])
        self.assertEqual({own["kind"] for own in best["modules"].values()}, {0})
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "profile.csv"
            wrong.write_text(pathlib.Path(profile).read_text().replace("1.1e14", "110"))
            with self.assertWarnsRegex(UserWarning, "is 110, more than 100 times below the"):
                ballast.search(str(wrong), sizes, gpus=16, memory_bytes=80 * 10**9,
                               global_batch=64)

    def test_modules_run_on_several_kinds_of_gpus_and_may_be_frozen(self):
        def best(**more):
            return ballast.search(str(ROOT / "examples/layout_profile.csv"), np.full((8, 2), [5, 2632]),
                                  gpus=16, memory_bytes=80 * 10**9, global_batch=64, best=1,
                                  **more)["layouts"][0]

        step = best()["step_seconds"]
        self.assertLess(best(frozen=["vision"])["step_seconds"], step)
        self.assertGreater(best(frozen=["vision"], trained_inputs=["vision"])["step_seconds"],
                           best(frozen=["vision"])["step_seconds"])
        slower = {"gpus": 8, "memory_bytes": 40 * 10**9, "speed": 0.5}
        found = best(more_gpus=[slower])
        self.assertLess(found["step_seconds"], step)
        self.assertEqual({name: own["kind"] for name, own in found["modules"].items()},
                         {"vision": 1, "llm": 0})
        self.assertLess(best(more_gpus=[{**slower, "speed": 1}])["step_seconds"],
                        found["step_seconds"])
        self.assertLess(best(share_optimizer=True)["memory_bytes"], best()["memory_bytes"])
        with self.assertRaisesRegex(ValueError, "more kinds of GPUs than modules"):
            best(more_gpus=[slower] * 2)
        self.assertEqual(best(more_gpus=[slower] * 2, leave_gpus=True)["modules"]["llm"]["kind"], 0)
        for wrong, sentence in (({"more_gpus": [{"gpus": 8}]}, "more_gpus has {'gpus': 8}; give"),
                                ({"more_gpus": [{**slower, "speed": "fast"}]}, "'speed'. is 'fast'"),
                                ({"more_gpus": [{**slower, "speed": 0}]}, "kind 1 has a speed"),
                                ({"frozen": ["text"]}, "frozen has 'text', .* vision, llm"),
                                ({"frozen": "vision"}, "give a list of modules' names")):
            with self.subTest(sentence), self.assertRaisesRegex((TypeError, ValueError), sentence):
                best(**wrong)

    def test_costs_are_fitted(self):
        model = "transformer:d=1024,layers=4,gamma=0.5"
        lengths = np.array([100, 500, 1000, 2000, 4000, 8000] * 4)
        shape = 1e-15 * ballast.Cost(model)(lengths)
        cost, report = ballast.fit_cost(lengths, shape, "transformer:d=1024,layers=4")
        self.assertAlmostEqual(report["gamma"], 0.5, places=3)
        self.assertEqual(report["misfits"], [])
        steps = [lengths[:count] for count in (1, 3, 5, 8, 13)]
        seconds = [1e-12 * cost(step).sum() for step in steps]
        _, report = ballast.fit_step_cost(steps, seconds, model)
        self.assertLess(report["median_relative_error"], 1e-3)

    def test_say_what_they_are(self):
        forward = np.full((8, 4), 5)
        forward[:, 0] = [9, 1, 7, 2, 8, 1, 6, 2]
        for made, text in (
                (ballast.plan([9, 5, 4], 2), "Plan of 3 samples on 2 GPUs: makespan 9, 0.0 % above"),
                (ballast.plan([9], "g1n2+g2n1"), "Plan of 1 sample on 3 bags of 4 GPUs: makespan"),
                (ballast.grid([9, 5, 4], 2, microbatches=2),
                 "Grid of 3 samples in 2 microbatches of 2 ranks: makespan 9, 0.0 % above the bound"),
                (ballast.pack([9, 5, 4], 9), "Packing of 3 samples in 2 bins: no packing has fewer"),
                (ballast.order(forward), "Order of 8 microbatches: makespan 153, 0.0 % above"),
                (ballast.cut_chain([3, 1, 2], 2), "Cut of 3 layers in 2 stages on 2 ranks: makespa"),
                (ballast.place_experts([6, 2], [1, 2]), "Experts of 2 experts on 2 GPUs: makespan")):
            self.assertTrue(repr(made).startswith(f"<ballast.{text}"), made)
        rule = ballast.counts.multiple_of(4)
        self.assertEqual((eval(repr(rule)), pickle.loads(pickle.dumps(rule))), (rule, rule))

    def test_notebooks_show_plans(self):
        forward = np.full((2, 2), 5)
        for made in (ballast.plan(LENGTHS, 2), ballast.grid(LENGTHS, 2),
                     ballast.pack(LENGTHS, 16000), ballast.order(forward), ballast.plan([], 2),
                     ballast.pack([], 5)):
            page = made._repr_html_()
            self.assertIn("<svg", page)
            self.assertIn("<table>", page)
            self.assertNotIn("nan", page)


class Additions(unittest.TestCase):
    def test_soft_caps_and_numbers_of_microbatches(self):
        grid = ballast.grid([900, 100, 90, 80], 2,
                            also=[{"most_per_gpu": 200, "is_soft": True}])
        self.assertEqual(grid.above_cap.tolist(), [grid.owner[0]])
        self.assertEqual(len(grid[int(grid.owner[0])]), 1)
        self.assertEqual(ballast.grid([5] * 8, 2, least_microbatches=3).microbatches, 3)
        self.assertEqual(ballast.grid([5] * 8, 2, least_microbatches=3,
                                      multiple_of=2).microbatches, 4)
        late = ballast.grid([5] * 9, 3, microbatches=1, starting_loads=[0, 10, 20])
        self.assertEqual([len(cell) for cell in late], [5, 3, 1])
        for what, call in {
                "exclude each other": lambda: ballast.grid([5], 1, microbatches=1,
                                                           least_microbatches=2),
                "has neither most_per_gpu": lambda: ballast.grid([5], 1, also=[{"is_soft": True}]),
                "then is 'x'": lambda: ballast.grid([5], 1, then="x"),
                "starting_loads has 1 entries for 2": lambda: ballast.grid(
                    [5], 2, starting_loads=[1])}.items():
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                call()

    def test_losses_weigh_what_they_count(self):
        labels = [[2, 2], [1, 2], [2, 0], [2, 2]]
        sums = [[8, 6], [3, 2], [10, 0], [4, 19]]
        weights = ballast.loss_weights(labels)
        self.assertEqual(weights[1], [4 / 13, 8 / 13])
        self.assertEqual(weights[2], [8 / 13, 0])
        step = sum(weight * of / count for own in zip(weights, sums, labels)
                   for weight, of, count in zip(*own) if count) / 4
        self.assertAlmostEqual(step, 4)
        tokens, losses = np.array([3, 0, 5, 2, 7]), np.array([9., 0, 10, 3, 1])
        for made in (ballast.grid([5, 4, 3, 2, 9], 2, microbatches=2), ballast.plan([5] * 5, 2)):
            ranks = getattr(made, "ranks", 2)
            flat = np.array(made.loss_weights(tokens)).reshape(-1)
            mean = sum(weight * losses[own].sum() / tokens[own].sum()
                       for weight, own in zip(flat, made) if weight) / ranks
            self.assertAlmostEqual(mean, losses.sum() / tokens.sum())
        with self.assertRaisesRegex(ValueError, "loss_tokens has 1 entries for 5"):
            made.loss_weights([1])

    def test_schedules_are_tasks_and_files(self):
        forward = np.full((6, 4), 5)
        for schedule, ranks in (("1f1b", 4), ("gpipe", 4), ("interleaved:v=2", 2)):
            order = ballast.order(forward, schedule=schedule)
            rows = [row.split(",") for row in order.csv.splitlines()]
            self.assertEqual((len(order.tasks), len(rows)), (ranks, ranks))
            for rank, (tasks, row) in enumerate(zip(order.tasks, rows)):
                cells = [f"{stage}{passes}{microbatch}" for stage, passes, microbatch in tasks]
                self.assertEqual([cell for cell in row if cell], cells)
                self.assertEqual(len(tasks), 2 * 24 // ranks)
                self.assertEqual({stage % ranks for stage, _, _ in tasks}, {rank})
            again = ballast.order(forward, text=order.csv, policy="given")
            self.assertEqual(again.makespan, order.makespan)
        planned = ballast.order(forward, forward, weights=forward, schedule="planned",
                                held=np.full((6, 4), 10), most=[60] * 4)
        self.assertEqual({passes for own in planned.tasks for _, passes, _ in own}, {*"FBW"})
        self.assertLess(planned.makespan, ballast.order(forward, 2 * forward).makespan)
        folded = ballast.order(forward, forward, weights=forward, schedule="zero_bubble_v", ranks=2,
                               in_v=True)
        self.assertEqual([{stage for stage, _, _ in own} for own in folded.tasks], [{0, 3}, {1, 2}])
        self.assertEqual(folded.csv.count("W"), 24)
        for what, call in {
                "split has 1": lambda: ballast.order(forward, split=[True]),
                "most has 3 entries for 2": lambda: ballast.order(
                    forward, ranks=2, most=[1, 2, 3]),
                "a schedule of 4 ranks": lambda: ballast.order(
                    forward, text=ballast.order(forward).csv, ranks=2),
                "held has -1": lambda: ballast.order(forward, held=-forward // 5),
                "forward and weights": lambda: ballast.order(forward, weights=[1])}.items():
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                call()


class Signals(unittest.TestCase):
    """Handlers run on the main thread while C++ plans."""

    LENGTHS = np.random.default_rng(1).integers(1, 2**31, 40)

    @contextlib.contextmanager
    def handled(self, number, handler):
        before = signal.signal(number, handler)
        try:
            yield
        finally:
            signal.signal(number, before)

    def test_ctrl_c_stops_long_searches(self):
        profile = str(ROOT / "examples/layout_profile.csv")
        rng = np.random.default_rng(1)
        sizes = rng.integers([1, 100], [9, 8000], (4096, 2))
        times = rng.integers(1, 10000, (64, 8))
        with self.handled(signal.SIGINT, signal.default_int_handler):
            for name, call in {
                    "plan": lambda: ballast.plan(self.LENGTHS, 8, policy=f"refine:nodes={2**40}"),
                    "order": lambda: ballast.order(times, policy=f"exact:nodes={2**40}"),
                    "search": lambda: ballast.search(profile, sizes, gpus=8192, best=50,
                                                     memory_bytes=80 * 10**9, batches=16,
                                                     global_batch=8192)}.items():
                with self.subTest(name):
                    before = ballast.plan(LENGTHS, 4).digest
                    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                    begin = time.monotonic()
                    with self.assertRaises(KeyboardInterrupt):
                        timer.start()
                        call()
                    self.assertLess(time.monotonic() - begin, 30)  # 0.1 on an idle machine
                    self.assertEqual(ballast.plan(LENGTHS, 4).digest, before)

    def test_handlers_that_return_change_no_plan(self):
        def plan():
            return ballast.plan(self.LENGTHS, 8, policy="refine:nodes=60000000")

        expected, of_handlers = plan(), []
        with self.handled(signal.SIGALRM, lambda *_: of_handlers.append(
                ballast.plan(self.LENGTHS, 4).digest)):
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.1)
            try:
                found = plan()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(found.digest, expected.digest)
        self.assertGreater(len(of_handlers), 1)  # one, if it ran after the plan
        self.assertEqual(set(of_handlers), {ballast.plan(self.LENGTHS, 4).digest})

    def test_what_a_handler_raises_comes_out_of_the_call(self):
        def late(*_):
            raise TimeoutError("too late")

        with self.handled(signal.SIGALRM, late), self.assertRaisesRegex(TimeoutError, "too late"):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            ballast.plan(self.LENGTHS, 8, policy=f"refine:nodes={2**40}")

    def test_ctrl_c_leaves_other_threads_alone(self):
        digests = []

        def work():
            digests.append(ballast.plan(self.LENGTHS, 8, policy="refine:nodes=60000000").digest)

        worker = threading.Thread(target=work)
        with self.handled(signal.SIGINT, signal.default_int_handler):
            worker.start()
            with self.assertRaises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(30)
        worker.join()
        work()
        self.assertEqual(digests[0], digests[1])


class Refusals(unittest.TestCase):
    def test_of_wrong_types_are_sentences_that_name_the_argument(self):
        grid, plan = ballast.grid([5, 5], 1), ballast.plan([5, 5], 2)
        calls = [  # each with arguments that are right
            (ballast.plan, {"lengths": [5, 5], "bags": 2}),
            (ballast.grid, {"lengths": [5, 5], "bags": 2}),
            (ballast.pack, {"lengths": [5, 5], "most_per_gpu": 9}),
            (ballast.order, {"forward": [[1, 2]]}),
            (ballast.search, {"profile": str(ROOT / "examples/layout_profile.csv"),
                              "sizes": [[9, 900]] * 4, "gpus": 8,
                              "memory_bytes": 80 * 10**9, "global_batch": 4, "batches": 1}),
            (ballast.fit_cost, {"lengths": [9, 900], "seconds": [1.0, 250.0], "model": COST}),
            (ballast.fit_step_cost, {"steps": [[9], [900]], "seconds": [1.0, 250.0],
                                     "model": COST}),
            (ballast.BalancedBatchSampler, {"lengths": [5, 5], "step_samples": 1}),
        ]
        wrongs = ([3], [[3], [4, 5]], "x", 2.5, 2**70, -2**70, object(), {"a": 1}, slice(0, 2))
        told = 0
        for call, right in calls:
            for name, parameter in inspect.signature(call).parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    continue
                for wrong in wrongs:
                    if wrong == "x" and parameter.annotation == "str":
                        continue
                    with self.subTest(f"{call.__name__}({name}={wrong!r})"):
                        try:
                            call(**{**right, name: wrong})
                        except (TypeError, ValueError) as why:
                            told += 1
                            self.assertRegex(str(why), f"{name}|{name.rstrip('s')}")
                            self.assertNotIn("\n", str(why))
                            self.assertLess(len(str(why)), 200)
        self.assertGreater(told, 200)
        rows = {
            r"Plan: row is \[0\]": lambda: plan[[0]],
            "Grid: row is slice": lambda: grid[0:1],
            "microbatch: slot is 'x'": lambda: grid.microbatch(0, "x"),
            r"Cost: text_or_linear is \[1\], of type list": lambda: ballast.Cost([1]),
            "Cost: quadratic is 'x'": lambda: ballast.Cost(1, "x", 2),
            "Cost does not take .*, -1, 2; help": lambda: ballast.Cost(1, -1, 2),
        }
        for sentence, call in rows.items():
            with self.subTest(sentence), self.assertRaisesRegex(TypeError, sentence):
                call()
        with self.assertRaisesRegex(ValueError, "lengths holds values of type"):
            ballast.Cost(COST)("x")

    def test_are_sentences(self):
        plan, grid = ballast.plan, ballast.grid
        calls = {
            "give whole numbers": lambda: plan([1.5], 2),
            "1 dimensions|2 dimensions": lambda: plan([[1]], 2),
            "sample 1 of -1 tokens": lambda: plan([1, -1], 2),
            "give a number from 1": lambda: plan([1], 0),
            "expected groups": lambda: plan([1], "nonsense"),
            "no policy": lambda: plan([1], 2, policy="nonsense"),
            "no cost model": lambda: plan([1], 2, cost="nonsense"),
            "cost has 1 entries": lambda: plan([1, 2], 2, cost=[1]),
            "name a cost model": lambda: plan(
                [1], 2, cost=[1], policy="attention_padded_batches"),
            "job of 2 GPUs": lambda: plan([1], 2, home=[2]),
            "home is -1": lambda: plan([1], 2, home=[-1]),
            "together has 1": lambda: plan([1, 2], 2, together=[0]),
            "63 bits": lambda: plan(np.array([2**63], np.uint64), 2),
            "cannot be read here": lambda: plan(OnDevice(), 2),
            "no plan with 1 microbatch": lambda: grid([5, 5], 1, microbatches=1, most_per_gpu=6),
            "meet is 'never'": lambda: grid([5], 1, meet="never"),
            "'of'. has 1": lambda: grid([5, 5], 1, also=[{"of": [1], "most_per_gpu": 3}]),
            "most_per_gpu is 0": lambda: grid([5, 5], 1, most_per_gpu=0),
            "rank is 2": lambda: grid([5], 1).microbatch(2, 0),
            "a bin has 3": lambda: ballast.pack([9], 3),
            "asks for 0 samples": lambda: ballast.pack(
                [9], 30, samples=ballast.counts.at_most(0)),
            "two arrays": lambda: ballast.order([1, 2]),
            "no multiple": lambda: ballast.order(np.ones((2, 3), int), schedule="interleaved:v=2"),
            "interleaved": lambda: ballast.order(np.ones((2, 2), int), schedule="nonsense"),
            "nowhere": lambda: ballast.search(
                "nowhere.csv", [[1]], gpus=8, memory_bytes=1, global_batch=1),
            "no FLOP to fit": lambda: ballast.fit_cost([1, 2], [1, 2], "tokens"),
            "seconds has 1 entries for 2 lengths": lambda: ballast.fit_cost([1, 2], [1], COST),
        }
        for sentence, call in calls.items():
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                call()


if __name__ == "__main__":
    unittest.main()
