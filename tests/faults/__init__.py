"""What goes wrong around doctor: disks, clocks, kills, tools that hang, files that rot."""
