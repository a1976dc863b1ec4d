package resize

import (
	"slices"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Same reports whether a and b have the same cpu and memory. An amount that is missing equals zero.
func Same(a, b corev1.ResourceRequirements) bool {
	return sameIn(a, b, corev1.ResourceCPU) && sameIn(a, b, corev1.ResourceMemory)
}

func sameIn(a, b corev1.ResourceRequirements, name corev1.ResourceName) bool {
	return amount(a.Requests, name) == amount(b.Requests, name) && amount(a.Limits, name) == amount(b.Limits, name)
}

// Restarts reports whether a container must be restarted to get from the size now to that in its
// spec.
func Restarts(c *corev1.Container, now corev1.ResourceRequirements) bool {
	for _, policy := range c.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer && !sameIn(c.Resources, now, policy.ResourceName) {
			return true
		}
	}
	return false
}

// An Update is a running container that gets the size in its spec.
type Update struct {
	ID   string
	Spec *corev1.Container
	// Now is the actuated size; without one it is unknown.
	Now *corev1.ResourceRequirements
}

// A Step changes one resource, cpu or memory, of the pod's cgroup or of one container.
type Step struct {
	// Container is nil for the pod's cgroup.
	Container *Update
	// Size is the size that the container has after the step.
	Size corev1.ResourceRequirements
	// Cgroup holds the limits of the pod's cgroup after the step, of which Before differs in one field.
	Cgroup, Before cgroup.Limits
}

// Target returns the limits that a pod's cgroup gets. A limit that the pod has not is left as it is.
func Target(now, want cgroup.Limits) cgroup.Limits {
	if want.Quota == 0 {
		want.Quota = now.Quota
	}
	if want.Memory == 0 {
		want.Memory = now.Memory
	}
	return want
}

// Steps returns the steps that change a pod's cgroup from now to want and its containers to the sizes
// in their specs, so that at no time a container has more than the pod: the pod's cgroup grows
// before the containers and shrinks after them, and containers that shrink come before those that
// grow.
func Steps(now, want cgroup.Limits, updates []Update) []Step {
	b := builder{cgroup: now, sizes: map[string]corev1.ResourceRequirements{}}
	for _, u := range updates {
		b.sizes[u.ID] = known(u)
	}
	want = Target(now, want)
	memory := func() { b.pod(func(l *cgroup.Limits) { l.Memory = want.Memory }) }
	quota := func() { b.pod(func(l *cgroup.Limits) { l.Quota = want.Quota }) }
	shares := func() { b.pod(func(l *cgroup.Limits) { l.Shares = want.Shares }) }

	b.when(grows(now.Memory, want.Memory), memory)
	b.containers(updates, corev1.ResourceMemory)
	b.when(!grows(now.Memory, want.Memory), memory)

	b.when(grows(now.Quota, want.Quota), quota)
	b.when(want.Shares > now.Shares, shares)
	b.containers(updates, corev1.ResourceCPU)
	b.when(want.Shares < now.Shares, shares)
	b.when(!grows(now.Quota, want.Quota), quota)
	return b.steps
}

// grows reports whether a limit grows. Zero is no limit.
func grows(now, want int64) bool { return now != 0 && (want == 0 || want > now) }

type builder struct {
	steps  []Step
	cgroup cgroup.Limits
	sizes  map[string]corev1.ResourceRequirements // by the IDs of the containers
}

func (b *builder) when(is bool, do func()) {
	if is {
		do()
	}
}

// pod adds a step for the pod's cgroup, unless change changes nothing.
func (b *builder) pod(change func(*cgroup.Limits)) {
	before := b.cgroup
	if change(&b.cgroup); b.cgroup != before {
		b.steps = append(b.steps, Step{Cgroup: b.cgroup, Before: before})
	}
}

// known returns the size that a container has before the first step. The runtime takes only whole
// sizes: what is unknown of one is sent as it will be.
func known(u Update) corev1.ResourceRequirements {
	if u.Now == nil {
		return sized(u.Spec.Resources, u.Spec.Resources, "")
	}
	return sized(*u.Now, *u.Now, "")
}

