"""The server's side of I2P streaming: reliable streams to a destination, out of I2CP's single messages."""
