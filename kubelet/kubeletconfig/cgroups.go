package kubeletconfig

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/kubelet"
)

// cgroupRows are the fields about the cgroups of pods and of what is reserved.
func cgroupRows() []row {
	return []row{
		acts("cgroupsPerQOS", func(s *settings, v bool) { s.kubelet.Cgroups.PerQOS = &v },
			func(k *kubelet.Config) any { return new(perQOS(k)) }),
		acts("podPidsLimit", func(s *settings, v int64) { s.kubelet.Cgroups.PodPids = max(v, 0) },
			func(k *kubelet.Config) any {
				if k.Cgroups.PodPids <= 0 {
					return int64(-1)
				}
				return k.Cgroups.PodPids
			}),
		acts("enforceNodeAllocatable", func(s *settings, v []string) { s.kubelet.Cgroups.Enforce, s.enforces = v, true },
			func(k *kubelet.Config) any {
				if k.Cgroups.Enforce == nil && perQOS(k) {
					return []string{kubelet.EnforcePods}
				}
				return k.Cgroups.Enforce
			}),
		acts("systemReservedCgroup", func(s *settings, v string) { s.kubelet.Cgroups.SystemReserved = cgroupPath(v) },
			func(k *kubelet.Config) any { return k.Cgroups.SystemReserved }),
		acts("kubeReservedCgroup", func(s *settings, v string) { s.kubelet.Cgroups.KubeReserved = cgroupPath(v) },
			func(k *kubelet.Config) any { return k.Cgroups.KubeReserved }),
		acts("cpuCFSQuota", func(s *settings, v bool) { s.kubelet.Cgroups.NoCPUQuota = !v },
			func(k *kubelet.Config) any { return new(!k.Cgroups.NoCPUQuota) }),
		acts("cpuCFSQuotaPeriod", func(s *settings, v duration) {
			if v.Duration != 0 && (v.Duration < time.Millisecond || v.Duration > time.Second) {
				s.failf("cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %v must be between 1ms and 1sec, inclusive", v.Duration)
			}
			s.kubelet.Cgroups.CPUQuotaPeriod = v.Duration
		}, func(k *kubelet.Config) any { return seconds(k.Cgroups.CPUQuotaPeriod, 100*time.Millisecond) }),
		acts("singleProcessOOMKill", func(s *settings, v bool) { s.kubelet.Cgroups.SingleProcessOOMKill = &v },
			func(k *kubelet.Config) any { return k.Cgroups.SingleProcessOOMKill }),
	}
}

func perQOS(k *kubelet.Config) bool { return k.Cgroups.PerQOS == nil || *k.Cgroups.PerQOS }

// cgroupPath returns a cgroup with the slash in front that may be missing in the file.
func cgroupPath(name string) string {
	if name == "" || strings.HasPrefix(name, "/") {
		return name
	}
	return path.Join("/", name)
}

// checkEnforced validates enforceNodeAllocatable, which depends on other fields.
func (s *settings) checkEnforced() {
	const field = "enforceNodeAllocatable (--enforce-node-allocatable)"
	c := s.kubelet.Cgroups
	if c.Enforce == nil && !perQOS(s.kubelet) && !s.enforces {
		// Kubernetes' default needs cgroups of qualities of service.
		s.failf("cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in %s", kubelet.EnforcePods, field)
	}
	for _, pair := range [][2]string{
		{kubelet.EnforceSystemReserved, kubelet.EnforceSystemReservedCompressible}, {kubelet.EnforceKubeReserved, kubelet.EnforceKubeReservedCompressible},
	} {
		if slices.Contains(c.Enforce, pair[0]) && slices.Contains(c.Enforce, pair[1]) {
			s.failf("both %q and %q cannot be specified together in %s", pair[0], pair[1], field)
		}
	}
	for i, name := range c.Enforce {
		if slices.Contains(c.Enforce[:i], name) {
			s.failf("duplicated enforcements %q in %s", name, field)
			continue
		}
		switch name {
		case kubelet.EnforceNone:
			if len(c.Enforce) > 1 {
				s.failf("%s may not contain additional enforcements when %q is specified", field, name)
			}
			continue
		case kubelet.EnforcePods:
		case kubelet.EnforceSystemReserved, kubelet.EnforceSystemReservedCompressible:
			if c.SystemReserved == "" {
				s.failf("systemReservedCgroup (--system-reserved-cgroup) must be specified when %q or %q included in %s",
					kubelet.EnforceSystemReserved, kubelet.EnforceSystemReservedCompressible, field)
			}
		case kubelet.EnforceKubeReserved, kubelet.EnforceKubeReservedCompressible:
			if c.KubeReserved == "" {
				s.failf("kubeReservedCgroup (--kube-reserved-cgroup) must be specified when %q or %q included in %s",
					kubelet.EnforceKubeReserved, kubelet.EnforceKubeReservedCompressible, field)
			}
		default:
			s.failf("option %q specified for %s. Valid options are %q, %q, %q, %q, %q or %q", name, field, kubelet.EnforcePods,
				kubelet.EnforceSystemReserved, kubelet.EnforceSystemReservedCompressible, kubelet.EnforceKubeReserved,
				kubelet.EnforceKubeReservedCompressible, kubelet.EnforceNone)
			continue
		}
		if !perQOS(s.kubelet) {
			s.failf("cgroupsPerQOS (--cgroups-per-qos) must be set to true when %q contained in %s", name, field)
		}
	}
}
