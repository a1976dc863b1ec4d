// Package eviction decides which pods a node must give up so that it does not run out of memory, disk
// space, inodes or processes.
//
//	thresholds, err := eviction.Parse(eviction.Settings{Hard: eviction.DefaultHard()})
//	core := eviction.New(eviction.Config{Thresholds: thresholds})
//	pressure := core.Observe(levels, time.Now())
//	if pressure.Threshold != nil {
//		ranked := eviction.Rank(pressure.Threshold.Signal, usages)
//	}
//
// It is the pure part of what Kubernetes calls the eviction manager: it reads nothing and evicts
// nothing. A caller observes the levels every ten seconds, reclaims what belongs to the node, then
// evicts the first pod of the ranking, and observes again.
//
// [Exceeded] reports a pod that uses more local storage than its own limits allow, whatever is left
// on the node.
package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DefaultTransition is how long a pressure is reported after it was last observed.
const DefaultTransition = 5 * time.Minute

// Config describes a Core.
type Config struct {
	// Thresholds is a result of [Parse].
	Thresholds []Threshold
	// Transition is how long a condition of the node stays after its pressure was last observed, so
	// that it does not flap; zero means DefaultTransition.
	Transition time.Duration
}

// Level holds the rest of something, and its whole.
type Level struct{ Available, Capacity int64 }

// Core remembers which thresholds are met. It is used by one goroutine.
type Core struct {
	config Config
	// since holds when a threshold was first met, without a break, by its index.
	since map[int]time.Time
	// acting holds the thresholds that are not resolved until Reclaim is left, too.
	acting map[int]bool
	// last holds when a condition was last observed.
	last map[corev1.NodeConditionType]time.Time
}

// New returns a Core that has observed nothing.
func New(c Config) *Core {
	if c.Transition == 0 {
		c.Transition = DefaultTransition
	}
	return &Core{config: c, since: map[int]time.Time{}, acting: map[int]bool{}, last: map[corev1.NodeConditionType]time.Time{}}
}

// Pressure is the result of an observation.
type Pressure struct {
	// Conditions are the conditions of the node that are true, in the order of their names.
	Conditions []corev1.NodeConditionType
	// Threshold is the first threshold for which something must be reclaimed now; nil if there is
	// none. Level is that of its signal.
	Threshold *Threshold
	Level     Level
}

// Observe returns the pressure for the levels at a time. Signals without a level are not judged:
// their thresholds are neither met nor resolved.
func (c *Core) Observe(levels map[Signal]Level, now time.Time) Pressure {
	var p Pressure
	for i := range c.config.Thresholds {
		t := &c.config.Thresholds[i]
		level, known := levels[t.Signal]
		if !known {
			continue
		}
		minimum := t.Minimum.of(level.Capacity)
		if c.acting[i] {
			minimum += t.Reclaim.of(level.Capacity)
		}
		if level.Available >= minimum {
			delete(c.since, i)
			delete(c.acting, i)
			continue
		}
		if _, met := c.since[i]; !met {
			c.since[i] = now
		}
		c.last[signals[t.Signal].condition] = now
		if now.Sub(c.since[i]) >= t.Grace {
			c.acting[i] = true
			if p.Threshold == nil {
				p.Threshold, p.Level = t, level
			}
		}
	}
	for condition, at := range c.last {
		if now.Sub(at) < c.config.Transition {
			p.Conditions = append(p.Conditions, condition)
		}
	}
	slices.Sort(p.Conditions)
	return p
}
