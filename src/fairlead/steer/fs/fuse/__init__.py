"""The kernel's FUSE protocol, spoken directly: numbers and layouts, message bodies, the device, passthrough."""
