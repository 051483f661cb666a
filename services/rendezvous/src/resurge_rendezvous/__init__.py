"""Rendezvous: decides WHO runs; owns all durable state of a job."""
