package cni

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// WatcherConfig configures a [Watcher]. The zero value is useful.
type WatcherConfig struct {
	// Dir is the directory of configurations. Empty means /etc/cni/net.d. It need not exist.
	Dir string
	// Period is the time between two readings. Zero means 1 s.
	Period time.Duration
	// OnChange is called after each change of what List returns, by the goroutine of Run; may be nil.
	OnChange func(*List, error)
	// Log receives changes at V(0). The zero Logger discards them.
	Log logr.Logger
}

// Watcher keeps the network of a configuration directory up to date. The network is that of
// [LoadDir]. A Watcher is safe for concurrent use.
//
// It reads the directory again and again instead of asking the kernel for its changes: a reading of
// one small file costs less than 0.1 ms, and needs no inotify instance, of which a user has 128 by
// default. It also notices when the directory is created, replaced or mounted over.
type Watcher struct {
	config WatcherConfig

	mu   sync.Mutex
	list *List
	err  error
}

// NewWatcher returns a Watcher. It does not touch the disk.
func NewWatcher(c WatcherConfig) (*Watcher, error) {
	if c.Period < 0 {
		return nil, errors.New("cni: negative period")
	}
	if c.Dir == "" {
		c.Dir = "/etc/cni/net.d"
	}
	if c.Period == 0 {
		c.Period = time.Second
	}
	return &Watcher{config: c, err: fmt.Errorf("%s: not read yet: %w", c.Dir, ErrNoConfig)}, nil
}

// List returns the last valid network, and the error of the last reading. With an error, the
// directory has no valid network now: do not attach containers. The list, if it is not nil, is still
// the one to detach containers with.
func (w *Watcher) List() (*List, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list, w.err
}

// Run reads the directory at once and then in each period. It returns nil when ctx is done.
func (w *Watcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.config.Period)
	defer ticker.Stop()
	for {
		w.read()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *Watcher) read() {
	list, err := LoadDir(w.config.Dir)
	if !w.replace(list, err) {
		return
	}
	if err != nil {
		w.config.Log.Info("network configuration is not usable", "dir", w.config.Dir, "reason", err.Error())
	} else {
		w.config.Log.Info("network configuration loaded", "dir", w.config.Dir, "network", list.Name, "cniVersion", list.Version)
	}
	if w.config.OnChange != nil {
		w.config.OnChange(w.List())
	}
}

// replace reports whether anything changed.
func (w *Watcher) replace(list *List, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := err != nil && w.err != nil && err.Error() == w.err.Error() ||
		err == nil && w.err == nil && reflect.DeepEqual(list, w.list)
	if err == nil {
		w.list = list
	}
	w.err = err
	return !same
}
