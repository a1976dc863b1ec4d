package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/plane/stack"
)

// TestWatchShutdown: without logind the cluster says once that the fields for a shutdown have no effect, and goes
// on. Without these fields it does not ask.
func TestWatchShutdown(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	for fields, want := range map[string]bool{"maxPods: 3": false, "shutdownGracePeriod: 30s": true} {
		o, err := parse("--kubelet-config", kubeletFile(t, fields))
		if err != nil {
			t.Fatal(err)
		}
		lines := make(chan string, 9)
		c := &cluster{options: o, log: funcr.New(func(_, line string) { lines <- line }, funcr.Options{})}
		s := stack.New()
		if err := c.watchShutdown(t.Context(), nil, s); err != nil {
			t.Fatal(err)
		}
		if want {
			if line := <-lines; !strings.Contains(line, "pods are not ended before the machine shuts down: logind is not available") {
				t.Error(line)
			}
		}
		if err := s.Stop(); err != nil {
			t.Errorf("Stop() with %q: %v", fields, err)
		}
		if len(lines) > 0 {
			t.Errorf("watchShutdown with %q logs %q, want no such line", fields, <-lines)
		}
	}
}
