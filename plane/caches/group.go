package caches

import (
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile/controllers"
)

// A Group is a set of caches that can be started. The zero Group is empty. It is for one goroutine.
type Group struct {
	starts []start
}

// start is a cache that can be started. Its name is the plural of its kind.
type start struct {
	name  string
	cache controllers.Runner
}

// Of returns the cache of what source has.
func Of[T client.Object](source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	config := informer.ConfigFor(source)
	config.Log = log
	return informer.New(config)
}

// Add returns the cache of what source has, as part of g. Its name is for logs and errors.
func Add[T client.Object](g *Group, name string, source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	cache, err := Of(source, log.WithName(name))
	if err == nil {
		g.starts = append(g.starts, start{name, cache})
	}
	return cache, err
}

// Start starts caches that have not been started: those named, or all others if none
// is named. They fill at the same time.
func (g *Group) Start(s *stack.Stack, only ...controllers.Runner) {
	g.starts = slices.DeleteFunc(g.starts, func(one start) bool {
		wanted := len(only) == 0 || slices.Contains(only, one.cache)
		if wanted {
			s.Start("informer of "+one.name, one.cache.Run)
		}
		return wanted
	})
}
