"""The pure rules of rendezvous."""
