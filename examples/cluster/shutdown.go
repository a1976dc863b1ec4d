package main

import (
	"context"
	"errors"
	"sync"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/logind"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// ender ends the pods of a node before its machine shuts down. A [kubelet.Kubelet] is one.
type ender interface {
	Shutdown(context.Context) error
	CancelShutdown()
}

// ends are the nodes of this machine.
type ends struct {
	mu  sync.Mutex
	all []ender
}

func (e *ends) add(one ender) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// shutdown ends the pods of all nodes at the same time, so that they share the delay.
func (e *ends) shutdown(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	errs := make([]error, len(e.all))
	var group sync.WaitGroup
	for i, one := range e.all {
		group.Go(func() { errs[i] = one.Shutdown(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (e *ends) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		one.CancelShutdown()
	}
}

// watchShutdown ends the pods of all nodes when this machine shuts down, if --kubelet-config gives them time for
// that. It is a [plane.Part].
func (c *cluster) watchShutdown(_ context.Context, _ *plane.Plane, s *stack.Stack) error {
	var config kubelet.Config
	c.options.configureKubelet(&config)
	if !config.Shutdown.Ends() {
		return nil
	}
	watcher, err := logind.New(logind.Config{
		Delay: config.Shutdown.Whole(), Shutdown: c.ends.shutdown, Canceled: c.ends.cancel, Log: c.log,
	})
	if err != nil {
		return err
	}
	s.Start("shutdown watcher", watcher.Watch)
	return nil
}
