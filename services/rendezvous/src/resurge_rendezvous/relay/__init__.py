"""The relay: stands between some hundred launchers and rendezvous, decides nothing, keeps nothing."""
