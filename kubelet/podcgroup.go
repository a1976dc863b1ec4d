package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/internal/nodestatus"
	"github.com/planekit/planekit/kubelet/internal/podcgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// cgroupsPeriod is the interval at which the cgroups of all pods are set again, as in Kubernetes.
const cgroupsPeriod = time.Minute

// Cgroups is the configuration of the cgroups of pods, and of those that the reservations limit. The
// fields are those of a KubeletConfiguration.
type Cgroups struct {
	// PerQOS gives pods cgroups below Config.CgroupRoot by their quality of service. Nil means true. If
	// it is false, only pods that have a cgroup from before keep it.
	PerQOS *bool
	// PodPids is the largest number of processes of a pod. Zero means no limit.
	PodPids int64
	// Enforce says what is limited: [EnforcePods] limits all pods together to what is not reserved, the
	// others limit SystemReserved and KubeReserved to their reservation. Nil means EnforcePods.
	Enforce []string
	// SystemReserved and KubeReserved are existing cgroups of other programs of the machine.
	SystemReserved, KubeReserved string
	// SingleProcessOOMKill makes the kernel kill one process, and not all of a container, when the
	// container exceeds its memory limit. Nil means false where cgroups have version 2; version 1 always
	// kills one.
	SingleProcessOOMKill *bool
	// NoCPUQuota leaves pods and containers without a quota of cpu time, whatever limit of cpu they have.
	NoCPUQuota bool
	// CPUQuotaPeriod is the time in which the kernel measures the cpu time of a quota, from 1 ms to 1 s.
	// Zero means 100 ms.
	CPUQuotaPeriod time.Duration
}

// cpu says how quotas of cpu time are enforced.
func (c *Cgroups) cpu() cgroup.CPU {
	return cgroup.CPU{NoQuota: c.NoCPUQuota, Period: c.CPUQuotaPeriod.Microseconds()}
}

// What [Cgroups] can enforce. Compressible means cpu alone.
const (
	EnforceNone                       = "none"
	EnforcePods                       = "pods"
	EnforceSystemReserved             = "system-reserved"
	EnforceSystemReservedCompressible = "system-reserved-compressible"
	EnforceKubeReserved               = "kube-reserved"
	EnforceKubeReservedCompressible   = "kube-reserved-compressible"
)

// complete validates c and sets defaults.
func (c *Cgroups) complete(need func(ok bool, what string)) {
	perQOS := c.PerQOS == nil || *c.PerQOS
	if c.Enforce == nil && perQOS {
		c.Enforce = []string{EnforcePods}
	}
	need(c.CPUQuotaPeriod == 0 || c.CPUQuotaPeriod >= time.Millisecond && c.CPUQuotaPeriod <= time.Second,
		fmt.Sprintf("Cgroups.CPUQuotaPeriod %v is not between 1ms and 1s", c.CPUQuotaPeriod))
	has := func(name string) bool { return slices.Contains(c.Enforce, name) }
	for _, pair := range [][2]string{{EnforceSystemReserved, EnforceSystemReservedCompressible}, {EnforceKubeReserved, EnforceKubeReservedCompressible}} {
		need(!has(pair[0]) || !has(pair[1]), fmt.Sprintf("Cgroups.Enforce has both %q and %q", pair[0], pair[1]))
	}
	for i, name := range c.Enforce {
		need(!slices.Contains(c.Enforce[:i], name), fmt.Sprintf("Cgroups.Enforce has %q twice", name))
		switch name {
		case EnforceNone:
			need(len(c.Enforce) == 1, fmt.Sprintf("Cgroups.Enforce has more than %q", name))
			continue
		case EnforcePods:
		case EnforceSystemReserved, EnforceSystemReservedCompressible:
			need(filepath.IsAbs(c.SystemReserved), fmt.Sprintf("Cgroups.SystemReserved %q is not an absolute path", c.SystemReserved))
		case EnforceKubeReserved, EnforceKubeReservedCompressible:
			need(filepath.IsAbs(c.KubeReserved), fmt.Sprintf("Cgroups.KubeReserved %q is not an absolute path", c.KubeReserved))
		default:
			need(false, fmt.Sprintf("Cgroups.Enforce has %q", name))
		}
		need(perQOS, fmt.Sprintf("Cgroups.Enforce has %q, which needs PerQOS", name))
	}
}

