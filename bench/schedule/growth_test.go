package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGrowth measures small worlds, and reads the data file and the plot again.
func TestGrowth(t *testing.T) {
	list := growths()
	for i := range list {
		list[i].sizes = []int{2, 4}
		list[i].make = func(size int) *world { return grown(10, 10, size) }
	}
	points, err := measureGrowths(t.Context(), list, options{peer: "both", limit: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "growth.csv")
	file, err := os.Create(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeGrowth(file, points); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readGrowth(strings.NewReader(string(text)))
	if err != nil || len(points) != 18 || !slices.Equal(points, again) {
		t.Errorf("%d points, read %d: %v", len(points), len(again), err)
	}
	if err := drawGrowth(data); err != nil {
		t.Fatal(err)
	}
	checkPlot(t, strings.TrimSuffix(data, ".csv")+".svg", 18)
	for _, bad := range []string{"a,b\n", strings.Join(growthHead, ",") + "\nnodes,x,planekit,1,1,1\n", strings.Join(growthHead, ",") + "\nnodes,1,planekit,1,0,1\n"} {
		if _, err := readGrowth(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestPlotIsOfData checks that the plot of the documents shows the data beside it.
func TestPlotIsOfData(t *testing.T) {
	const base = "../../docs/benchmarks/schedule-growth"
	file, err := os.Open(base + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	points, err := readGrowth(file)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := plotGrowth(&want, points); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(base + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("the plot is not of the data: run go run ./schedule --mode plot --out ../docs/benchmarks/schedule-growth.csv")
	}
}

// checkPlot checks that a plot is XML with a number of lines.
func checkPlot(t *testing.T, name string, lines int) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found, decoder := 0, xml.NewDecoder(file)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			found++
		}
	}
	if found != lines {
		t.Errorf("%d lines, want %d", found, lines)
	}
}
