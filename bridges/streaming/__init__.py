"""The server's side of I2P streaming: packets to streams and streams to TCP. I2CP carries the packets."""
