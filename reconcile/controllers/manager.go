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

// An Entry is a controller in the table of a Manager.
type Entry struct {
	// Name is how it is chosen, Alias another way to say it; Alias may be empty.
	Name, Alias string
	// Start makes the controller, anew each time that it is to run. Whose identity
	// it writes under is for the maker of the table to say. Its Run must return when
	// its context ends, and not before.
	Start func() (Runner, error)
}

// ManagerConfig says what a Manager runs. Controllers must be set.
type ManagerConfig struct {
	Controllers []Entry
	// Choose says which of them run, as kube-controller-manager's --controllers does:
	// "*" is all, "name" that one, "-name" not that one. What is named first counts.
	// Nil is all.
	Choose []string
	Log    logr.Logger
}

// Manager runs controllers side by side.
//
// One that fails, panics or ends by itself does not end the others: it is logged,
// [Manager.Check] says so, and it is started anew, after a second, two, four and
// so on up to a minute; when it has run for a minute it counts as well. One that
// cannot be made ends the manager: waiting does not mend a table.
//
// To run behind a leader election, give Run to an elector as its work. It may be
// called again after it has returned, and every time makes new controllers, which
// know nothing of what was before.
type Manager struct {
	config ManagerConfig
	chosen []Entry

	mu sync.Mutex
	// failures are of controllers that wait or have not proved themselves since, by
	// name. Guarded by mu.
	failures map[string]error
}

// How long a failed controller waits at first and at most, and how long it must
// run to count as well.
const (
	minRestart = time.Second
	maxRestart = time.Minute
)

// NewManager checks config. It starts nothing.
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

// Names are those of the chosen controllers.
func (m *Manager) Names() []string {
	names := make([]string, len(m.chosen))
	for i, e := range m.chosen {
		names[i] = e.Name
	}
	return names
}

// Check returns what is wrong with controllers that failed and have not run well
// since, or nil. It is for health checks, and says nothing while Run does not run.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []error
	for _, name := range slices.Sorted(maps.Keys(m.failures)) {
		all = append(all, fmt.Errorf("%s: %w", name, m.failures[name]))
	}
	return errors.Join(all...)
}

// Run runs the chosen controllers until ctx is done and all have returned. The
// error is that of one that could not be made.
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

// keep runs a controller until ctx is done, again and again if need be.
func (m *Manager) keep(ctx context.Context, e Entry, runner Runner) error {
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

// runSafely turns a panic into an error. One in a goroutine that the controller
// started is out of reach.
func runSafely(ctx context.Context, r Runner) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.Run(ctx)
}
