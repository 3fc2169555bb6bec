// Tells a difference between two algorithms from luck: runs are paired by seed, and the test sees one difference per
// pair.
//
//   PairedTest test;
//   paired_test(&test, differences, 10);
//   if (test.low > 0) ...                      // better, and not by luck
//
// The interval is Student's ("The probable error of a mean", Biometrika 1908): it takes differences as drawn from one
// normal distribution. The sign test does not.
#ifndef SOUNDER_APP_LOOK_PAIRED_TEST_H
#define SOUNDER_APP_LOOK_PAIRED_TEST_H

#include <stddef.h>

enum {
    PAIRED_TEST_LEAST = 3,   // fewer pairs: no test; the interval of two is 13 standard errors wide on each side
    PAIRED_TEST_MOST = 10000 // more pairs than anyone trains
};

typedef struct PairedTest {
    double mean, deviation; // of the differences; the deviation of a sample (n - 1)
    double low, high;       // the interval that holds the true mean in 95% of cases
    double sign;            // two-sided p of the sign test; equal pairs are left out, 1 if all are equal
    size_t more;            // pairs to add until an effect of this size is found in 80% of cases, if `low` to `high`
                            // holds 0; SIZE_MAX: more than PAIRED_TEST_MOST, 0: it is found
} PairedTest;

// differences: (count), finite; count from PAIRED_TEST_LEAST to PAIRED_TEST_MOST.
void paired_test(PairedTest *test, const double *differences, size_t count);

// Returns the t that a variable of Student's distribution stays below with this probability (0.5 to 0.9999), for
// 1 degree of freedom or more.
double student_quantile(double probability, size_t freedom);

#endif
