"""What GitHub tells the service: deliveries, each checked and stored once."""
