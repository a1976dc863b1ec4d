package cpumanager

import (
	"errors"
	"fmt"
	"maps"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

// SMTAlignmentError means that a container cannot have whole cores.
type SMTAlignmentError struct {
	Requested, PerCore int
	// Available is the number of free CPUs in whole cores; negative if the request itself is no multiple
	// of a core.
	Available int
}

func (e *SMTAlignmentError) Error() string {
	if e.Available >= 0 {
		return fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d", e.Available, e.Requested, e.PerCore)
	}
	return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.Requested, e.PerCore)
}

// Reasons of pods that the node refuses.
const (
	ReasonUnexpected   = "UnexpectedAdmissionError"
	ReasonSMTAlignment = "SMTAlignmentError"
)

// Refusal returns the reason and the message with which Kubernetes refuses a pod for an error of Admit.
func Refusal(err error) (reason, message string) {
	if e, ok := errors.AsType[*SMTAlignmentError](err); ok {
		return ReasonSMTAlignment, e.Error()
	}
	return ReasonUnexpected, fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)
}

// assignments are the CPUs that containers own, by pod UID and container name, and those that the other
// containers share.
type assignments struct {
	shared Set
	pods   map[string]map[string]Set
}

func (a assignments) clone() assignments {
	pods := make(map[string]map[string]Set, len(a.pods))
	for uid, containers := range a.pods {
		pods[uid] = maps.Clone(containers)
	}
	return assignments{shared: a.shared, pods: pods}
}

// static is the policy that gives CPUs to containers. It is a pure function of its fields.
type static struct {
	options  options
	topology Topology
	reserved Set
	// all are the CPUs that pods may use.
	all Set
}

// newStatic returns the static policy of a machine. Without a list, the lowest CPUs are reserved.
func newStatic(t Topology, o options, list Set, count int) (*static, error) {
	if list.Len() == 0 {
		if count <= 0 {
			return nil, errors.New("the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
		}
		var err error
		if list, err = t.take(t.All(), count); err != nil {
			return nil, fmt.Errorf("unable to reserve the required amount of CPUs: %w", err)
		}
	}
	if !list.Within(t.All()) {
		return nil, fmt.Errorf("reserved CPUs %s are not among the online CPUs %s", list.Minus(t.All()), t.All())
	}
	s := &static{options: o, topology: t, reserved: list, all: t.All()}
	if o.strictReservation {
		s.all = s.all.Minus(list)
	}
	return s, nil
}

// check returns an error if assignments cannot be of this machine and policy.
func (s *static) check(a assignments) error {
	switch {
	case a.shared.Len() == 0 && len(a.pods) > 0 && !s.options.strictReservation:
		return errors.New("default cpuset cannot be empty")
	case s.options.strictReservation && a.shared.And(s.reserved).Len() > 0:
		return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", a.shared.And(s.reserved), a.shared)
	case !s.options.strictReservation && !s.reserved.Within(a.shared):
		return fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", s.reserved, a.shared)
	}
	known, owners := a.shared, map[int]string{}
	for uid, containers := range a.pods {
		for name, cpus := range containers {
			if cpus.And(a.shared).Len() > 0 {
				return fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", uid, name, cpus, a.shared)
			}
			for _, cpu := range cpus.List() {
				if owner, taken := owners[cpu]; taken && owner != uid {
					return fmt.Errorf("pods %s and %s both have CPU %d", min(owner, uid), max(owner, uid), cpu)
				}
				owners[cpu] = uid
			}
			known = known.Union(cpus)
		}
	}
	if !known.Equal(s.all) {
		return fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", s.all, known)
	}
	return nil
}

// admit returns the assignments with those of a pod. Containers that have their CPUs keep them. App
// containers can have the CPUs of init containers that have ended before.
func (s *static) admit(a assignments, pod *corev1.Pod) (assignments, error) {
	next, uid := a.clone(), string(pod.UID)
	var reusable Set
	assign := func(c *corev1.Container, ends bool) error {
		n := ExclusiveCPUs(pod, c)
		if n == 0 {
			return nil
		}
		cpus, have := next.pods[uid][c.Name]
		if !have {
			var err error
			if cpus, err = s.choose(next.shared.Minus(s.reserved).Union(reusable), n); err != nil {
				return err
			}
		}
		if next.pods[uid] == nil {
			next.pods[uid] = map[string]Set{}
		}
		next.pods[uid][c.Name] = cpus
		next.shared = next.shared.Minus(cpus)
		if reusable = reusable.Minus(cpus); ends {
			reusable = reusable.Union(cpus)
		}
		return nil
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if err := assign(c, !sidecar); err != nil {
			return a, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := assign(&pod.Spec.Containers[i], false); err != nil {
			return a, err
		}
	}
	return next, nil
}

// choose chooses n free CPUs for a container.
func (s *static) choose(free Set, n int) (Set, error) {
	if !s.options.fullCores {
		return s.topology.take(free, n)
	}
	perCore := s.topology.threads()
	if n%perCore != 0 {
		return Set{}, &SMTAlignmentError{Requested: n, PerCore: perCore, Available: -1}
	}
	whole := s.topology.wholeCores(free)
	if n > whole.Len() {
		return Set{}, &SMTAlignmentError{Requested: n, PerCore: perCore, Available: whole.Len()}
	}
	// Other CPUs only count for the order of groups, as in Kubernetes, unless cores differ in size.
	cpus, err := s.topology.take(free, n)
	if err == nil && !s.topology.wholeCores(cpus).Equal(cpus) {
		cpus, err = s.topology.take(whole, n)
	}
	return cpus, err
}

// release returns the assignments without those of a pod.
func (s *static) release(a assignments, uid string) assignments {
	next := a.clone()
	for _, cpus := range next.pods[uid] {
		next.shared = next.shared.Union(cpus)
	}
	delete(next.pods, uid)
	return next
}

// ExclusiveCPUs returns how many CPUs the static policy gives to a container: its request, if the pod
// is Guaranteed without resources of the pod as a whole and the request is an integer; otherwise 0.
func ExclusiveCPUs(pod *corev1.Pod, c *corev1.Container) int {
	if own := pod.Spec.Resources; own != nil && len(own.Requests)+len(own.Limits) > 0 {
		return 0
	}
	if qos.Class(pod) != corev1.PodQOSGuaranteed {
		return 0
	}
	request, ok := c.Resources.Requests[corev1.ResourceCPU]
	if !ok {
		request = c.Resources.Limits[corev1.ResourceCPU]
	}
	if request.Value()*1000 != request.MilliValue() {
		return 0
	}
	return int(request.Value())
}
