package main

import (
	"strings"
	"testing"
)

// TestStart checks the machine-independent bars at a tenth of the table's size: the collector reads
// no existing owner, and its memory for each object stays within the bar.
func TestStart(t *testing.T) {
	f, err := measure(ours, 18_000, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.reads != 20 {
		t.Errorf("%d reads of owners, want one for each of the 20 that are gone", f.reads)
	}
	if f.heap > heapBar {
		t.Errorf("%.0f bytes an object, want at most %d", f.heap, heapBar)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run(&out, 1800, 20, 1); err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		if !strings.Contains(out.String(), "| "+side.name+" |") {
			t.Errorf("no line of %s in\n%s", side.name, out.String())
		}
	}
}
