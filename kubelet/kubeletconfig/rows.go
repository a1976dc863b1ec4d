package kubeletconfig

import (
	"cmp"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/logs"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rows returns the table: a row for each field of a KubeletConfiguration of Kubernetes v1.36.
func rows() []row {
	return slices.Concat(nodeRows(), evictionRows(), resourceRows(), cgroupRows(), podRows(), limitRows(), requiredRows(), programRows(), idleRows(), refusedRows())
}

type (
	amountsBySignal = map[string]string
	duration        = metav1.Duration
)

// seconds returns a duration, or the default if it is zero.
func seconds(value, standard time.Duration) any {
	return duration{Duration: cmp.Or(value, standard)}
}

// nodeRows are the fields about the node, its network and its files.
func nodeRows() []row {
	return []row{
		acts("podCIDR", func(s *settings, v string) { s.kubelet.PodCIDR = v },
			func(k *kubelet.Config) any { return k.PodCIDR }),
		acts("clusterDNS", func(s *settings, v []string) { s.kubelet.ClusterDNS = v },
			func(k *kubelet.Config) any { return k.ClusterDNS }),
		acts("clusterDomain", func(s *settings, v string) { s.kubelet.ClusterDomain = v },
			func(k *kubelet.Config) any { return cmp.Or(k.ClusterDomain, "cluster.local") }),
		acts("resolvConf", func(s *settings, v string) { s.kubelet.ResolvConf = v },
			func(k *kubelet.Config) any { return cmp.Or(k.ResolvConf, "/etc/resolv.conf") }),
		acts("cgroupRoot", func(s *settings, v string) { s.kubelet.CgroupRoot = v },
			func(k *kubelet.Config) any { return k.CgroupRoot }),
		acts("podLogsDir", func(s *settings, v string) { s.kubelet.LogRoot = v },
			func(k *kubelet.Config) any { return cmp.Or(k.LogRoot, "/var/log/pods") }),
		acts("registerWithTaints", (*settings).taints,
			func(k *kubelet.Config) any { return k.Taints }),
		acts("maxPods", (*settings).maxPods, func(k *kubelet.Config) any {
			if n, ok := k.Capacity[corev1.ResourcePods]; ok {
				return int32(n.Value())
			}
			return int32(110)
		}),
		acts("nodeStatusUpdateFrequency", func(s *settings, v duration) {
			s.duration("nodeStatusUpdateFrequency", &s.kubelet.Heartbeat.StatusPeriod, v)
		}, func(k *kubelet.Config) any { return seconds(k.Heartbeat.StatusPeriod, kubelet.DefaultStatusPeriod) }),
		acts("nodeStatusReportFrequency", func(s *settings, v duration) {
			s.duration("nodeStatusReportFrequency", &s.kubelet.Heartbeat.ReportPeriod, v)
			s.reportSet = v.Duration != 0
		}, func(k *kubelet.Config) any { return seconds(k.Heartbeat.ReportPeriod, kubelet.DefaultReportPeriod) }),
		acts("nodeLeaseDurationSeconds", func(s *settings, v int32) {
			if v < 0 {
				s.failf("nodeLeaseDurationSeconds must be greater than 0")
			}
			s.kubelet.Heartbeat.LeaseSeconds = v
		}, func(k *kubelet.Config) any { return cmp.Or(k.Heartbeat.LeaseSeconds, kubelet.DefaultLeaseSeconds) }),
	}
}

// evictionRows are the fields about evictions.
func evictionRows() []row {
	hard := func(t eviction.Threshold) bool { return t.Grace == 0 }
	soft := func(t eviction.Threshold) bool { return t.Grace != 0 }
	reclaims := func(t eviction.Threshold) bool { return t.Reclaim != eviction.Amount{} }
	minimum := func(t eviction.Threshold) string { return amount(t.Minimum) }
	return []row{
		acts("evictionHard", func(s *settings, v amountsBySignal) { s.eviction.Hard, s.evicts = v, true },
			func(k *kubelet.Config) any {
				if k.Eviction.Thresholds == nil {
					return eviction.DefaultHard()
				}
				return amounts(k.Eviction.Thresholds, hard, minimum)
			}),
		acts("evictionSoft", func(s *settings, v amountsBySignal) { s.eviction.Soft, s.evicts = v, true },
			func(k *kubelet.Config) any { return amounts(k.Eviction.Thresholds, soft, minimum) }),
		acts("evictionSoftGracePeriod", func(s *settings, v amountsBySignal) { s.eviction.SoftGrace, s.evicts = v, true },
			func(k *kubelet.Config) any {
				return amounts(k.Eviction.Thresholds, soft, func(t eviction.Threshold) string { return t.Grace.String() })
			}),
		acts("evictionMinimumReclaim", func(s *settings, v amountsBySignal) { s.eviction.MinimumReclaim, s.evicts = v, true },
			func(k *kubelet.Config) any {
				return amounts(k.Eviction.Thresholds, reclaims, func(t eviction.Threshold) string { return amount(t.Reclaim) })
			}),
		acts("mergeDefaultEvictionSettings", func(s *settings, v bool) { s.defaults = v }, nil),
		acts("evictionPressureTransitionPeriod", func(s *settings, v duration) {
			s.duration("evictionPressureTransitionPeriod", &s.kubelet.Eviction.Transition, v)
		}, func(k *kubelet.Config) any { return seconds(k.Eviction.Transition, eviction.DefaultTransition) }),
		acts("evictionMaxPodGracePeriod", func(s *settings, v int32) {
			if v < 0 {
				s.failf("evictionMaxPodGracePeriod (--eviction-max-pod-grace-period) %v must not be negative", v)
			}
			s.kubelet.Eviction.MaxGrace = int64(v)
		}, func(k *kubelet.Config) any { return int32(k.Eviction.MaxGrace) }),
	}
}

// resourceRows are the fields about images, logs and CPUs.
func resourceRows() []row {
	return []row{
		acts("imageGCHighThresholdPercent", func(s *settings, v int32) {
			s.percent("imageGCHighThresholdPercent", "--image-gc-high-threshold", &s.kubelet.ImageGC.High, v)
		}, func(k *kubelet.Config) any { return cmp.Or(k.ImageGC.High, images.DefaultHigh) }),
		acts("imageGCLowThresholdPercent", func(s *settings, v int32) {
			s.percent("imageGCLowThresholdPercent", "--image-gc-low-threshold", &s.kubelet.ImageGC.Low, v)
		}, func(k *kubelet.Config) any { return cmp.Or(k.ImageGC.Low, images.DefaultLow) }),
		acts("imageMinimumGCAge", func(s *settings, v duration) { s.duration("imageMinimumGCAge", &s.kubelet.ImageGC.MinAge, v) },
			func(k *kubelet.Config) any { return seconds(k.ImageGC.MinAge, images.DefaultMinAge) }),
		acts("imageMaximumGCAge", func(s *settings, v duration) { s.duration("imageMaximumGCAge", &s.kubelet.ImageGC.MaxAge, v) },
			func(k *kubelet.Config) any { return seconds(k.ImageGC.MaxAge, 0) }),
		acts("containerLogMaxSize", (*settings).logSize, func(k *kubelet.Config) any {
			return resource.NewQuantity(cmp.Or(k.LogMaxSize, int64(logs.DefaultMaxSize)), resource.BinarySI).String()
		}),
		acts("containerLogMaxFiles", func(s *settings, v int32) {
			if v <= 1 {
				s.failf("containerLogMaxFiles must be greater than 1")
			}
			s.kubelet.LogMaxFiles = int(v)
		}, func(k *kubelet.Config) any { return cmp.Or(k.LogMaxFiles, logs.DefaultMaxFiles) }),
		acts("cpuManagerPolicy", func(s *settings, v string) { s.kubelet.CPUManager.Policy = v },
			func(k *kubelet.Config) any { return cmp.Or(k.CPUManager.Policy, cpumanager.PolicyNone) }),
		acts("cpuManagerPolicyOptions", func(s *settings, v map[string]string) { s.kubelet.CPUManager.Options = v },
			func(k *kubelet.Config) any { return k.CPUManager.Options }),
		acts("cpuManagerReconcilePeriod", func(s *settings, v duration) {
			s.duration("cpuManagerReconcilePeriod", &s.kubelet.CPUManager.ReconcilePeriod, v)
		}, func(k *kubelet.Config) any {
			return seconds(k.CPUManager.ReconcilePeriod, cpumanager.DefaultReconcilePeriod)
		}),
		acts("reservedSystemCPUs", (*settings).reservedCPUs, func(k *kubelet.Config) any { return k.CPUManager.Reserved }),
		acts("kubeReserved", func(s *settings, v map[string]string) { s.kubelet.KubeReserved = s.reserved("kubeReserved", v) },
			func(k *kubelet.Config) any { return quantities(k.KubeReserved) }),
		acts("systemReserved", func(s *settings, v map[string]string) { s.kubelet.SystemReserved = s.reserved("systemReserved", v) },
			func(k *kubelet.Config) any { return quantities(k.SystemReserved) }),
	}
}

// podRows are the fields about pulls, sysctls and the end of pods when the machine shuts down.
func podRows() []row {
	return []row{
		acts("serializeImagePulls", func(s *settings, v bool) { s.kubelet.SerializeImagePulls = &v },
			func(k *kubelet.Config) any {
				serial := k.MaxParallelPulls <= 1
				if k.SerializeImagePulls != nil {
					serial = *k.SerializeImagePulls
				}
				return &serial // also false is shown
			}),
		acts("maxParallelImagePulls", func(s *settings, v int32) {
			if v < 1 {
				s.failf("maxParallelImagePulls %v must be a positive number", v)
			}
			s.kubelet.MaxParallelPulls = int(v)
		}, func(k *kubelet.Config) any { return int32(k.MaxParallelPulls) }),
		acts("allowedUnsafeSysctls", func(s *settings, v []string) { s.kubelet.AllowedUnsafeSysctls = v },
			func(k *kubelet.Config) any { return k.AllowedUnsafeSysctls }),
		acts("shutdownGracePeriod", func(s *settings, v duration) {
			s.duration("shutdownGracePeriod", &s.kubelet.Shutdown.GracePeriod, v)
		}, func(k *kubelet.Config) any { return seconds(k.Shutdown.GracePeriod, 0) }),
		acts("shutdownGracePeriodCriticalPods", func(s *settings, v duration) {
			s.duration("shutdownGracePeriodCriticalPods", &s.kubelet.Shutdown.CriticalPods, v)
		}, func(k *kubelet.Config) any { return seconds(k.Shutdown.CriticalPods, 0) }),
		acts("shutdownGracePeriodByPodPriority", func(s *settings, v []priorityGrace) {
			s.kubelet.Shutdown.ByPodPriority = nil
			for _, p := range v {
				s.kubelet.Shutdown.ByPodPriority = append(s.kubelet.Shutdown.ByPodPriority,
					shutdown.Period{Priority: p.Priority, Grace: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
			}
		}, func(k *kubelet.Config) any {
			var list []priorityGrace
			for _, p := range k.Shutdown.ByPodPriority {
				list = append(list, priorityGrace{p.Priority, int64(p.Grace / time.Second)})
			}
			return list
		}),
	}
}

// quantities returns a list of resources as texts.
func quantities(list corev1.ResourceList) map[string]string {
	var out map[string]string
	if len(list) > 0 {
		out = map[string]string{}
	}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}
