package metrics

import (
	"context"
	"sync/atomic"

	"github.com/planekit/planekit/kubelet/volumestats"
	"github.com/prometheus/client_golang/prometheus"
)

// volumeSeries are the series of the volumes of claims.
var volumeSeries = []struct {
	name, help string
	value      func(*volumestats.Stats) uint64
}{
	{"capacity_bytes", "Capacity in bytes of the volume", func(s *volumestats.Stats) uint64 { return s.CapacityBytes }},
	{"available_bytes", "Number of available bytes in the volume", func(s *volumestats.Stats) uint64 { return s.AvailableBytes }},
	{"used_bytes", "Number of used bytes in the volume", func(s *volumestats.Stats) uint64 { return s.UsedBytes }},
	{"inodes", "Maximum number of inodes in the volume", func(s *volumestats.Stats) uint64 { return s.Inodes }},
	{"inodes_free", "Number of free inodes in the volume", func(s *volumestats.Stats) uint64 { return s.InodesFree }},
	{"inodes_used", "Number of used inodes in the volume", func(s *volumestats.Stats) uint64 { return s.InodesUsed }},
}

// volumes collects them.
type volumes struct {
	claims atomic.Pointer[func(context.Context) []volumestats.Stats]
	series []*prometheus.Desc // of volumeSeries
}

func newVolumes() *volumes {
	v := &volumes{}
	for _, s := range volumeSeries {
		v.series = append(v.series, prometheus.NewDesc("kubelet_volume_stats_"+s.name, s.help, []string{"namespace", "persistentvolumeclaim"}, nil))
	}
	return v
}

// CountVolumes makes the series of the volumes of claims what claims returns at each request, such as a
// kubelet.Kubelet.ClaimStats.
func (m *Metrics) CountVolumes(claims func(context.Context) []volumestats.Stats) {
	m.volumes.claims.Store(&claims)
}

// Describe implements prometheus.Collector.
func (v *volumes) Describe(to chan<- *prometheus.Desc) {
	for _, d := range v.series {
		to <- d
	}
}

// Collect implements prometheus.Collector. A claim that several pods use is counted once.
func (v *volumes) Collect(to chan<- prometheus.Metric) {
	claims := v.claims.Load()
	if claims == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	known := map[volumestats.ClaimReference]bool{}
	for _, stats := range (*claims)(ctx) {
		if stats.Claim == nil || known[*stats.Claim] {
			continue
		}
		known[*stats.Claim] = true
		for i, d := range v.series {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(volumeSeries[i].value(&stats)), stats.Claim.Namespace, stats.Claim.Name)
		}
	}
}
