package eviction

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is an amount of something that a node runs out of.
type Signal string

// The signals, with Kubernetes' names. Memory is in bytes, as are file systems; inodes and processes
// are counted. NodeFS is the file system of the pods' directories, ImageFS that of images and of the
// writable layers of containers; they may be the same one.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFSAvailable   Signal = "nodefs.available"
	NodeFSInodesFree  Signal = "nodefs.inodesFree"
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
	// AllocatableMemoryAvailable is the rest of the memory that all pods may use together. Its threshold comes
	// from [WithAllocatable], and from no configuration.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
)

// kind describes a signal.
type kind struct {
	condition corev1.NodeConditionType
	// resource is its name in messages.
	resource corev1.ResourceName
	// order is the order in which pressures are relieved.
	order int
}

const (
	inodes    corev1.ResourceName = "inodes"
	processes corev1.ResourceName = "pids"
)

var signals = map[Signal]kind{
	MemoryAvailable:   {corev1.NodeMemoryPressure, corev1.ResourceMemory, 0},
	NodeFSAvailable:   {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage, 1},
	ImageFSAvailable:  {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage, 2},
	NodeFSInodesFree:  {corev1.NodeDiskPressure, inodes, 3},
	ImageFSInodesFree: {corev1.NodeDiskPressure, inodes, 4},
	PIDAvailable:      {corev1.NodePIDPressure, processes, 5},

	AllocatableMemoryAvailable: {corev1.NodeMemoryPressure, corev1.ResourceMemory, 0},
}

// Amount is a part of a capacity or, if that is zero, a number.
type Amount struct {
	// Part is between 0 and 1.
	Part   float64
	Number int64
}

// of returns the amount for a capacity.
func (a Amount) of(capacity int64) int64 {
	if a.Part > 0 {
		return int64(a.Part * float64(capacity))
	}
	return a.Number
}

// Threshold is met when less than Minimum is left.
type Threshold struct {
	Signal  Signal
	Minimum Amount
	// Grace is how long the threshold is met before a pod is evicted. Zero means a hard threshold:
	// pods are evicted at once, and without their grace period.
	Grace time.Duration
	// Reclaim must be left in addition to Minimum before the threshold is no longer met.
	Reclaim Amount
}

// Settings are thresholds as in Kubernetes' configuration: by the name of a signal, an amount such as
// 100Mi or 10%, or a duration.
type Settings struct {
	// Hard and Soft hold thresholds.
	Hard, Soft map[string]string
	// SoftGrace holds a duration for each threshold in Soft.
	SoftGrace map[string]string
	// MinimumReclaim holds what to reclaim in addition.
	MinimumReclaim map[string]string
}

// DefaultHard returns the hard thresholds of Kubernetes' kubelet.
func DefaultHard() map[string]string {
	return map[string]string{
		string(MemoryAvailable): "100Mi", string(NodeFSAvailable): "10%", string(NodeFSInodesFree): "5%",
		string(ImageFSAvailable): "15%", string(ImageFSInodesFree): "5%",
	}
}

// Map parses thresholds in the form of the kubelet's flags, such as
// "memory.available<100Mi,nodefs.available<10%".
func Map(flag string) (map[string]string, error) {
	m := map[string]string{}
	for part := range strings.SplitSeq(flag, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		signal, amount, ok := strings.Cut(part, "<")
		if signal = strings.TrimSpace(signal); !ok || signal == "" {
			return nil, fmt.Errorf("eviction: %q is not of the form SIGNAL<AMOUNT", part)
		}
		if _, twice := m[signal]; twice {
			return nil, fmt.Errorf("eviction: %s has two thresholds", signal)
		}
		m[signal] = strings.TrimSpace(amount)
	}
	return m, nil
}

// Parse returns the thresholds of s, in the order in which they are relieved. A hard threshold of 0
// or 0% is none. Errors name the setting.
func Parse(s Settings) ([]Threshold, error) {
	p := parser{reclaim: map[Signal]Amount{}}
	for _, name := range slices.Sorted(maps.Keys(s.MinimumReclaim)) {
		if signal, ok := p.signal("minimum reclaim", name); ok {
			p.reclaim[signal] = p.amount("minimum reclaim", name, s.MinimumReclaim[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
		p.add("hard eviction", name, s.Hard[name], 0)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Soft)) {
		text, ok := s.SoftGrace[name]
		grace, err := time.ParseDuration(text)
		switch {
		case !ok:
			p.fail("soft eviction", name, "has no grace period")
		case err != nil || grace <= 0:
			p.fail("soft eviction grace period", name, fmt.Sprintf("%q is not a positive duration", text))
		default:
			p.add("soft eviction", name, s.Soft[name], grace)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.SoftGrace)) {
		if _, ok := s.Soft[name]; !ok {
			p.fail("soft eviction grace period", name, "has no threshold")
		}
	}
	slices.SortStableFunc(p.list, func(a, b Threshold) int { return signals[a.Signal].order - signals[b.Signal].order })
	return p.list, errors.Join(p.errs...)
}

// WithAllocatable returns thresholds with another one for each hard threshold of memory, for what all pods
// may use together. They are for a node that limits its pods together: memory that outlives its processes,
// as files in a volume in memory do, otherwise makes the kernel kill one pod after the other.
func WithAllocatable(thresholds []Threshold) []Threshold {
	var list []Threshold
	for _, t := range thresholds {
		if list = append(list, t); t.Signal == MemoryAvailable && t.Grace == 0 {
			t.Signal = AllocatableMemoryAvailable
			list = append(list, t)
		}
	}
	return list
}

// parser collects thresholds and errors.
type parser struct {
	list    []Threshold
	reclaim map[Signal]Amount
	errs    []error
}

func (p *parser) fail(setting, name, what string) {
	p.errs = append(p.errs, fmt.Errorf("eviction: %s: %s: %s", setting, name, what))
}

func (p *parser) signal(setting, name string) (Signal, bool) {
	_, ok := signals[Signal(name)]
	ok = ok && Signal(name) != AllocatableMemoryAvailable
	if !ok {
		p.fail(setting, name, "is not a signal")
	}
	return Signal(name), ok
}

func (p *parser) add(setting, name, text string, grace time.Duration) {
	signal, ok := p.signal(setting, name)
	if !ok {
		return
	}
	minimum := p.amount(setting, name, text)
	if minimum == (Amount{}) {
		return // it failed, or it is none
	}
	p.list = append(p.list, Threshold{Signal: signal, Minimum: minimum, Grace: grace, Reclaim: p.reclaim[signal]})
}

func (p *parser) amount(setting, name, text string) Amount {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > 100 {
			p.fail(setting, name, fmt.Sprintf("%q is not between 0%% and 100%%", text))
			return Amount{}
		}
		return Amount{Part: n / 100}
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		p.fail(setting, name, fmt.Sprintf("%q is not a quantity", text))
		return Amount{}
	}
	return Amount{Number: q.Value()}
}

// Disk reports whether a signal is about a file system.
func Disk(s Signal) bool { return signals[s].condition == corev1.NodeDiskPressure }

// Pods reports whether a signal is about the file system of the pods' directories.
func Pods(s Signal) bool { return s == NodeFSAvailable || s == NodeFSInodesFree }

// Resource returns the name of what a signal is about, as in messages: memory, ephemeral-storage,
// inodes or pids.
func Resource(s Signal) string { return string(signals[s].resource) }
