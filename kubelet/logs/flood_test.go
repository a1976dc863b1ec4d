package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlood: what a container writes faster than it can be compressed is removed, and not compressed. The
// space that its log takes does not grow, and once it writes less, nothing is lost.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		r := newRotator(t, w)
		const flood = 20 << 10 // lines of 10 bytes
		limit := maxExcess * int64(r.config.MaxFiles) * r.config.MaxSize
		if flood*10 < limit {
			t.Fatalf("%d bytes are no flood, want more than %d", flood*10, limit)
		}
		r.before = func(change string) {
			if strings.HasPrefix(change, "create") {
				t.Errorf("Look() compresses a file of %d bytes: %s", flood*10, change)
			}
		}
		for range 5 {
			w.write(flood)
			time.Sleep(DefaultInterval)
			if err := r.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			var size int64
			for _, name := range w.files() {
				info, err := os.Stat(filepath.Join(filepath.Dir(w.path), name))
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			if size > flood*10+limit {
				t.Errorf("the log takes %d bytes, want at most %d", size, flood*10+limit)
			}
		}
		r.before = nil
		before := w.lines
		for range 2 {
			w.write(150)
			time.Sleep(DefaultInterval)
			if err := r.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.check(w.lines - before)
	})
}
