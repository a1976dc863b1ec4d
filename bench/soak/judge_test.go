package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// steadily returns samples of a run: idle, steady with a value that grows from first to last, and
// cool with another value.
func steadily(m measure, before, first, last, after float64) *samples {
	s := &samples{}
	add := func(of stage, n int, value func(i int) float64) {
		for i := range n {
			one := sample{at: time.Duration(len(s.all)) * time.Second, stage: of, life: 1, values: map[measure]float64{}}
			for _, each := range measures {
				one.values[each] = 100
			}
			one.values[m] = value(i)
			s.all = append(s.all, one)
		}
	}
	add(idle, 10, func(int) float64 { return before })
	add(steady, 100, func(i int) float64 { return first + (last-first)*float64(i)/99 })
	add(cool, 20, func(i int) float64 { return last + (after-last)*float64(min(i, 10))/10 })
	return s
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name    string
		samples *samples
		want    string // "" means no error
	}{
		{"flat", steadily(resident, 100, 200, 205, 149), ""},
		{"growing", steadily(resident, 100, 200, 300, 149), "resident MiB is not flat: "},
		{"not back", steadily(resident, 100, 200, 200, 151), "resident MiB does not come back: 100.0 idle, 151.0 after"},
		{"goroutines", steadily(goroutines, 100, 500, 700, 100), "goroutines is not flat"},
		{"files", steadily(files, 20, 20, 24, 20), ""}, // within slack
		{"disk", steadily(disk, 100, 100, 200, 100), "disk MiB is not flat"},
		{"log up to its cap", steadily(walog, 183, 300, 430, 430), ""},
		{"log beyond its cap", steadily(walog, 183, 430, 500, 430), "log MiB exceeds its cap of 434: "},
	} {
		err := test.samples.judge(io.Discard, true)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if err := test.samples.judge(io.Discard, false); err != nil {
			t.Errorf("%s: a short run is judged: %v", test.name, err)
		}
	}
	if err := (&samples{}).judge(io.Discard, true); err == nil {
		t.Error("nothing is flat")
	}
}

// TestRecord: an acknowledged value must be found; a value of a request without an answer may be
// found.
func TestRecord(t *testing.T) {
	for _, test := range []struct {
		acknowledged string
		maybe        []string
		found        string
		ok           bool
	}{
		{"a", nil, "a", true},
		{"a", nil, absent, false},
		{"a", nil, "b", false},
		{absent, nil, "a", false},
		{"a", []string{"b"}, "b", true},
		{"a", []string{"b"}, "a", true},
		{"a", []string{absent}, absent, true},
		{"a", []string{"b"}, absent, false},
	} {
		r := &record{space: &space{name: "s"}, name: "r", acknowledged: test.acknowledged, maybe: test.maybe}
		if err := r.found(test.found, "1"); (err == nil) != test.ok {
			t.Errorf("%+v: found(%q): %v, want an error: %v", test, test.found, err, !test.ok)
		} else if err == nil && (r.acknowledged != test.found || r.maybe != nil) {
			t.Errorf("%+v: not settled: %+v", test, r)
		}
	}
}

func TestTally(t *testing.T) {
	tally := newTally()
	tally.add("get", nil, false)
	tally.add("get", apierrors.NewTooManyRequests("later", 1), false)
	tally.add("get", errors.New("refused"), true)
	if err := tally.report(io.Discard); err != nil {
		t.Error(err)
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "a")
	tally.add("get", missing, false)
	if err := tally.report(io.Discard); !errors.Is(err, missing) {
		t.Errorf("report: %v, want the error %v", err, missing)
	}
	if got := fmt.Sprint(tally.sum()); got != "{1 1 1 1}" {
		t.Error(got)
	}
	for err, want := range map[error]bool{nil: true, missing: true, errors.New("reset"): false, apierrors.NewInternalError(errors.New("x")): false} {
		if answered(err) != want {
			t.Errorf("%v: answered %v", err, !want)
		}
	}
}
