package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// flat is the maximum growth of a measure from the second to the last quarter of the steady stage,
// as a part of the former. A growth below slack is ignored.
var (
	flat  = 0.10
	slack = map[measure]float64{resident: 8, live: 4, goroutines: 30, files: 5, disk: 16, database: 8}
)

// caps are the maxima of measures that grow in steps up to a known size and are not judged by their
// growth. etcd keeps the last 5 segments of its log, and package embedded prepares two more; a
// segment is 64 MB, and the last batch of writes may exceed it. etcd removes segments every 30
// seconds, so there may be one more for that time, which a median does not show.
var caps = map[measure]float64{walog: 7 * (64e6/mib + 1)}

// back is the maximum ratio of resident memory at the end to the idle one.
const back = 1.5

// judge prints the measures and returns an error if one was not flat or exceeded its cap, or if
// memory did not return. If the run was too short to be judged, it only prints.
func (s *samples) judge(out io.Writer, settled bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stages := map[stage][]sample{}
	for _, one := range s.all {
		stages[one.stage] = append(stages[one.stage], one)
	}
	steadily := stages[steady]
	if len(stages[idle]) == 0 || len(steadily) < 4 || len(stages[cool]) == 0 {
		return errors.New("a stage has no samples")
	}
	quarter := len(steadily) / 4
	second, last := steadily[quarter:2*quarter], steadily[len(steadily)-quarter:]
	end := stages[cool][len(stages[cool])*3/4:]
	fmt.Fprintln(out, "\nMedians:\n\n| | idle | steady, second quarter | last quarter | | after the objects are gone | to idle |\n|---|---|---|---|---|---|---|")
	var failed []error
	for _, m := range measures {
		before, second, last, after := median(stages[idle], m), median(second, m), median(last, m), median(end, m)
		growth := last/second - 1
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f | %+.1f %% | %.1f | %.2f |\n", m, before, second, last, growth*100, after, after/before)
		if most, capped := caps[m]; capped {
			if last > most {
				failed = append(failed, fmt.Errorf("%s exceeds its cap of %.0f: %.1f in the last quarter", m, most, last))
			}
		} else if growth > flat && last-second > slack[m] {
			failed = append(failed, fmt.Errorf("%s is not flat: %.1f in the second quarter, %.1f in the last", m, second, last))
		}
		if m == resident && !(after <= back*before) {
			failed = append(failed, fmt.Errorf("%s does not come back: %.1f idle, %.1f after", m, before, after))
		}
	}
	for m, most := range caps {
		fmt.Fprintf(out, "\n%s may come to %.0f, whatever it was before.\n", m, most)
	}
	if !settled {
		fmt.Fprintln(out, "\nThe run was too short to be judged.")
		return nil
	}
	return errors.Join(failed...)
}

// median returns the median of the samples that have the measure, or NaN if there are none.
func median(of []sample, m measure) float64 {
	var values []float64
	for _, one := range of {
		if v, ok := one.values[m]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}
