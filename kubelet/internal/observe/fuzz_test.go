package observe

import "testing"

func FuzzLogEnd(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00Z stdout F hello\n2026-01-01T00:00:00Z stderr P wor\n2026-01-01T00:00:00Z stderr F ld\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		if end := logEnd(log); len(end) > maxLogMessage {
			t.Errorf("%d bytes", len(end))
		}
	})
}
