package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestReport runs the program in a short form. It checks no times.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	report(&out, "get", 1, 8000)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	rows := 0
	for _, r := range rowsNamed("get") {
		rows++
		if !strings.Contains(out.String(), "| "+r.name+" |") {
			t.Errorf("%q is not in the table", r.name)
		}
	}
	if rows < 4 || len(lines) != 2+rows {
		t.Errorf("%d rows:\n%s", rows, out.String())
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 7 {
			t.Errorf("a row of another width: %s", line)
		}
	}
}

// TestNoAllocations: planekit's queue allocates nothing in the rows that count allocations.
func TestNoAllocations(t *testing.T) {
	us := sides()[0]
	checked := 0
	for _, r := range rows() {
		if !r.count {
			continue
		}
		checked++
		if f := r.measure(func() queue { return us.open(r.metrics) }, 100_000); f.allocations >= 0.001 {
			t.Errorf("%s: %.4f allocations", r.name, f.allocations)
		}
	}
	if checked < 4 {
		t.Errorf("%d rows only count", checked)
	}
}
