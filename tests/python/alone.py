# SPDX-License-Identifier: Apache-2.0
"""The wheel in an environment without NumPy and without a compiler: lists in, lists out."""
import importlib.util
import itertools
import os
import pickle
import resource
import subprocess
import sys
import time

import ballast

LENGTHS = [16000, 3900, 2800, 2600, 2200, 1800, 1700, 1300, 900, 700]


def refused(call, *words):
    try:
        call()
    except (TypeError, ValueError) as why:
        assert all(word in str(why) for word in words) and "\n" not in str(why), why
    else:
        raise AssertionError(f"not refused: {words}")


def start_of(code):
    """The least CPU time of a few starts, in milliseconds."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1e3 * min(taken)


def plans():
    plan = ballast.plan(LENGTHS, "g1n4+g4n1", cost="transformer:d=3072,gamma=0.405")
    assert [sum(LENGTHS[at] for at in bag) for bag in plan] == [4600, 4100, 4300, 4900, 16000]
    assert plan.gap == 0 and plan.gpus.tolist() == [1, 1, 1, 1, 4]
    assert plan.owner.tolist() == [next(bag for bag in range(5) if at in plan[bag])
                                   for at in range(10)]
    grid = ballast.grid(LENGTHS[1:], 2, most_per_gpu=5000)
    assert grid.microbatches * 2 == len(grid) and max(map(max, grid.filled)) <= 5000
    assert sorted(itertools.chain(*grid)) == list(range(9))
    assert [sum(slot) for slot in grid.filled.tolist()] == [sum(row) for row in grid.loads]
    packing = ballast.pack([3, 4, 5, 6], 9, also=[{"of": [1, 1, 1, 1], "most_per_gpu": 2}])
    assert (len(packing), packing.largest, packing.proven_optimal) == (2, 9, True)
    order = ballast.order([[time, 5, 5, 5] for time in (9, 1, 7, 2, 8, 1, 6, 2)])
    assert (order.makespan, order.makespan_given) == (153, 179)
    fits = [[False, False, True]] * 2 + [[True, False, True], [True, False, False]]
    assert ballast.plan([6, 5, 4, 3], 3, fits=fits).owner.tolist() == [2, 2, 0, 0]
    assert ballast.Cost("tokens")([5, 7]) == (5, 7)
    for made in (plan, grid, packing, order, ballast.Cost("tokens")):
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is type(made) and getattr(again, "digest", 0) == getattr(
            made, "digest", 0)
        assert "<table>" in made._repr_html_() or isinstance(made, ballast.Cost) \
            if hasattr(made, "_repr_html_") else True
    assert pickle.loads(pickle.dumps(plan))[4] == plan[4]


def refusals():
    plan, pack = ballast.plan, ballast.pack
    refused(lambda: plan([1.5], 2), "lengths", "whole numbers")
    refused(lambda: plan([[1]], 2), "lengths has 2 dimensions")
    refused(lambda: plan(None, 2), "lengths is None")
    refused(lambda: plan([2**64], 2), "63 bits")
    refused(lambda: plan(["1"], 2), "whole numbers")
    refused(lambda: plan([1], 2**70), "bags")
    refused(lambda: plan([1], None), "bags is None")
    refused(lambda: plan([1, 2], 2, cost=[1]), "cost has 1 entries for 2 samples")
    refused(lambda: plan([1, 2], 2, starting_loads=[1]), "starting_loads has 1 entries for 2 bags")
    refused(lambda: plan([1], "g1n2", starting_loads=[1]), "for 2 bags")
    refused(lambda: plan([1], "g1n2", gpus=4, starting_loads=[1]), "for 4 bags")
    refused(lambda: plan([1], 2, speeds=[1]), "speeds has 1")
    refused(lambda: plan([1], 2, home=[-1]), "home is -1")
    refused(lambda: plan([1], 2, home=[2**32]), "home is 4294967296")
    refused(lambda: plan([1], 2, fits=[[1, 0]]), "True and False")
    refused(lambda: plan([1], 2, fits=[[True]]), "[1 x 1]", "[1 x 2]")
    refused(lambda: plan([1], 2, policy="ref\0ine"), "character 0")
    refused(lambda: plan([1], 2, also=[{"most": [3]}]), "for 2 bags")
    refused(lambda: pack([1], 5, also=[{"most": [3]}]), "also.most")
    refused(lambda: ballast.order([[1, 2], [3]]), "forward")
    refused(lambda: ballast.grid([5], 1).microbatch(None, 0), "rank is None")


def sampler():
    data = [5] * 10 + [9] * 11
    first = ballast.BalancedBatchSampler(data, 8, rank=0, ranks=2, most_per_gpu=30)
    trained = [at for rank in range(2) for cell in ballast.BalancedBatchSampler(
        data, 8, rank=rank, ranks=2, most_per_gpu=30).cells(0) for at in cell.indices]
    for _, cell in first.over(first):
        if cell.is_last:
            break
    rest = []
    for rank in range(3):
        more = ballast.BalancedBatchSampler(data, 8, rank=rank, ranks=3, most_per_gpu=30)
        more.load_state_dict(first.state_dict())
        more.set_epoch(more.epoch)
        more = pickle.loads(pickle.dumps(more))
        rest += [at for _, cell in more.over(more) if cell.weight for at in cell.indices]
    assert sorted(trained + rest) == list(range(21))


def schedules_and_others():
    forward = [[9, 5, 5, 5], [1, 5, 5, 5], [7, 5, 5, 5], [2, 5, 5, 5]]
    order = ballast.order(forward, forward, weights=forward, schedule="planned")
    assert [line.split(",")[0] for line in order.csv.splitlines()][0].startswith("0F")
    assert sorted(order.tasks[0]) == sorted((0, passes, at) for passes in "FBW" for at in range(4))
    assert [sum(stage) for stage in ballast.cut_chain([3, 9, 2, 7], 2).stages] == [1, 5]
    assert ballast.place_experts([100, 60, 30, 10], [3, 3]).makespan == 100
    assert sorted(ballast.plan_slots([3000, 20, 500], 4, cost="tokens").owner) is not None
    split = ballast.split_rows([70, 30], 2, block=1)
    assert sorted(itertools.chain(*split.rows)) == list(range(100))
    assert ballast.shard([3000, 20], 4).owner.size == 2
    assert len(ballast.pad_grid([3, 4, 5], cost={"source": 1}, ranks=2)) == 2
    assert len(ballast.pad_to_cap([3, 4, 5], of={"source": 1}, most_per_gpu=10)) == 2
    assert ballast.pack([5, 6, 7], 10, least_load=8).left.tolist() == [1, 2]
    assert ballast.loss_weights([[2, 2], [1, 2], [2, 0], [2, 2]])[1] == [4 / 13, 8 / 13]


def few_samples_on_many_ranks():
    cells = [cell for rank in range(64) for cell in ballast.BalancedBatchSampler(
        [7, 9], 2, rank=rank, ranks=64).cells(0)]
    assert sorted(at for cell in cells if cell.weight for at in cell.indices) == [0, 1]
    assert len(cells) == 64 and abs(sum(cell.weight for cell in cells) - 64) < 1e-9
    kinds = [at % 5 for at in range(16)]
    cells = [cell for rank in range(4) for cell in ballast.BalancedBatchSampler(
        [9] * 16, 16, rank=rank, ranks=4, kinds=kinds).cells(0)]
    assert sorted(at for cell in cells if cell.weight for at in cell.indices) == list(range(16))


def forks():
    child = os.fork()
    if child == 0:
        os._exit(0 if ballast.plan(LENGTHS, 4).digest == ballast.plan(LENGTHS, 4).digest else 1)
    assert os.waitpid(child, 0)[1] == 0


def lists_are_quick():
    """In and out, beside what C++ takes: 100 us on a free core, of which machines of tests have few.
    """
    lengths = [(at * 7919) % 4000 + 1 for at in range(1024)]
    added = []
    for _ in range(30):
        begin = time.perf_counter()
        plan = ballast.grid(lengths, 64, most_per_gpu=16384)
        plan.owner.tolist()
        added.append(time.perf_counter() - begin - plan.seconds)
    print(f"lists of 1,024 in and out add {1e6 * min(added):.0f} us")
    assert min(added) < 400e-6


if __name__ == "__main__":
    assert importlib.util.find_spec("numpy") is None, "NumPy is there"
    assert ballast.__version__.split("+")[0].count(".") == 2
    for check in (plans, refusals, sampler, schedules_and_others, few_samples_on_many_ranks, forks,
                  lists_are_quick):
        check()
    own, more = start_of("pass"), start_of("import ballast")
    print(f"Python starts in {own:.0f} ms of CPU time, and with ballast in {more:.0f} ms")
    assert more - own < max(30, 2 * own)
