"""A process without a launcher, as an actor or a notebook: asks how the job stands, and may ask for its end.

pip install 'resurge[grpc]'
python ask.py --endpoint control:29400 --job train
python ask.py --endpoint control:29400 --job train --stop "the reward has collapsed"
"""

import argparse

from resurge.direct import CallFailed, Services, Where


def main():
    """Ask."""
    given = argparse.ArgumentParser()
    given.add_argument("--endpoint", required=True)
    given.add_argument("--job", required=True)
    given.add_argument("--node", default="", help="node of the job that this process works on")
    given.add_argument("--stop", default="")
    told = given.parse_args()
    with Services(Where(told.endpoint, told.job, node_id=told.node)) as services:
        try:
            job = services.job()
        except CallFailed as failed:
            raise SystemExit(f"the job cannot be asked about: {failed}") from None
        print(f"{job.phase}, generation {job.generation}, {job.restarts_spent} restarts: {job.sentence}")
        if told.stop:
            answer = services.stop_restarting(told.stop)
            print(f"{'done' if answer.carried_out else 'not done'}: {answer.sentence}")


if __name__ == "__main__":
    main()
