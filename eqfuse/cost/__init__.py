"""What a kernel costs on a device, in seconds: profiles, rooflines, measurements."""
