"""What every request passes, whatever it is for: headers, forged requests, too many requests. Pure ASGI."""