// containers adds a step for each container of which name changes, those that shrink first.
func (b *builder) containers(updates []Update, name corev1.ResourceName) {
	var shrink, grow []Step
	for i := range updates {
		u := &updates[i]
		var now corev1.ResourceRequirements
		if u.Now != nil {
			now = *u.Now
		}
		if sameIn(u.Spec.Resources, now, name) {
			continue
		}
		b.sizes[u.ID] = sized(b.sizes[u.ID], u.Spec.Resources, name)
		step := Step{Container: u, Size: b.sizes[u.ID]}
		if shrinks(now, u.Spec.Resources, name) {
			shrink = append(shrink, step)
		} else {
			grow = append(grow, step)
		}
	}
	b.steps = append(b.steps, slices.Concat(shrink, grow)...)
}

// shrinks compares limits, or requests if the limits are the same.
func shrinks(now, want corev1.ResourceRequirements, name corev1.ResourceName) bool {
	before, after := amount(now.Limits, name), amount(want.Limits, name)
	if before == after {
		return amount(want.Requests, name) < amount(now.Requests, name)
	}
	return before != 0 && after < before || before == 0
}

// sized returns size with the amounts of name that want has, and only cpu and memory.
func sized(size, want corev1.ResourceRequirements, name corev1.ResourceName) corev1.ResourceRequirements {
	pick := func(size, want corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			from := size
			if n == name {
				from = want
			}
			if q, ok := from[n]; ok {
				out[n] = q.DeepCopy()
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: pick(size.Requests, want.Requests), Limits: pick(size.Limits, want.Limits)}
}

// Shrink is a memory limit that a resize lowers or adds.
type Shrink struct {
	Container string // empty for the pod
	Limit     int64  // bytes
}

// Shrinks returns the memory limits that a resize lowers or adds. A container of unknown size may have
// had the limit before.
func Shrinks(now, want cgroup.Limits, updates []Update) []Shrink {
	var list []Shrink
	if limit := Target(now, want).Memory; limit != now.Memory && !grows(now.Memory, limit) {
		list = append(list, Shrink{Limit: limit})
	}
	for _, u := range updates {
		if u.Now == nil {
			continue
		}
		before := amount(u.Now.Limits, corev1.ResourceMemory)
		if limit := amount(u.Spec.Resources.Limits, corev1.ResourceMemory); limit != 0 && (before == 0 || limit < before) {
			list = append(list, Shrink{u.Spec.Name, limit})
		}
	}
	return list
}

// Quantities that a runtime reports about a container, and the smallest that it can have.
const (
	minMilliCPU    = 2  // a request of less has the same weight
	minMilliLimits = 10 // a limit of less is 1 ms in each period
)

// Reported are the resources of a container as a runtime reports them; zero means that it does not.
type Reported struct {
	// MilliRequest and MilliLimit are thousandths of a cpu, and Memory is in bytes.
	MilliRequest, MilliLimit, Memory int64
}

// Actual returns the size of a running container: what the runtime reports, or else what it was last
// given, with everything else as allocated.
func Actual(allocated corev1.ResourceRequirements, given *corev1.ResourceRequirements, reported *Reported) *corev1.ResourceRequirements {
	out := allocated.DeepCopy()
	if given != nil {
		*out = overlay(*out, *given)
	}
	if reported == nil {
		return out
	}
	set := func(list corev1.ResourceList, name corev1.ResourceName, n, least int64) {
		if _, ok := list[name]; !ok || n <= 0 || amount(list, name) == n || n <= least && amount(list, name) <= least {
			return
		}
		if name == corev1.ResourceCPU {
			list[name] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		} else {
			list[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	set(out.Requests, corev1.ResourceCPU, reported.MilliRequest, minMilliCPU)
	set(out.Limits, corev1.ResourceCPU, reported.MilliLimit, minMilliLimits)
	set(out.Limits, corev1.ResourceMemory, reported.Memory, 0)
	return out
}

// overlay returns size with the cpu and memory of given.
func overlay(size, given corev1.ResourceRequirements) corev1.ResourceRequirements {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		for _, pair := range [][2]corev1.ResourceList{{size.Requests, given.Requests}, {size.Limits, given.Limits}} {
			if q, ok := pair[1][name]; ok && pair[0] != nil {
				pair[0][name] = q.DeepCopy()
			}
		}
	}
	return size
}
