# SPDX-License-Identifier: Apache-2.0
"""Runs hosts' own tests on the adapters, where a checkout is at hand.

    python3 run_host_tests.py slime=CHECKOUT verl=CHECKOUT automodel=CHECKOUT megatron=CHECKOUT

It needs pytest, and PyTorch for all but slime. Megatron-LM's own tests need GPUs: in their place
are ours, on its classes. Nothing is written into a checkout. Of a host's packages that are missing,
stand-ins are taken. Tests that assert properties must pass; those that pin
the plan of the host's own method are listed, with both plans and their loads.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable, Iterator, NamedTuple
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))


class Host(NamedTuple):
    tests: list[str]
    replaced: list[tuple[str, str, str, str]]  # module and name of the host, of the adapter
    pinned: list[str]  # tests of the host's own choice
    missing: list[str] = []  # packages that may be stand-ins, and modules of the host that are
    bare: list[str] = []  # packages of the host whose __init__ is not run
    without: list[str] = []  # tests that need GPUs


HOSTS = {
    "slime": Host(
        ["tests/test_dp_schedule.py"],
        [("slime.utils.dp_schedule", "build_dp_schedule", "slime_schedule", "build_dp_schedule")],
        ["test_balance_data_distributes_by_flops"]),
    "verl": Host(
        ["tests/utils/test_seqlen_balancing.py",
         "tests/utils/test_prepare_micro_batches_with_group_size.py"],
        [("verl.utils.seqlen_balancing", name, "verl_batches", name)
         for name in ("get_seqlen_balanced_partitions", "rearrange_micro_batches")], [],
        ["ray", "tensordict", "transformers", "omegaconf", "hydra", "pandas", "codetiming"],
        ["verl.utils", "verl.utils.dataset", "verl.workers", "verl.workers.engine"],
        ["test_seqlen_balancing_distributed_params"]),
    "automodel": Host(
        ["tests/unit_tests/datasets/llm/test_length_grouped_sampler.py"],
        [("nemo_automodel.components.datasets.llm.length_grouped_sampler", "LengthGroupedSampler",
          "automodel_sampler", "LevelSampler")], [], [],
        ["nemo_automodel", "nemo_automodel.components", "nemo_automodel.components.datasets",
         "nemo_automodel.components.datasets.llm"]),
    "megatron": Host(
        [os.path.join(HERE, "..", "..", "tests", "hosts", "on_megatron.py")], [], [],
        ["transformer_engine", "transformer_engine_torch", "megatron.core.parallel_state",
         "megatron.core._rank_utils", "megatron.core.packed_seq_params",
         "megatron.core.process_groups_config", "megatron.core.rerun_state_machine"],
        ["megatron", "megatron.core", "megatron.core.datasets", "megatron.core.pipeline_parallel",
         "megatron.core.transformer"]),
}
WRAPPED: dict[str, Callable[..., Any]] = {}
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []


class StandIn(ModuleType):
    """Has an empty class for every name of a class, and a mock for all others."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {}) if name[0].isupper() else mock.MagicMock(name=name)
        setattr(self, name, made)
        return made


