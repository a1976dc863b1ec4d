package nodes

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/logind"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/plane/stack"
)

// An Ender ends the pods of a node before its machine shuts down. A [kubelet.Kubelet] is one.
type Ender interface {
	Shutdown(context.Context) error
	CancelShutdown()
}

// Shutdowns ends the pods of all nodes of a process before its machine shuts down. The zero Shutdowns has no nodes.
// Its methods are safe for concurrent use.
//
//	var shutdowns nodes.Shutdowns
//	config.Started = func(k *kubelet.Kubelet) { shutdowns.Add(k) } // of each node
//	...
//	err := shutdowns.Watch(s, kubeletConfig.Shutdown, log)
type Shutdowns struct {
	mu  sync.Mutex
	all []Ender // guarded by mu
}

// Add adds a node.
func (d *Shutdowns) Add(one Ender) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, one)
}

// Watch starts a watcher on s that waits for the shutdown of this machine (package logind), if c gives pods time to end.
// Without logind it logs once that pods are not ended.
func (d *Shutdowns) Watch(s *stack.Stack, c shutdown.Config, log logr.Logger) error {
	if !c.Ends() {
		return nil
	}
	watcher, err := logind.New(logind.Config{Delay: c.Whole(), Shutdown: d.shutdown, Canceled: d.cancel, Log: log})
	if err != nil {
		return err
	}
	s.Start("shutdown watcher", watcher.Watch)
	return nil
}

// shutdown ends the pods of all nodes at the same time, so that they share the delay.
func (d *Shutdowns) shutdown(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := make([]error, len(d.all))
	var group sync.WaitGroup
	for i, one := range d.all {
		group.Go(func() { errs[i] = one.Shutdown(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (d *Shutdowns) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		one.CancelShutdown()
	}
}
