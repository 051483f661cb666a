"""gRPC set-up shared by all services: servers, channels, errors, deadlines, retries."""
