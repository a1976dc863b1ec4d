package simulate_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule/simulate"
)

// TestWriteSVG checks that a plot is well-formed XML whatever the policies are called, has a line for each
// policy in each panel, and stays inside its frame.
func TestWriteSVG(t *testing.T) {
	w := randomWorkload(1, 60)
	first := run(t, w, simulate.Policy{Name: `</text><script>"&` + "\x00\xff"})
	second := run(t, w, simulate.Policy{Name: "b", Preempt: true})
	var plot bytes.Buffer
	if err := simulate.WriteSVG(&plot, first, second); err != nil {
		t.Fatal(err)
	}
	text := plot.String()
	d := xml.NewDecoder(&plot)
	paths := 0
	var names []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Token(): %v, want well-formed XML in\n%s", err, text)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		names = append(names, start.Name.Local)
		if start.Name.Local != "path" {
			continue
		}
		paths++
		for _, a := range start.Attr {
			if a.Name.Local == "d" && (!strings.HasPrefix(a.Value, "M64,") || strings.Contains(a.Value, "-")) {
				t.Errorf("a line is %s", a.Value)
			}
		}
	}
	if want := 2 * (len(first.Resources) + 2); paths != want || slices.Contains(names, "script") {
		t.Errorf("%d lines instead of %d, and elements %q", paths, want, names)
	}
	if !strings.Contains(text, "prefers-color-scheme: dark") {
		t.Error("it has no dark colors")
	}
	// Results of nothing are a plot, too.
	if err := simulate.WriteSVG(io.Discard, run(t, &simulate.Workload{}, simulate.Policy{})); err != nil {
		t.Error(err)
	}
	if err := simulate.WriteSVG(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestWriteFails checks that an error of the writer is returned.
func TestWriteFails(t *testing.T) {
	r := run(t, randomWorkload(1, 10), simulate.Policy{})
	for name, write := range map[string]func(io.Writer) error{
		"table": func(w io.Writer) error { return simulate.WriteTable(w, r) },
		"plot":  func(w io.Writer) error { return simulate.WriteSVG(w, r) },
		"trace": func(w io.Writer) error { return simulate.WriteCSV(w, randomWorkload(1, 10).Arrivals) },
	} {
		if err := write(full{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("writing the %s to what is full: %v, want ErrShortWrite", name, err)
		}
	}
}

// full is a writer that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
