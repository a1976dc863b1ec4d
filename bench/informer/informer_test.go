package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestProgram runs the whole program with small numbers. It fails unless every side receives every
// change and finds every pod.
func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := run(io.MultiWriter(&out, t.Output()), short, "", 1); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 20 {
		t.Errorf("%d lines", lines)
	}
}

// TestBars checks the bars that do not depend on the machine: memory and allocations.
func TestBars(t *testing.T) {
	pods := thin(20_000)
	events, err := planekitEvents(pods, updates(pods, 50_000), 10)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%.3f allocations for each event and handler", events.allocs); events.allocs >= 0.6 {
		t.Errorf("%.3f allocations for each event and handler", events.allocs)
	}
	real := newPods(20_000)
	weigh := func(side func(*server) func() (func(string), func(), error)) float64 {
		s, err := newServer(real)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		run, err := over(s, side(s), false, "")
		if err != nil {
			t.Fatal(err)
		}
		return run.heap
	}
	ours := weigh(func(s *server) func() (func(string), func(), error) { return planekitOver(s, true, "") })
	theirs := weigh(func(s *server) func() (func(string), func(), error) { return stockOver(s, "") })
	if t.Logf("%s, client-go %s", megabytes(ours), megabytes(theirs)); ours > theirs/2 {
		t.Errorf("20,000 pods weigh %s, and %s in client-go", megabytes(ours), megabytes(theirs))
	}
	changed := slices.Clone(real)
	for i := 0; i < len(real); i += 1000 {
		p := *real[i]
		p.ResourceVersion = fmt.Sprint(1_500_000 + i)
		changed[i] = &p
	}
	s, err := newServer(real, changed)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	again, err := over(s, planekitOver(s, true, key(real[0])), true, changed[0].ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("listed again: peak %.2f", again.peak); again.peak > 1.15 {
		t.Errorf("the live heap rose to %.2f of what it was while the list came again", again.peak)
	}
}