func (k *Kubelet) newGroups() *podcgroups.Groups {
	c := k.config.Cgroups
	return podcgroups.New(podcgroups.Config{
		FS: k.cgroups, Root: k.config.CgroupRoot, PerQOS: c.PerQOS == nil || *c.PerQOS, Processes: max(c.PodPids, 0),
		Pods: k.activePods,
		PageSizes: func() []int64 {
			var sizes []int64
			for _, pages := range k.host.HugePages {
				sizes = append(sizes, pages.Size)
			}
			return sizes
		},
	})
}

// activePods returns the pods that run or may start, with the resources that they have been allocated,
// and whether all pods of the API are known.
func (k *Kubelet) activePods() (pods []*corev1.Pod, all bool) {
	for _, pod := range k.onNode() {
		w := k.find(pod.UID)
		if w != nil && isClosed(w.ended) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		pods = append(pods, k.allocations.Peek(pod))
	}
	return pods, isClosed(k.pods.Synced())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// podCgroup returns the cgroup of a pod, such as /kubepods/burstable/podUID; empty if it has none.
func (k *Kubelet) podCgroup(pod *corev1.Pod) string { return k.groups.Path(pod) }

// processes returns the number of processes in the cgroup of a pod; false if it is not known.
func (k *Kubelet) processes(pod *corev1.Pod) (int, bool) {
	group := k.podCgroup(pod)
	if group == "" {
		return 0, false
	}
	n, err := k.cgroups.Processes(group)
	return n, err == nil
}

// podMemory returns the working set of the cgroup of a pod, in bytes; false if it is not known.
func (k *Kubelet) podMemory(pod *corev1.Pod) (int64, bool) {
	group := k.podCgroup(pod)
	if group == "" {
		return 0, false
	}
	n, err := k.cgroups.WorkingSet(group)
	return n, err == nil
}

// enforcesPods reports whether all pods together are limited to what is not reserved.
func (c *Config) enforcesPods() bool {
	return c.CgroupRoot != "" && slices.Contains(c.Cgroups.Enforce, EnforcePods)
}

// allocatableMemory returns the memory that all pods may use together, and what is left of it; false if
// they are not limited together.
func (k *Kubelet) allocatableMemory() (eviction.Level, bool) {
	if !k.config.enforcesPods() {
		return eviction.Level{}, false
	}
	limits, err := k.cgroups.Limits(k.config.CgroupRoot)
	used, err2 := k.cgroups.WorkingSet(k.config.CgroupRoot)
	if err != nil || err2 != nil || limits.Memory == 0 {
		return eviction.Level{}, false
	}
	return eviction.Level{Available: max(limits.Memory-used, 0), Capacity: limits.Memory}, true
}

// makePodCgroup creates the cgroup of a pod's sandbox and containers.
func (k *Kubelet) makePodCgroup(pod *corev1.Pod) error {
	if !k.groups.Exists(pod.UID) {
		k.updateClasses()
	}
	limits, err := k.groups.Create(pod)
	if err == nil && limits != nil {
		k.allocations.SetCgroup(pod.UID, *limits)
	}
	return err
}

// endCgroup removes the cgroup of a pod that has ended for good.
func (w *worker) endCgroup() error {
	k := w.kubelet
	if !k.groups.Exists(w.uid) {
		return nil
	}
	err := k.groups.Remove(w.uid)
	k.updateClasses()
	return err
}

// updateClasses sets the shares of burstable and of best effort pods. An error does not hold up a pod:
// they are set again every minute.
func (k *Kubelet) updateClasses() {
	if err := k.groups.Update(); err != nil {
		k.log.Error(err, "update cgroups of qualities of service")
	}
}

// keepCgroups sets the cgroups of all pods every minute, and once all are known, until ctx is done. The
// limit of all pods together is tried until it was set once, since the kernel refuses one that is less
// than the memory in use.
func (k *Kubelet) keepCgroups(ctx context.Context, limits *nodeLimits, limited bool) {
	tick := time.NewTicker(cgroupsPeriod)
	defer tick.Stop()
	for synced := k.pods.Synced(); ; {
		k.updateClasses()
		select {
		case <-ctx.Done():
			return
		case <-synced:
			synced = nil
		case <-tick.C:
			limited = limited || limits.limitPods()
		}
	}
}

// nodeLimits limits what all pods may use together, and the cgroups of what is reserved.
type nodeLimits struct{ kubelet *Kubelet }

// capacityWithProcesses returns the capacity of the machine and the number of processes that it can have.
func (l *nodeLimits) capacityWithProcesses() corev1.ResourceList {
	k := l.kubelet
	list := maps.Clone(k.host.Capacity)
	if _, most, err := machine.Processes("/proc"); err == nil {
		list[podcgroups.Processes] = *resource.NewQuantity(most, resource.DecimalSI)
	}
	return list
}

// checkReserved returns an error if more is reserved than the machine has, or if its cgroups cannot do
// what they should.
func (l *nodeLimits) checkReserved() error {
	k := l.kubelet
	c, capacity := k.config, l.capacityWithProcesses()
	if single := c.Cgroups.SingleProcessOOMKill; single != nil && !*single && !k.cgroups.Unified() {
		return errors.New("kubelet: singleProcessOOMKill must not be explicitly set to false when using cgroup v1")
	}
	err := nodestatus.CheckReserved(capacity, c.SystemReserved, c.KubeReserved, eviction.Reserved(c.Eviction.Thresholds, k.host.Capacity))
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	return nil
}

// enforce limits the cgroups that Cgroups.Enforce names. It returns an error if that of a reservation
// cannot be limited, and whether all pods together were.
func (l *nodeLimits) enforce() (bool, error) {
	k := l.kubelet
	if k.config.CgroupRoot == "" {
		return true, nil
	}
	limited := l.limitPods()
	c := k.config.Cgroups
	for _, name := range c.Enforce {
		what, path, reserved := "system", c.SystemReserved, k.config.SystemReserved
		switch name {
		case EnforceSystemReserved, EnforceSystemReservedCompressible:
		case EnforceKubeReserved, EnforceKubeReservedCompressible:
			what, path, reserved = "kube", c.KubeReserved, k.config.KubeReserved
		default:
			continue
		}
		compressible := name == EnforceSystemReservedCompressible || name == EnforceKubeReservedCompressible
		if err := k.groups.Enforce(path, reserved, compressible); err != nil {
			message := fmt.Sprintf("Failed to enforce %s Reserved %sCgroup Limits on %q: %v",
				map[string]string{"system": "System", "kube": "Kube"}[what], map[bool]string{true: "Compressible "}[compressible], path, err)
			k.events.Node(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", message)
			return limited, fmt.Errorf("kubelet: %s", message)
		}
		k.events.Node(corev1.EventTypeNormal, "NodeAllocatableEnforced", fmt.Sprintf("Updated limits on %s reserved cgroup %s", what, path))
	}
	return limited, nil
}

// keptProcesses is the part of the processes and threads of a machine that pods cannot have, unless the
// configuration reserves another: an eighth, some thousands. Without any, a pod that forks without end takes
// them all, and the kernel ends a kubelet, runtime or API server that cannot start a thread.
const keptProcesses = 8

// limitPods limits all pods together to what is not reserved, or to the capacity of the machine, and
// reports whether it could. The limit does not count the thresholds of evictions: those come first.
func (l *nodeLimits) limitPods() bool {
	k := l.kubelet
	c := k.config
	list := l.capacityWithProcesses()
	all := list[podcgroups.Processes]
	if slices.Contains(c.Cgroups.Enforce, EnforcePods) {
		list = nodestatus.Allocatable(list, c.SystemReserved, c.KubeReserved)
	}
	if left := list[podcgroups.Processes]; left.Cmp(all) == 0 {
		list[podcgroups.Processes] = *resource.NewQuantity(all.Value()-all.Value()/keptProcesses, resource.DecimalSI)
	}
	if err := k.groups.Limit(list); err != nil {
		k.log.Error(err, "limit all pods", "cgroup", c.CgroupRoot)
		k.events.Node(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", c.CgroupRoot, err))
		return false
	}
	k.events.Node(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return true
}

// killsTogether reports whether all processes of a container are killed that exceeds its memory limit.
func (k *Kubelet) killsTogether() bool {
	single := k.config.Cgroups.SingleProcessOOMKill
	return (single == nil || !*single) && k.cgroups.Unified()
}
