"""What a launcher says, taken apart for the batch, and a batch as the message to the root. Decides nothing."""

from __future__ import annotations

from typing import TypeAlias

from resurge_api.rendezvous.v1 import attach_pb2, relay_pb2
from resurge_rendezvous.relay.batch import UpBatch, Upward, Words

ProtoWords: TypeAlias = Words[attach_pb2.Hello, attach_pb2.Observed, attach_pb2.Beat]
ProtoUpward: TypeAlias = Upward[attach_pb2.Hello, attach_pb2.Observed, attach_pb2.Beat]
ProtoBatch: TypeAlias = UpBatch[attach_pb2.Hello, attach_pb2.Observed, attach_pb2.Beat]


def words_of(said: attach_pb2.Observed) -> ProtoWords:
    """The message's parts; the message itself becomes the state, and belongs to the words from now on."""
    hello: attach_pb2.Hello | None = None
    beat: attach_pb2.Beat | None = None
    if said.HasField("hello"):
        hello = attach_pb2.Hello()
        hello.CopyFrom(said.hello)
        said.ClearField("hello")
    if said.HasField("beat"):
        beat = attach_pb2.Beat()
        beat.CopyFrom(said.beat)
        said.ClearField("beat")
    return Words(said, hello, beat)


def message_of(upward: ProtoUpward) -> relay_pb2.AttachManyRequest:
    """The message to the root."""
    message = relay_pb2.AttachManyRequest()
    for link, words in upward.said:
        one = message.observed.add(link=link, observed=words.observed)
        if words.hello is not None:
            one.observed.hello.CopyFrom(words.hello)
    for link, beat in upward.beats:
        message.beats.add(link=link, beat=beat)
    for link, by_peer in upward.gone:
        message.gone.add(link=link, by_peer=by_peer)
    return message
