package logind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/internal/wholefile"
)

// dropIn is the file that raises InhibitDelayMaxSec. It has the name of the Kubernetes kubelet's, so that a
// machine has only one.
const dropIn = "99-kubelet.conf"

// polls is how often logind is asked whether it has read its configuration.
const polls = 5

// raise makes logind wait for the lock as long as Config.Delay, if it does not already.
func (w *Watcher) raise(ctx context.Context, s *session) error {
	now, err := s.delay(ctx)
	if err != nil || now >= w.config.Delay {
		return err
	}
	if err := writeDropIn(w.config.DropIns, w.config.Delay); err != nil {
		return fmt.Errorf("raise InhibitDelayMaxSec of logind: %w", err)
	}
	if err := s.reload(ctx); err != nil {
		return err
	}
	pause := w.poll
	for range polls { // logind reads its configuration in its own time
		if now, err = s.delay(ctx); err != nil || now >= w.config.Delay {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause *= 2
	}
	return fmt.Errorf("InhibitDelayMaxSec of logind is still %v, less than the %v that pods may take to end", now, w.config.Delay)
}

// writeDropIn writes the file that sets InhibitDelayMaxSec. It replaces what is there, which it does not follow.
func writeDropIn(dir string, delay time.Duration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	seconds := int64((delay + time.Second - 1) / time.Second)
	text := fmt.Sprintf("# Written by the kubelet: pods may take this long to end before a shutdown.\n[Login]\nInhibitDelayMaxSec=%d\n", seconds)
	return wholefile.Write(filepath.Join(dir, dropIn), []byte(text), 0o644)
}
