"""What may be spent: usage, tariff and prices, caps, and the reservation-based governor."""
