"""Health check of a container by gRPC's standard health service. `healthy.py HOST:PORT`; exit code 0 means SERVING."""

import sys

import grpc

SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}: so small that no protobuf need be imported
LIMIT_S = 2.0


def main(target: str) -> int:
    """Ask once."""
    with grpc.insecure_channel(target) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            return 0 if check(b"", timeout=LIMIT_S) == SERVING else 1
        except grpc.RpcError as error:
            print(error.code().name, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
