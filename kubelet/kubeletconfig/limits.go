package kubeletconfig

import (
	"cmp"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/logs"
)

// Kubernetes' rate of pulls, for a file that has only one of its fields.
const (
	pullQPS   = 5
	pullBurst = 10
)

// limitRows are the fields about how often the kubelet does something, and how much of it.
func limitRows() []row {
	return []row{
		acts("podsPerCore", func(s *settings, v int32) {
			s.count("podsPerCore", "--pods-per-core", &s.kubelet.PodsPerCore, v)
		}, func(k *kubelet.Config) any { return int32(k.PodsPerCore) }),
		acts("nodeStatusMaxImages", func(s *settings, v int32) {
			if v < -1 {
				s.failf("nodeStatusMaxImages (--node-status-max-images) %v must be -1 or greater", v)
			}
			s.kubelet.NodeImages = new(int(v))
		}, func(k *kubelet.Config) any {
			if k.NodeImages == nil {
				return new(int32(50))
			}
			return new(int32(*k.NodeImages)) // also 0 is shown
		}),
		acts("registryPullQPS", func(s *settings, v int32) {
			s.count("registryPullQPS", "--registry-qps", &s.kubelet.PullRate.PerSecond, v)
			s.pullQPSSet = true
		}, func(k *kubelet.Config) any { return new(int32(k.PullRate.PerSecond)) }),
		acts("registryBurst", func(s *settings, v int32) {
			s.count("registryBurst", "--registry-burst", &s.kubelet.PullRate.Burst, v)
			s.pullBurstSet = true
		}, func(k *kubelet.Config) any { return int32(cmp.Or(k.PullRate.Burst, pullBurst)) }),
		acts("eventRecordQPS", func(s *settings, v int32) {
			s.count("eventRecordQPS", "--event-qps", &s.kubelet.EventRate.PerSecond, v)
			if v == 0 { // no limit
				s.kubelet.EventRate.PerSecond = -1
			}
		}, func(k *kubelet.Config) any { return new(int32(max(cmp.Or(k.EventRate.PerSecond, 50), 0))) }),
		acts("eventBurst", func(s *settings, v int32) { s.count("eventBurst", "--event-burst", &s.kubelet.EventRate.Burst, v) },
			func(k *kubelet.Config) any { return int32(cmp.Or(k.EventRate.Burst, 100)) }),
		acts("containerLogMaxWorkers", func(s *settings, v int32) {
			if v < 1 {
				s.failf("containerLogMaxWorkers must be greater than or equal to 1")
			}
			s.kubelet.LogWorkers = int(v)
		}, func(k *kubelet.Config) any { return int32(cmp.Or(k.LogWorkers, 1)) }),
		acts("containerLogMonitorInterval", func(s *settings, v duration) {
			if v.Duration != 0 && v.Duration < 3*time.Second {
				s.failf("containerLogMonitorInterval must be a positive time duration greater than or equal to 3s")
			}
			s.kubelet.LogInterval = v.Duration
		}, func(k *kubelet.Config) any { return seconds(k.LogInterval, logs.DefaultInterval) }),
		acts("crashLoopBackOff", (*settings).restartBackoff, func(k *kubelet.Config) any {
			return crashLoopBackOff{MaxContainerRestartPeriod: new(of(cmp.Or(k.MaxRestartBackoff, 5*time.Minute)))}
		}),
		acts("syncFrequency", func(s *settings, v duration) { s.duration("syncFrequency", &s.kubelet.SyncPeriod, v) },
			func(k *kubelet.Config) any { return seconds(k.SyncPeriod, kubelet.DefaultSyncPeriod) }),
		acts("volumeStatsAggPeriod", func(s *settings, v duration) { s.kubelet.VolumeStatsPeriod = v.Duration },
			func(k *kubelet.Config) any { return seconds(k.VolumeStatsPeriod, time.Minute) }),
		acts("seccompDefault", func(s *settings, v bool) { s.kubelet.SeccompDefault = v }, func(k *kubelet.Config) any { return k.SeccompDefault }),
		acts("providerID", func(s *settings, v string) { s.kubelet.ProviderID = v }, func(k *kubelet.Config) any { return k.ProviderID }),
	}
}

// requiredRows are the fields about what the machine must be like.
func requiredRows() []row {
	return []row{
		acts("failSwapOn", func(s *settings, v bool) { s.kubelet.Require.NoSwap = v }, func(k *kubelet.Config) any { return &k.Require.NoSwap }),
		acts("failCgroupV1", func(s *settings, v bool) { s.kubelet.Require.Unified = v }, func(k *kubelet.Config) any { return &k.Require.Unified }),
		acts("protectKernelDefaults", func(s *settings, v bool) { s.kubelet.Require.KernelDefaults = v },
			func(k *kubelet.Config) any { return k.Require.KernelDefaults }),
	}
}

// count sets a number that must not be negative.
func (s *settings) count(name, flag string, field *int, value int32) {
	if value < 0 {
		s.failf("%s (%s) %v must not be a negative number", name, flag, value)
	}
	*field = int(value)
}

func (s *settings) restartBackoff(b crashLoopBackOff) {
	most := b.MaxContainerRestartPeriod
	if most == nil {
		return
	}
	if most.Duration < time.Second || most.Duration > 5*time.Minute {
		s.failf("CrashLoopBackOff.MaxContainerRestartPeriod (got: %v seconds) must be set between 1s and 300s", most.Seconds())
	}
	s.kubelet.MaxRestartBackoff = most.Duration
}

// finishPulls completes a rate of pulls of which the file has one field.
func (s *settings) finishPulls() {
	if s.pullBurstSet && !s.pullQPSSet {
		s.kubelet.PullRate.PerSecond = pullQPS
	}
	if s.pullQPSSet && s.kubelet.PullRate.Burst == 0 {
		s.kubelet.PullRate.Burst = pullBurst
	}
}
