"""Two Ray actors over gloo. One does not come to the collective; the controller notices, and gets the other one back.

pip install ray torch; python train.py
"""

import tempfile
import time

try:
    import ray
except ImportError:
    raise SystemExit("this example needs Ray: pip install ray") from None

import resurge.ray


@ray.remote(num_cpus=0)
class Trainer(resurge.ray.Guarded):
    """One rank."""

    def __init__(self, rank: int, store: str) -> None:
        self.rank = rank
        self.store = store
        self.gloo = None

    async def open(self) -> None:
        """Make the group, together with the other actor."""
        await self.off_loop(self._open, phase="open")

    def _open(self) -> None:
        import torch.distributed as dist

        from resurge.guards.torch_groups import open_gloo

        def make() -> None:
            dist.init_process_group("gloo", init_method=f"file://{self.store}", rank=self.rank, world_size=2)

        self.gloo = open_gloo(make)

    async def reduce(self) -> float:
        """A collective: off the loop, under a guard that the controller can make use of."""
        return await self.off_loop(self._reduce, groups=self.gloo, phase="step", serial=self.gloo)

    def _reduce(self) -> float:
        import torch
        import torch.distributed as dist

        value = torch.ones(1) * (self.rank + 1)
        self.gloo.run(lambda group: dist.all_reduce(value, group=group))
        return value.item()


def main() -> None:
    """The controller."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        trainers = [Trainer.remote(rank, f"{folder}/store") for rank in range(2)]
        ray.get([trainer.open.remote() for trainer in trainers])
        print("together:", ray.get([trainer.reduce.remote() for trainer in trainers]))

        alone = trainers[0].reduce.remote()  # the other one does not come
        pong = ray.get(trainers[0].ping.remote(), timeout=30)
        while not pong.calls or pong.calls[0].for_s < 0.5:
            time.sleep(0.05)
            pong = ray.get(trainers[0].ping.remote(), timeout=30)
        print(f"rank 0 answers, and has been in {pong.calls[0].phase!r} for {pong.calls[0].for_s:.1f} s")
        print("guards aborted:", ray.get(trainers[0].abort.remote("rank 1 did not come")))
        try:
            ray.get(alone, timeout=30)
        except Exception as error:  # Ray hands on an error of the actor's inside one of its own
            print("rank 0 is free again:", resurge.is_aborted(error))
    ray.shutdown()


if __name__ == "__main__":
    main()
