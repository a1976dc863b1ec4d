package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShort runs planekit's side of the program for a moment: no request of another client fails.
// Latencies are judged only on an idle machine.
func TestShort(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fairness")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "--greedy", "50", "--duration", "2s", "--sides", "planekit")
	run.Stderr = os.Stderr
	out, err := run.Output()
	if late := (*exec.ExitError)(nil); err != nil && !errors.As(err, &late) {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	for _, want := range []string{"| planekit, alone | node leases |", "| planekit, beside the greedy | another tenant |", " and 0 failed; the server took "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(string(out)) {
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.HasPrefix(line, "| planekit") && strings.TrimSpace(cells[4]) != "0" {
			t.Errorf("some failed: %s", line)
		}
	}
}

// A late 99th percentile and one failed request each miss the bar.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		late, failed int
		missed       bool
	}{{0, 0, false}, {1, 0, false}, {3, 0, true}, {0, 1, true}} {
		r := &report{beside: make([]latencies, 1)}
		for i := range 200 {
			took := bar / 2
			if i < test.late {
				took = 2 * bar
			}
			r.beside[0].add(took, i >= test.failed)
		}
		if err := r.judge(); (err != nil) != test.missed {
			t.Errorf("judge of %+v: %v, want an error: %v", test, err, test.missed)
		}
	}
}
