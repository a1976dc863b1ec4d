package simulate

import "time"

// maxSamples bounds the samples of a result. When there are more, every second one is dropped.
const maxSamples = 2000

// samples collects the usage over time.
type samples struct {
	list []Sample
	// every says that one of so many instants is kept; seen counts the instants.
	every, seen int
	last        Sample
	// area is the integral of each value over the time in seconds until last, peak its maximum.
	area, peak Usage
}

// record adds the usage from a time on.
func (s *samples) record(at time.Duration, u Usage) {
	if s.seen == 0 {
		s.every = 1
		s.area = newUsageOf(len(u.Requested))
		s.peak = newUsageOf(len(u.Requested))
	} else {
		s.extend(at)
	}
	s.last = Sample{at, u}
	if last := len(s.list) - 1; last >= 0 && s.list[last].At == at {
		s.list[last] = s.last // the end of the same instant
		merge(&s.peak, u, func(a, b float64) float64 { return max(a, b) })
		return
	}
	merge(&s.peak, u, func(a, b float64) float64 { return max(a, b) })
	if s.seen%s.every == 0 {
		s.list = append(s.list, s.last)
	}
	s.seen++
	if len(s.list) > maxSamples {
		kept := s.list[:0]
		for i := 0; i < len(s.list); i += 2 {
			kept = append(kept, s.list[i])
		}
		s.list, s.every = kept, s.every*2
	}
}

// extend continues the last usage until a time.
func (s *samples) extend(until time.Duration) {
	seconds := (until - s.last.At).Seconds()
	merge(&s.area, s.last.Usage, func(a, b float64) float64 { return a + b*seconds })
	s.last.At = until
}

// end returns the samples until a time, and the mean and the peak of each value.
func (s *samples) end(at time.Duration) (list []Sample, mean, peak Usage) {
	if s.seen == 0 {
		return nil, mean, peak
	}
	list = s.list
	if at > s.last.At {
		s.extend(at)
	}
	if list[len(list)-1].At < s.last.At {
		list = append(list, s.last)
	}
	mean = s.last.Usage // where no time passes
	if total := (s.last.At - list[0].At).Seconds(); total > 0 {
		mean = newUsageOf(len(s.last.Requested))
		merge(&mean, s.area, func(_, area float64) float64 { return area / total })
	}
	return list, mean, s.peak
}

func newUsageOf(resources int) Usage {
	return Usage{Requested: make([]float64, resources), Fragmentation: make([]float64, resources)}
}

// merge sets each value of a to f of it and that of b.
func merge(a *Usage, b Usage, f func(a, b float64) float64) {
	for i := range a.Requested {
		a.Requested[i] = f(a.Requested[i], b.Requested[i])
		a.Fragmentation[i] = f(a.Fragmentation[i], b.Fragmentation[i])
	}
	a.NodesInUse = f(a.NodesInUse, b.NodesInUse)
	a.Running = f(a.Running, b.Running)
	a.Pending = f(a.Pending, b.Pending)
}