class Packages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins of missing packages, and packages of hosts without their __init__."""

    def __init__(self, host: Host, checkout: str) -> None:
        self.bare = {name: os.path.join(checkout, *name.split(".")) for name in host.bare}
        self.missing = tuple(name for name in host.missing
                             if "." in name or importlib.util.find_spec(name) is None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in self.bare or f"{name}.".startswith(tuple(f"{own}." for own in self.missing)):
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        if spec.name in self.bare:
            made = ModuleType(spec.name)
            made.__path__ = [self.bare[spec.name]]
            return made
        made = StandIn(spec.name)
        made.__path__, made.__version__ = [], "99.0"
        if spec.name == "tensordict":
            made.TensorDict = tensor_dict()
        if spec.name == "tensordict.tensorclass":
            made.NonTensorData = type("NonTensorData", (), {
                "shape": (), "__init__": lambda self, data: setattr(self, "data", data)})
            made.NonTensorStack = type("NonTensorStack", (), {})
        return made

    def exec_module(self, module: ModuleType) -> None:
        pass


def tensor_dict() -> type:
    """As much of tensordict.TensorDict as batches of verl's tests need."""
    import torch

    class TensorDict(Mapping[str, Any]):
        def __init__(self, source: Any = None, batch_size: Any = None, **_: Any) -> None:
            self.source = dict(source or {})
            self.batch_size = torch.Size([batch_size] if isinstance(batch_size, int)
                                         else batch_size or [])

        def __getitem__(self, at: Any) -> Any:
            if isinstance(at, str):
                own = self.source[at]
                return own if isinstance(own, torch.Tensor) else getattr(own, "data", own)
            rows = {name: own[at] if isinstance(own, torch.Tensor) else own
                    for name, own in self.source.items()}
            return TensorDict(rows, next(iter(rows.values())).shape[:1])

        def __setitem__(self, name: str, value: Any) -> None:
            self.source[name] = value

        def __iter__(self) -> Iterator[str]:
            return iter(self.source)

        def __len__(self) -> int:
            return self.batch_size[0] if self.batch_size else 0

        def items(self) -> Any:  # values that are no tensors in their wrappers
            return self.source.items()

        def __bool__(self) -> bool:
            return True

        def contiguous(self) -> Any:
            return self

        def consolidate(self) -> Any:
            return self

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (),
                               named: Any = None) -> Any:
            rows = args[0]
            made = {name: function([row[name] for row in rows], **(named or {}))
                    for name in rows[0]}
            return cls(made, [sum(len(row) for row in rows)])

    return TensorDict


def replace(host: Host) -> None:
    for module, name, adapter, own in host.replaced:
        target = importlib.import_module(module)
        WRAPPED[name] = getattr(target, name)
        ours = getattr(importlib.import_module(adapter), own)

        def called(*args: Any, _name: str = name, _ours: Any = ours, **named: Any) -> Any:
            found = _ours(*args, **named)
            CALLS.append((_name, args, named, found))
            return found

        setattr(target, name, called if callable(ours) and not isinstance(ours, type) else ours)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "unit: a mark of slime")
    name, checkout = os.environ["BALLAST_HOST"].split("=", 1)
    sys.path[:0] = [checkout, HERE]
    sys.meta_path.insert(0, Packages(HOSTS[name], checkout))
    replace(HOSTS[name])


def pytest_runtest_setup(item: Any) -> None:
    CALLS.clear()


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call":
        print(f"\n@{report.outcome} {report.nodeid}")
        for name, args, named, found in CALLS if report.failed else ():
            print(f"@ {name} of ballast: {shown(name, args, found)}")
            print(f"@ {name} of the host: {shown(name, args, WRAPPED[name](*args, **named))}")


def shown(name: str, args: Any, found: Any) -> str:
    if name == "build_dp_schedule":
        from slime.utils.flops_utils import calculate_fwd_flops

        loads = [calculate_fwd_flops([args[2][at] for at in own], args[0]) for own in found[0]]
        return f"{found[0]}, FLOPs {loads}"
    return str(found)


def run(name: str, checkout: str) -> int:
    host = HOSTS[name]
    environment = {**os.environ, "BALLAST_HOST": f"{name}={os.path.abspath(checkout)}",
                   "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1"}
    tests = [os.path.join(os.path.abspath(checkout), test) for test in host.tests]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p",
             "run_host_tests", "--rootdir", folder, "-k",
             " and ".join(f"not {test}" for test in host.without), *tests],
            cwd=folder, env=environment, capture_output=True, text=True, check=False)
    told = [line[1:] for line in done.stdout.splitlines() if line.startswith("@")]
    passed = [line for line in told if line.startswith("passed")]
    failed = [line for line in told if line.startswith("failed")]
    wrong = [line for line in failed if line.rpartition("::")[2] not in host.pinned]
    print(f"{name}: {len(passed)} tests pass, {len(failed) - len(wrong)} pin the host's own plan, "
          f"{len(host.without)} need GPUs, {len(wrong)} fail")
    for line in told:
        if not line.startswith("passed"):
            print(f"    {line.strip()}")
    if wrong or not passed:
        print(done.stdout[-6000:], done.stderr[-3000:])
    return 1 if wrong or not passed else 0


if __name__ == "__main__":
    given = [argument.split("=", 1) for argument in sys.argv[1:]]
    if not given or any(len(each) != 2 or each[0] not in HOSTS for each in given):
        sys.exit(f"give checkouts, such as slime=../slime, of {', '.join(HOSTS)}")
    sys.exit(max([run(*each) for each in given]))
