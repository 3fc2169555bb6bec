// The real joules of this machine, from the counters that Linux shows of its processors (RAPL, /sys/class/powercap): of
// the packages and, where they are counted apart, of the memory. They count all programs.
#ifndef SOUNDER_APP_TRAIN_ENERGY_METER_H
#define SOUNDER_APP_TRAIN_ENERGY_METER_H

struct Run;

// Joules of the run's processes so far, without what a kill has thrown away. NaN: nothing is measured, or the record
// does not tell those of an earlier process.
double energy_joules(const struct Run *run);

#endif
