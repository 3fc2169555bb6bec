"""What tools/bench/run is made of: machine, commands (what yields a figure), rows, measure, report, picture."""
