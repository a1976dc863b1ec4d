package metricsapi

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// minFresh is the minimum age of a container that is measured since its start, as in metrics-server.
const minFresh = 10 * time.Second

// maxCores bounds the CPU usage that is believed.
const maxCores = 1 << 20

// A series holds the last two points of a node or a container.
type series struct {
	last, previous *point // previous is nil if last is the first
}

// add adds the next point. A point of the same time as the last is no news. Usage begins again after
// a restart, which sets the CPU time back, and after a clock was set back.
func (s *series) add(p *point) {
	switch {
	case s.last != nil && p.at.Equal(s.last.at) && p.cpu == s.last.cpu:
		return
	case s.last == nil, !p.at.After(s.last.at), p.cpu < s.last.cpu, p.started.After(s.last.at):
		s.last, s.previous = p, nil
	default:
		s.last, s.previous = p, s.last
	}
}

// usage holds what was used in the window before at.
type usage struct {
	at     time.Time
	window time.Duration
	cores  float64
	bytes  float64
}

// usage returns what was used lately; ok is false if it is not known.
func (s *series) usage(resolution time.Duration) (u usage, ok bool) {
	from := s.previous
	if from == nil {
		age := s.last.at.Sub(s.last.started)
		if s.last.started.IsZero() || age < minFresh || age > resolution {
			return usage{}, false
		}
		from = &point{at: s.last.started}
	}
	u = usage{at: s.last.at, window: s.last.at.Sub(from.at), bytes: s.last.memory}
	u.cores = (s.last.cpu - from.cpu) / u.window.Seconds()
	return u, u.cores <= maxCores
}

// resources returns the usage in the units of metrics-server.
func (u usage) resources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(math.Round(u.cores*1e9)), -9),
		corev1.ResourceMemory: *resource.NewQuantity(int64(u.bytes), resource.BinarySI),
	}
}
