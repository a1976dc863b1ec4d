package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

// TestSoak runs all stages in half a minute: three kills, every operation, and the checks of
// acknowledged writes. It is too short to judge growth.
func TestSoak(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	module, err := peer.Module(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := peer.Build(ctx, dir, filepath.Dir(module), "./examples/cluster"); err != nil {
		t.Fatal(err)
	}
	o := options{
		duration: 25 * time.Second, sample: 100 * time.Millisecond, rate: 100, kills: 3, runtime: "fake",
		program: filepath.Join(dir, "cluster"), out: filepath.Join(dir, "soak"), plot: filepath.Join(dir, "soak.svg"),
	}
	var out bytes.Buffer
	err = run(ctx, o, &out)
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| create | ", "| delete | ", "| namespace | ", "| watch | ", "| resident MiB | ", "too short to be judged"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for name, want := range map[string]string{"soak.svg": "polyline", "soak/samples.csv": "live heap MiB"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s has no %q: %v", name, want, err)
		}
	}
}
