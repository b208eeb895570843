"""Tells systemd how a service is doing (sd_notify(3)); does nothing where it did not start us."""

import os
import socket


def notify(message: str) -> None:
    """Send `message`, such as ``READY=1``. A failure is no reason to end: systemd notices a service that says nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or address[0] not in "/@":
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(message.encode())
    except OSError:
        return
