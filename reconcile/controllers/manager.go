package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// A Registration is a controller in the table of a Manager.
type Registration struct {
	// Name is the name of the controller for Choose. Alias is another such name, and may be empty.
	Name, Alias string
	// Start makes the controller each time it is to run, with the identity under which it writes.
	// Its Run must return when its context ends, and not before.
	Start func() (Runner, error)
}

// ManagerConfig configures a Manager. Controllers is required.
type ManagerConfig struct {
	Controllers []Registration
	// Choose selects the controllers that run, like kube-controller-manager's --controllers: "*"
	// selects all, "name" that one, and "-name" excludes that one. The first match decides. Nil
	// selects all.
	Choose []string
	Log    logr.Logger
}

// Manager runs controllers concurrently.
//
// A controller that fails, panics or returns early does not end the other controllers. The manager
// logs it, [Manager.Check] reports it, and the manager starts it again after a second, two, four
// and so on up to a minute; after a minute of running it counts as healthy. A controller that
// cannot be made ends the manager, because a retry would not help.
//
// To run behind a leader election, use Run as the work of an elector. Run may be called again after
// it has returned, and makes new controllers each time, without any memory of the earlier ones.
type Manager struct {
	config ManagerConfig
	chosen []Registration

	mu sync.Mutex
	// failures holds, by name, the failures of controllers that wait or are not healthy again yet.
	// Guarded by mu.
	failures map[string]error
}

// The first and the longest wait of a failed controller, and how long it must run to count as
// healthy.
const (
	minRestart = time.Second
	maxRestart = time.Minute
)

// NewManager returns a manager, or an error if config is invalid. It starts nothing.
func NewManager(config ManagerConfig) (*Manager, error) {
	names := map[string]string{} // by name and alias
	for _, e := range config.Controllers {
		if e.Name == "" || e.Start == nil {
			return nil, errors.New("controllers: ManagerConfig: a controller without Name or Start")
		}
		for _, name := range slices.Compact([]string{e.Name, e.Alias}) {
			if names[name] != "" {
				return nil, fmt.Errorf("controllers: ManagerConfig: %s twice", name)
			}
			if name != "" {
				names[name] = e.Name
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("controllers: ManagerConfig: no Controllers")
	}
	runs, all := map[string]bool{}, config.Choose == nil
	for _, choice := range config.Choose {
		if choice == "*" {
			all = true
			continue
		}
		given := strings.TrimPrefix(choice, "-")
		name, ok := names[given]
		if !ok {
			return nil, fmt.Errorf("%q is not in the list of known controllers", given)
		}
		if _, said := runs[name]; !said {
			runs[name] = given == choice
		}
	}
	m := &Manager{config: config, failures: map[string]error{}}
	for _, e := range config.Controllers {
		if run, said := runs[e.Name]; run || !said && all {
			m.chosen = append(m.chosen, e)
		}
	}
	return m, nil
}

// Names returns the names of the chosen controllers.
func (m *Manager) Names() []string {
	names := make([]string, len(m.chosen))
	for i, e := range m.chosen {
		names[i] = e.Name
	}
	return names
}

// Check returns the failures of controllers that are not healthy again yet, or nil. It is for
// health checks. It returns nil while Run is not running.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []error
	for _, name := range slices.Sorted(maps.Keys(m.failures)) {
		all = append(all, fmt.Errorf("%s: %w", name, m.failures[name]))
	}
	return errors.Join(all...)
}

// Run runs the chosen controllers until ctx is done and all have returned. It returns the error of
// a controller that could not be made.
func (m *Manager) Run(ctx context.Context) error {
	first := make([]Runner, len(m.chosen))
	for i, e := range m.chosen {
		var err error
		if first[i], err = e.Start(); err != nil {
			return fmt.Errorf("controllers: %s: %w", e.Name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer m.forget()
	var all sync.WaitGroup
	var once sync.Once
	var failure error
	for i, e := range m.chosen {
		all.Go(func() {
			if err := m.keep(ctx, e, first[i]); err != nil {
				once.Do(func() { failure = err })
				cancel(err)
			}
		})
	}
	all.Wait()
	return failure
}

// keep runs a controller until ctx is done, and starts it again after a failure.
func (m *Manager) keep(ctx context.Context, e Registration, runner Runner) error {
	wait := minRestart
	for {
		well := time.AfterFunc(maxRestart, func() { m.note(e.Name, nil) })
		begun := time.Now()
		err := runSafely(ctx, runner)
		if well.Stop(); ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		m.note(e.Name, err)
		if time.Since(begun) >= maxRestart {
			wait = minRestart
		}
		m.config.Log.Error(err, "controller failed", "controller", e.Name, "restartIn", wait.String())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		wait = min(2*wait, maxRestart)
		if runner, err = e.Start(); err != nil {
			return fmt.Errorf("controllers: %s: %w", e.Name, err)
		}
	}
}

func (m *Manager) note(name string, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure == nil {
		delete(m.failures, name)
	} else {
		m.failures[name] = failure
	}
}

func (m *Manager) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.failures)
}

// runSafely converts a panic to an error. It cannot catch a panic in a goroutine that the
// controller started.
func runSafely(ctx context.Context, r Runner) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.Run(ctx)
}
