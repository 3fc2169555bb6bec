// The real joules of this machine, from the counters that Linux shows of its processors (RAPL, /sys/class/powercap): of
// the packages and, where they are counted apart, of the memory. They count all programs.
//
//   energy_meter_begin(&meter, why);          // false: there is none; why says so in a sentence
//   energy_meter_read(&meter);                // about once a second, for the counters begin again at 0 after minutes
//   energy_meter_read(&meter); ... meter.joules ...
//   energy_meter_end(&meter);
#ifndef SOUNDER_APP_TRAIN_ENERGY_METER_H
#define SOUNDER_APP_TRAIN_ENERGY_METER_H

#include <stdbool.h>
#include <stdint.h>

enum { ENERGY_MOST_COUNTERS = 32, ENERGY_WHY_BYTES = 256 };

typedef struct EnergyCounter {
    int fd;              // owned
    uint64_t last, wrap; // microjoules: when it was read last; where it begins again at 0; 0: unknown
} EnergyCounter;

typedef struct EnergyMeter {
    EnergyCounter counters[ENERGY_MOST_COUNTERS];
    int count;     // 0: there are none
    double joules; // since the meter began
    uint64_t read_nanoseconds;
} EnergyMeter;

// The folder is $SOUNDER_POWERCAP, for tests, or /sys/class/powercap. why (ENERGY_WHY_BYTES): with a remedy.
bool energy_meter_begin(EnergyMeter *meter, char *why);

void energy_meter_read(EnergyMeter *meter);
void energy_meter_end(EnergyMeter *meter);

#endif
