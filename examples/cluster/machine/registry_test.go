package machine_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/machine"
)

func open(t *testing.T, dir string) *machine.Registry {
	t.Helper()
	r, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLockExcludes(t *testing.T) {
	dir := t.TempDir()
	unlock, err := open(t, dir).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, dir).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second lock: %v", err)
	}
	unlock()
	unlock, err = open(t, dir).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestClaimIsHeld(t *testing.T) {
	dir := t.TempDir()
	first, second := open(t, dir), open(t, dir)
	record := machine.Record{DataDir: "/data", PodCIDR: netip.MustParsePrefix("10.244.0.0/16")}
	if err := first.Claim("0123abcd", record); err != nil {
		t.Fatal(err)
	}
	if err := first.Claim("0123abcd", record); err != nil {
		t.Errorf("claimed again by its owner: %v", err)
	}
	if err := second.Claim("0123abcd", record); err == nil || !strings.Contains(err.Error(), "another process runs cluster 0123abcd") {
		t.Errorf("claimed by another: %v", err)
	}
	if err := first.Release("0123abcd"); err != nil {
		t.Fatal(err)
	}
	if err := second.Claim("0123abcd", record); err != nil {
		t.Errorf("claimed after the release: %v", err)
	}
	if err := second.Release("0123abcd"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "clusters", "0123abcd")); !os.IsNotExist(err) {
		t.Errorf("the record after the release: %v", err)
	}
}
