package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule/simulate"
)

var update = flag.Bool("update", false, "write trace.csv")

// TestTrace checks that trace.csv is the trace that the generator makes.
func TestTrace(t *testing.T) {
	var want bytes.Buffer
	want.WriteString("# simulate.Generate(simulate.Shape{Pods: 400, Seed: 1}), with the shape of the public trace of Azure of 2017:\n" +
		"# https://github.com/Azure/AzurePublicDataset\n")
	if err := simulate.WriteCSV(&want, simulate.Generate(simulate.Shape{Pods: 400, Seed: 1})); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("trace.csv", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(trace, want.Bytes()) {
		t.Error("trace.csv is not what the generator makes: run this test with -update")
	}
}

// TestSmall checks that main.go is shorter than 80 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 80 {
		t.Errorf("main.go has %d lines", lines)
	}
}

// TestRun compares two policies on the trace of the program, twice with the same result.
func TestRun(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "plot.svg")
	var outputs []string
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-plot", plot, "-preempt"}, &out); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(plot)
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, out.String()+string(svg))
	}
	if outputs[0] != outputs[1] || !strings.Contains(outputs[0], "least") || !strings.Contains(outputs[0], "nodes in use, mean") {
		t.Errorf("run(-plot -preempt) = %s\nand then %s\nwant the same twice, with %q and %q",
			outputs[0], outputs[1], "least", "nodes in use, mean")
	}
}

// TestCluster simulates the pods of a cluster alone, and with those of a trace.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cluster := write("cluster.json", `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db"},"spec":{"nodeName":"a","containers":[{"name":"db","resources":{"requests":{"cpu":"3"}}}]}}]}`)
	more := write("more.csv", "arrival,cpu\n1,1\n2,1\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-cluster", cluster}, "pods never placed        0\n"},
		{[]string{"-cluster", cluster, "-trace", more}, "default: 1 pods: 0/1 nodes are available: 1 Insufficient cpu."},
	} {
		var out bytes.Buffer
		args := append(test.args, "-policies", "default", "-plot", filepath.Join(dir, "plot.svg"))
		if err := run(t.Context(), args, &out); err != nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("run(%q) = %v with the output %s\nwant nil and %q in the output", args, err, out.String(), test.want)
		}
	}
	for _, args := range [][]string{{"-policies", "best"}, {"-trace", filepath.Join(dir, "none")}, {"-cluster", filepath.Join(dir, "none")}, {"-x"}} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
