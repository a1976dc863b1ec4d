package volumestats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestMeasure: the files of a walked volume are counted, and of another the whole file system.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", 64<<10)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := New(time.Minute)
	claim := &ClaimReference{Name: "data", Namespace: "shop"}
	stats := m.Of(t.Context(), "uid", []Volume{
		{Name: "walked", Path: dir, Walk: true}, {Name: "whole", Path: dir, Claim: claim}, {Name: "missing", Path: filepath.Join(dir, "none"), Walk: true},
	})
	if len(stats) != 2 {
		t.Fatalf("Of = %+v, want walked and whole", stats)
	}
	walked, whole := stats[0], stats[1]
	if walked.Name != "walked" || walked.Claim != nil || walked.UsedBytes < 3*64<<10 || walked.UsedBytes > 1<<20 || walked.InodesUsed != 4 {
		t.Errorf("walked is %+v, want no claim, %d to %d bytes and 4 inodes used", walked, 3*64<<10, 1<<20)
	}
	if whole.Claim != claim || whole.UsedBytes == 0 || whole.UsedBytes+whole.AvailableBytes > whole.CapacityBytes || whole.InodesUsed+whole.InodesFree != whole.Inodes {
		t.Errorf("whole is %+v, want the claim %+v, used bytes and available ones within the capacity, used and free inodes that are all",
			whole, claim)
	}
	for _, s := range stats {
		if s.CapacityBytes == 0 || s.Time.IsZero() {
			t.Errorf("%s is %+v, want a capacity and a time", s.Name, s)
		}
	}
}

// counting returns a meter whose measurements take a time and are counted.
func counting(period, takes time.Duration) (*Meter, *atomic.Int64) {
	n := new(atomic.Int64)
	m := New(period)
	m.measure = func(ctx context.Context, v Volume) (Stats, error) {
		stats := Stats{Name: v.Name, UsedBytes: uint64(n.Add(1))}
		select {
		case <-time.After(takes):
			return stats, nil
		case <-ctx.Done():
			return stats, ctx.Err()
		}
	}
	return m, n
}

// TestPeriod: an answer is used for the period, and longer if measuring takes long; nothing is measured
// without a question.
func TestPeriod(t *testing.T) {
	for _, test := range []struct{ takes, until time.Duration }{{0, time.Minute}, {time.Second, time.Minute}, {4 * time.Second, time.Minute}, {4500 * time.Millisecond, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			m, n := counting(time.Minute, test.takes)
			volumes := []Volume{{Name: "v", Path: "/v"}}
			m.Of(t.Context(), "uid", volumes)
			time.Sleep(test.until - time.Millisecond)
			if m.Of(t.Context(), "uid", volumes); n.Load() != 1 {
				t.Errorf("%v: measured %d times", test.takes, n.Load())
			}
			time.Sleep(time.Hour)
			if n.Load() != 1 {
				t.Errorf("%v: measured %d times although nobody has asked", test.takes, n.Load())
			}
			if got := m.Of(t.Context(), "uid", volumes); n.Load() != 2 || got[0].UsedBytes != 2 {
				t.Errorf("takes %v: measured %d times, Of = %+v; want twice, and 2 bytes used", test.takes, n.Load(), got)
			}
			// Another list of volumes is measured at once, and so is a pod that was forgotten.
			m.Of(t.Context(), "uid", []Volume{{Name: "v", Path: "/w"}})
			m.Forget("uid")
			if m.Of(t.Context(), "uid", []Volume{{Name: "v", Path: "/w"}}); n.Load() != 4 {
				t.Errorf("%v: measured %d times, want 4", test.takes, n.Load())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m, n := counting(time.Second, time.Second)
		volumes := []Volume{{Name: "v"}}
		m.Of(t.Context(), "uid", volumes)
		time.Sleep(9 * time.Second)
		if m.Of(t.Context(), "uid", volumes); n.Load() != 1 {
			t.Error("measured before ten times its duration were over")
		}
	})
}

// TestTogether: callers that ask at once wait for one measurement.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := counting(time.Minute, time.Second)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if got := m.Of(t.Context(), "uid", []Volume{{Name: "v"}}); len(got) != 1 {
					t.Errorf("Of = %+v, want one volume", got)
				}
			})
		}
		group.Wait()
		if n.Load() != 1 {
			t.Errorf("measured %d times", n.Load())
		}
	})
}

// TestHang: a measurement that does not end holds no caller for long, is not repeated, and leaves what was
// known.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := counting(time.Minute, 0)
		measured := m.measure
		var hang atomic.Pointer[chan struct{}]
		m.measure = func(ctx context.Context, v Volume) (Stats, error) {
			stats, err := measured(ctx, v)
			if release := hang.Load(); release != nil {
				<-*release // whatever ctx says
				return Stats{}, errors.New("stale file handle")
			}
			return stats, err
		}
		volumes := []Volume{{Name: "v"}}
		if got := m.Of(t.Context(), "uid", volumes); len(got) != 1 {
			t.Fatalf("Of = %+v, want one volume", got)
		}
		time.Sleep(2 * time.Minute)
		release := make(chan struct{})
		hang.Store(&release)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, want := range []time.Duration{time.Second, patience, patience, patience} {
			got := m.Of(ctx, "uid", volumes)
			if took := time.Since(begin); len(got) != 1 || took != want {
				t.Errorf("%+v after %v, want %v", got, took, want)
			}
			ctx = t.Context()
		}
		if n.Load() != 2 {
			t.Errorf("measured %d times", n.Load())
		}
		hang.Store(nil)
		close(release)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		if got := m.Of(t.Context(), "uid", volumes); len(got) != 1 || got[0].UsedBytes != 3 {
			t.Errorf("%+v afterwards", got)
		}
	})
}

// TestOff: without a period, and for a pod without volumes, there are no statistics.
func TestOff(t *testing.T) {
	m, n := counting(-1, 0)
	if got := m.Of(t.Context(), "uid", []Volume{{Name: "v"}}); got != nil || n.Load() != 0 {
		t.Errorf("Of with a negative period = %+v after %d measurements, want nil after none", got, n.Load())
	}
	m, _ = counting(time.Minute, 0)
	if got := m.Of(t.Context(), "uid", nil); got != nil || len(m.pods) != 0 {
		t.Errorf("Of without volumes = %+v, %d pods are kept; want nil and none", got, len(m.pods))
	}
}
