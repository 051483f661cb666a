"""An address that is taken is refused before anything is bound; a dead socket file is not in the way."""

import os
import socket

import pytest

from resurge_libs.hosting.listen import check_free
from resurge_libs.hosting.port_holder import holder_of
from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.endpoint import Endpoint


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} on 127.0.0.1 is in use"):
            check_free(Endpoint(host="127.0.0.1", port=port))
    check_free(Endpoint(host="127.0.0.1", port=port))
    check_free(Endpoint(host="127.0.0.1", port=0))


def test_an_answered_socket_names_its_process_and_stays(tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
        server.listen()
        with pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
            check_free(Endpoint(path=str(path)))
        assert path.exists()
    check_free(Endpoint(path=str(path)))
    assert not path.exists()


def test_a_file_that_is_no_socket_is_never_removed(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(UsageError, match="not a socket"):
        check_free(Endpoint(path=str(path)))
    assert path.read_text() == "data"


def test_a_missing_directory_of_a_socket_is_named(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        check_free(Endpoint(path=str(tmp_path / "none" / "s.sock")))


@pytest.mark.users_row(19)
def test_whoever_holds_a_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} on 127.0.0.1 is in use by process {os.getpid()} \(\S+\)"):
            check_free(Endpoint(host="127.0.0.1", port=port))
    assert holder_of(port) == ""


def test_a_port_whose_holder_cannot_be_seen_is_in_use_all_the_same(tmp_path):
    assert holder_of(1, proc=tmp_path) == ""
    (tmp_path / "net").mkdir()
    row = "   0: 0100007F:1D2E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address ...\n{row}\n")
    assert holder_of(0x1D2E, proc=tmp_path) == "", "no process of ours has this socket"
