// Package usagering is an in-memory source of past usage for estimates.
//
//	usage, err := usagering.New(usagering.Config{})
//	usage.Add(usagering.Sample{Image: "nginx:1.27", Namespace: "shop", CPU: 120, Memory: 40 << 20})
//	plugin, err := initialresources.New(initialresources.Config{Source: usage})
//
// Each image in each namespace has a ring of samples: when it is full, a new sample replaces the
// oldest. The number of rings is bounded: a new one replaces the one that was updated least
// recently. The defaults take at most 24 MiB, for 1024 images with 720 samples. To cover 30 days,
// either add at most one sample per image and hour, or set [Config].Span, with which a ring that
// fills up too early is thinned.
//
// Percentiles are by nearest rank: the smallest value that is not exceeded by the given percentage
// of samples. Restarts lose all samples.
package usagering

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/admission/initialresources"
	corev1 "k8s.io/api/core/v1"
)

// The defaults of a [Config].
const (
	DefaultSeries  = 1024
	DefaultSamples = 30 * 24
)

// Config configures a Ring.
type Config struct {
	// Series is the number of pairs of image and namespace; zero means [DefaultSeries].
	Series int
	// Samples is the number of samples of each; zero means [DefaultSamples].
	Samples int
	// Span is how far back a ring must reach at any rate of samples. If it is full of younger
	// samples, every other one is removed, and from then on half as many are stored, but at least
	// enough to fill half of it in that time. Zero replaces the oldest sample instead.
	Span time.Duration
}

// Sample is the usage of one container at one time.
type Sample struct {
	// Image is the image as named in the pod.
	Image     string
	Namespace string
	// Time is the time of the sample; zero means now.
	Time time.Time
	// CPU is in thousandths of a CPU, Memory in bytes.
	CPU, Memory int64
}

// Ring is an [initialresources.UsageSource].
type Ring struct {
	config Config

	mu       sync.Mutex
	byKey    map[key]*list.Element
	byName   map[string]map[*series]bool // the series of all tags of an image
	freshest *list.List                  // of *series, most recently updated first
}

type key struct{ image, namespace string }

// series is the ring of one image in one namespace.
type series struct {
	key
	samples []sample // grows up to the size of the ring
	next    int      // index of the next sample in a full ring without a span
	// With a span, one sample in stride is stored.
	stride, passed int
}

type sample struct {
	at          int64 // in nanoseconds since 1970
	cpu, memory int64
}

// New returns an empty ring.
func New(c Config) (*Ring, error) {
	if c.Series < 0 || c.Samples < 0 || c.Span < 0 {
		return nil, errors.New("usagering: Series, Samples and Span must not be negative")
	}
	if c.Series == 0 {
		c.Series = DefaultSeries
	}
	if c.Samples == 0 {
		c.Samples = DefaultSamples
	}
	return &Ring{config: c, byKey: map[key]*list.Element{}, byName: map[string]map[*series]bool{}, freshest: list.New()}, nil
}

// Add stores a sample.
func (r *Ring) Add(s Sample) {
	if s.Time.IsZero() {
		s.Time = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	series, added := r.seriesOf(key{s.Image, s.Namespace}), sample{s.Time.UnixNano(), s.CPU, s.Memory}
	if r.config.Span > 0 {
		series.addThinly(added, r.config)
		return
	}
	if len(series.samples) < r.config.Samples {
		series.samples = append(series.samples, added)
		return
	}
	series.samples[series.next] = added
	series.next = (series.next + 1) % len(series.samples)
}

// addThinly stores one sample in stride, or one after the time in which half the ring must fill, so
// that a thinned ring stays even.
func (s *series) addThinly(added sample, c Config) {
	if s.passed++; s.passed < s.stride && added.at-s.samples[len(s.samples)-1].at < 2*int64(c.Span)/int64(c.Samples) {
		return
	}
	s.passed = 0
	old := 0
	for old < len(s.samples) && s.samples[old].at <= added.at-int64(c.Span) {
		old++
	}
	s.samples = slices.Delete(s.samples, 0, old)
	if len(s.samples) >= c.Samples {
		s.thin()
	}
	s.samples = append(s.samples, added)
}

// thin removes every other sample.
func (s *series) thin() {
	kept := s.samples[:0]
	for i, one := range s.samples {
		if (len(s.samples)-i)%2 == 0 {
			kept = append(kept, one)
		}
	}
	s.samples, s.stride = kept, 2*max(s.stride, 1)
}

// seriesOf returns the series of k, creating it if necessary, and marks it as recently used.
func (r *Ring) seriesOf(k key) *series {
	if e, ok := r.byKey[k]; ok {
		r.freshest.MoveToFront(e)
		return e.Value.(*series)
	}
	if r.freshest.Len() >= r.config.Series {
		r.forget(r.freshest.Back())
	}
	s, name := &series{key: k}, initialresources.Repository(k.image)
	r.byKey[k] = r.freshest.PushFront(s)
	if r.byName[name] == nil {
		r.byName[name] = map[*series]bool{}
	}
	r.byName[name][s] = true
	return s
}

func (r *Ring) forget(e *list.Element) {
	s := r.freshest.Remove(e).(*series)
	delete(r.byKey, s.key)
	name := initialresources.Repository(s.image)
	if delete(r.byName[name], s); len(r.byName[name]) == 0 {
		delete(r.byName, name)
	}
}

// Usage returns a percentile of the stored samples.
func (r *Ring) Usage(_ context.Context, q initialresources.Query) (usage, samples int64, err error) {
	if q.Percentile < 1 || q.Percentile > 100 {
		return 0, 0, fmt.Errorf("usagering: there is no percentile %d", q.Percentile)
	}
	var of func(sample) int64
	switch q.Resource {
	case corev1.ResourceCPU:
		of = func(s sample) int64 { return s.cpu }
	case corev1.ResourceMemory:
		of = func(s sample) int64 { return s.memory }
	default:
		return 0, 0, fmt.Errorf("usagering: usage of %s is not kept", q.Resource)
	}
	values := r.values(q, of)
	if len(values) == 0 {
		return 0, 0, nil
	}
	slices.Sort(values)
	rank := (len(values)*q.Percentile + 99) / 100
	return values[rank-1], int64(len(values)), nil
}

// values returns all values that match a query, in no order.
func (r *Ring) values(q initialresources.Query, of func(sample) int64) []int64 {
	start, end := q.Start.UnixNano(), q.End.UnixNano()
	var values []int64
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.byName[initialresources.Repository(q.Image)] {
		if !q.AnyTag && s.image != q.Image || q.Namespace != "" && s.namespace != q.Namespace {
			continue
		}
		for _, sample := range s.samples {
			if sample.at >= start && sample.at <= end {
				values = append(values, of(sample))
			}
		}
	}
	return values
}
