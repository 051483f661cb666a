"""Data loaders fork their workers while this process asks rendezvous over gRPC, from two of its threads."""

import sys
import threading

import torch

from resurge.direct import Services, Where

ROUNDS = 60


class Numbers(torch.utils.data.Dataset):
    """Small enough that a round is forks for the most part."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.tensor(index)


def main() -> None:
    """So many rounds; the last line says how many calls were answered beside them."""
    services, over, answered = Services(Where(sys.argv[1], sys.argv[2])), threading.Event(), [0]

    def ask() -> None:
        while not over.is_set():
            assert services.job(wait=60).phase == "running"
            answered[0] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    total = 0
    for _ in range(ROUNDS):
        assert services.job(wait=60).phase == "running"
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        total += sum(int(batch.sum()) for batch in loader)
    over.set()
    asking.join()
    assert total == ROUNDS * sum(range(16)), total
    print(f"{ROUNDS} rounds of forks, {ROUNDS + answered[0]} calls answered")


if __name__ == "__main__":
    main()
