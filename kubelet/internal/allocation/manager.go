// Package allocation grants pods the resources in their specs, as far as the node has room, and
// remembers across restarts of the kubelet what was granted and what was carried out.
//
//	m := allocation.New(allocation.Config{Directory: podDirectory, Pods: podsOnNode, ...})
//	pod = m.Sync(pod) // the pod with the resources that it has been allocated
//
// A new pod is allocated what its spec says. A resize is allocated at once if it fits, or else
// deferred, and decided again when another pod has ended or shrunk, and every three minutes. Package
// resize has the rules. The state of a pod is a file in the pod's directory. If it cannot be read,
// this is logged and the pod is treated as a new one; the runtime is given the sizes of its containers
// again, and does not restart them.
package allocation

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstRetry is when deferred resizes are first decided again, and retryPeriod the interval after
	// that.
	firstRetry  = 30 * time.Second
	retryPeriod = 3 * time.Minute
)

// Triggers name the changes after which the manager decides again about deferred resizes, in the words of
// Kubernetes' metrics.
const (
	TriggerPeriodic   = "periodic_retry"
	TriggerUpdated    = "pod_updated"
	TriggerResized    = "pod_resized"
	TriggerRemoved    = "pods_removed"
	TriggerTerminated = "pod_terminated"
)

// Config configures a Manager. All functions must be set. They must be safe for concurrent use and
// must not call the Manager.
type Config struct {
	// Directory returns the directory of a pod's files.
	Directory func(uid types.UID) string
	// Pods returns the newest versions of all pods on the node.
	Pods func() []*corev1.Pod
	// Allocatable returns what the node can give to pods.
	Allocatable func() corev1.ResourceList
	// StaticCPU means that containers of Guaranteed pods have CPUs of their own.
	StaticCPU bool
	// Event records an event about a pod.
	Event func(pod *corev1.Pod, kind, reason, message string)
	// Wake makes the kubelet sync a pod.
	Wake func(uid types.UID)
	// Infeasible is called when a resize is found to be impossible, with the reason in the words of
	// Kubernetes' metrics. Accepted is called when a deferred resize is allocated, with one of the triggers
	// below. Both may be nil.
	Infeasible func(detail string)
	Accepted   func(trigger string)

	Log logr.Logger
}

// Manager allocates the resources of the pods of one node. It is safe for concurrent use.
type Manager struct {
	config Config
	again  chan string // of size 1: the trigger by which pending resizes must be decided again

	mu sync.Mutex
	// mu guards the fields below.
	pods map[types.UID]*state
}

// state is the state of one pod.
type state struct {
	*record
	// asked is the pod whose resize is pending; nil if none is.
	asked *corev1.Pod
	// stopping means that the pod gets nothing more.
	stopping bool
	// pending and progress are its conditions; they may be nil.
	pending, progress *corev1.PodCondition
	// unsaved means that the record could not be written.
	unsaved bool
}

// New returns a manager. It reads the files of pods when it first sees them.
func New(c Config) *Manager {
	return &Manager{config: c, again: make(chan string, 1), pods: map[types.UID]*state{}}
}

// Run decides deferred resizes again, until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	timer := time.NewTimer(firstRetry)
	defer timer.Stop()
	for {
		trigger := TriggerPeriodic
		select {
		case <-ctx.Done():
			return
		case trigger = <-m.again:
		case <-timer.C:
		}
		m.mu.Lock()
		m.decide(trigger)
		m.mu.Unlock()
		timer.Reset(retryPeriod)
	}
}

// retry makes Run decide deferred resizes again. It does not block.
func (m *Manager) retry(trigger string) {
	select {
	case m.again <- trigger:
	default:
	}
}

// PodChanged makes Run decide deferred resizes again if a change of a pod may have made room. It does
// not block. old is nil for a new pod, and pod is nil for one that is gone.
func (m *Manager) PodChanged(old, pod *corev1.Pod) {
	switch {
	case old == nil:
	case pod == nil:
		m.retry(TriggerRemoved)
	case !resize.Frees(old, pod):
	case resize.Ended(pod):
		m.retry(TriggerTerminated)
	default:
		m.retry(TriggerResized)
	}
}

// Sync decides about a resize that pod asks for, and returns pod with the resources that it has been
// allocated.
func (m *Manager) Sync(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(pod)
	if s.record == nil {
		m.admit(pod, s)
		return pod
	}
	if s.unsaved {
		m.save(pod.UID, s)
	}
	allocated := s.Allocated.Apply(pod)
	if allocated == pod || resize.Ended(pod) {
		s.asked, s.pending = nil, nil
		return allocated
	}
	decided := s.asked != nil && s.asked.Generation == pod.Generation
	s.asked = pod
	if !decided {
		m.decide(TriggerUpdated)
		allocated = s.Allocated.Apply(pod)
	}
	return allocated
}

// Stopping returns a pod that is being stopped with the resources that it has been allocated. A
// pending resize of it is dropped.
func (m *Manager) Stopping(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state(pod)
	s.stopping, s.asked, s.pending, s.progress = true, nil, nil, nil
	return m.allocated(pod)
}

// Allocated returns a pod with the resources that it has been allocated; the pod itself if it has none
// yet.
func (m *Manager) Allocated(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.allocated(pod)
}

// Peek returns a pod with the resources that it has been allocated, as far as they were read before. It
// keeps nothing of a pod that it has not seen.
func (m *Manager) Peek(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.pods[pod.UID]; s != nil && s.record != nil {
		return s.Allocated.Apply(pod)
	}
	return pod
}

// allocated returns pod with the resources that it has been allocated. The caller holds mu.
func (m *Manager) allocated(pod *corev1.Pod) *corev1.Pod {
	if s := m.state(pod); s.record != nil {
		return s.Allocated.Apply(pod)
	}
	return pod
}

// state returns the state of a pod, which it reads when it first sees the pod. The conditions are
// then those that the pod has in the API.
func (m *Manager) state(pod *corev1.Pod) *state {
	s := m.pods[pod.UID]
	if s != nil {
		return s
	}
	s = &state{}
	m.pods[pod.UID] = s
	var err error
	if s.record, err = read(m.path(pod.UID)); err != nil {
		m.config.Log.Error(err, "the allocated resources of a pod are lost; those in its spec apply", "pod", pod.Namespace+"/"+pod.Name)
	}
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; c.Type {
		case corev1.PodResizePending:
			s.pending = c.DeepCopy()
		case corev1.PodResizeInProgress:
			s.progress = c.DeepCopy()
		}
	}
	return s
}

func (m *Manager) path(uid types.UID) string {
	return filepath.Join(m.config.Directory(uid), "resources.json")
}

// admit allocates the resources in the spec. Nothing is kept of a pod that has none: it can never
// get any.
func (m *Manager) admit(pod *corev1.Pod, s *state) {
	sizes := resize.Of(pod)
	s.asked, s.pending = nil, nil
	if sizes.Empty() {
		return
	}
	s.record = &record{Allocated: sizes}
	m.save(pod.UID, s)
}

// save writes the state of a pod. After a failure, Sync tries again; it matters only if the kubelet is
// restarted before.
func (m *Manager) save(uid types.UID, s *state) {
	err := write(m.path(uid), s.record)
	s.unsaved = err != nil
	if err != nil {
		m.config.Log.Error(err, "write the resources of a pod", "uid", uid)
	}
}

// decide decides about all pending resizes, in their order, also of pods that were not synced yet. The
// caller holds mu.
func (m *Manager) decide(trigger string) {
	node := resize.Node{Allocatable: m.config.Allocatable(), StaticCPU: m.config.StaticCPU}
	for _, pod := range m.config.Pods() {
		if resize.Ended(pod) {
			continue
		}
		allocated := m.allocated(pod)
		node.Pods = append(node.Pods, allocated)
		if s := m.pods[pod.UID]; allocated != pod && !s.stopping && pod.DeletionTimestamp == nil {
			s.asked = pod
		}
	}
	var list []resize.Pending
	for _, s := range m.pods {
		if s.asked == nil || s.pending != nil && s.pending.Reason == corev1.PodReasonInfeasible && s.pending.ObservedGeneration == s.asked.Generation {
			continue
		}
		p := resize.Pending{Pod: s.asked, Allocated: s.Allocated.Apply(s.asked)}
		if s.pending != nil {
			p.Since = s.pending.LastTransitionTime.Time
		}
		list = append(list, p)
	}
	resize.Sort(list)
	for _, p := range list {
		s := m.pods[p.Pod.UID]
		if refusal := resize.Decide(p.Pod, p.Allocated, node); refusal != nil {
			m.postpone(p.Pod, s, refusal)
			continue
		}
		deferred := s.pending != nil && s.pending.Reason == corev1.PodReasonDeferred
		if !m.allocate(p.Pod, s) {
			continue
		}
		if deferred && m.config.Accepted != nil {
			m.config.Accepted(trigger)
		}
		if i := slices.IndexFunc(node.Pods, func(other *corev1.Pod) bool { return other.UID == p.Pod.UID }); i >= 0 {
			node.Pods[i] = p.Pod
		}
	}
}

// allocate grants a pod the size in its spec. It reports whether this could be written.
func (m *Manager) allocate(pod *corev1.Pod, s *state) bool {
	next := *s.record
	next.Allocated = resize.Of(pod)
	if err := write(m.path(pod.UID), &next); err != nil {
		m.config.Log.Error(err, "allocate the resources of a pod", "pod", pod.Namespace+"/"+pod.Name)
		return false
	}
	s.record, s.asked, s.pending, s.unsaved = &next, nil, nil, false
	s.progress = condition(corev1.PodResizeInProgress, nil, "", "", pod.Generation)
	m.config.Event(pod, corev1.EventTypeNormal, "ResizeStarted", resize.Message("Pod resize started", pod, pod.Generation, ""))
	m.config.Wake(pod.UID)
	return true
}

// postpone records why a resize is pending.
func (m *Manager) postpone(pod *corev1.Pod, s *state, r *resize.Refusal) {
	before := s.pending
	s.pending = condition(corev1.PodResizePending, before, r.Condition(), r.Message, pod.Generation)
	if before == nil || before.Reason != s.pending.Reason || before.ObservedGeneration != pod.Generation {
		event := "ResizeDeferred"
		if r.Condition() == corev1.PodReasonInfeasible {
			event = "ResizeInfeasible"
			if m.config.Infeasible != nil {
				m.config.Infeasible(r.Detail)
			}
		}
		m.config.Event(pod, corev1.EventTypeWarning, event, resize.Message("Pod resize "+r.Reason, pod, pod.Generation, r.Message))
	}
	if before == nil || before.Reason != s.pending.Reason || before.Message != r.Message || before.ObservedGeneration != pod.Generation {
		m.config.Wake(pod.UID)
	}
}

// condition returns a condition that is true. Its transition time is that of before if the reason is
// the same.
func condition(kind corev1.PodConditionType, before *corev1.PodCondition, reason, message string, generation int64) *corev1.PodCondition {
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	c := &corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
		Reason: reason, Message: message, ObservedGeneration: generation,
	}
	if before != nil && before.Reason == reason {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return c
}

// Conditions returns the conditions of a pod about its resizes; nil if it has none.
func (m *Manager) Conditions(uid types.UID) (pending, progress *corev1.PodCondition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.pods[uid]; s != nil {
		return s.pending, s.progress
	}
	return nil, nil
}

// Counts returns how many resizes are pending, by the reason of the condition, and how many are in
// progress.
func (m *Manager) Counts() (pending map[string]int, progress int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pending = map[string]int{}
	for _, s := range m.pods {
		if s.pending != nil {
			pending[s.pending.Reason]++
		}
		if s.progress != nil {
			progress++
		}
	}
	return pending, progress
}

// Progress records whether something of a pod that runs does not have its allocated size yet. It
// ignores a pod that has been allocated another size meanwhile.
func (m *Manager) Progress(allocated *corev1.Pod, resizing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[allocated.UID]
	if s == nil || s.record == nil || s.Allocated.Apply(allocated) != allocated {
		return
	}
	switch {
	case resizing && s.progress == nil:
		s.progress = condition(corev1.PodResizeInProgress, nil, "", "", allocated.Generation)
	case !resizing && s.progress != nil:
		m.config.Event(allocated, corev1.EventTypeNormal, "ResizeCompleted",
			resize.Message("Pod resize completed", allocated, s.progress.ObservedGeneration, ""))
		s.progress = nil
	}
}

// Failed records that a resize could not be carried out.
func (m *Manager) Failed(allocated *corev1.Pod, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[allocated.UID]
	if s == nil {
		return
	}
	before, generation := s.progress, allocated.Generation
	if before != nil {
		generation = before.ObservedGeneration
		if before.Reason == corev1.PodReasonError && before.Message == problem {
			return
		}
	}
	s.progress = condition(corev1.PodResizeInProgress, before, corev1.PodReasonError, problem, generation)
	m.config.Event(allocated, corev1.EventTypeWarning, "ResizeError", resize.Message("Pod resize error", allocated, generation, problem))
}

// Actuated returns the sizes that the runtime was last given, by container, and the limits that were
// last written to the pod's cgroup; nil if they are unknown.
func (m *Manager) Actuated(uid types.UID) (map[string]corev1.ResourceRequirements, *cgroup.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[uid]
	if s == nil || s.record == nil {
		return nil, nil
	}
	return s.Actuated.Clone().Containers, s.Cgroup
}

// SetContainer records the size that the runtime was given for a container.
func (m *Manager) SetContainer(uid types.UID, name string, size corev1.ResourceRequirements) {
	m.change(uid, func(r *record) {
		r.Actuated = r.Actuated.Clone()
		if r.Actuated.Containers == nil {
			r.Actuated.Containers = map[string]corev1.ResourceRequirements{}
		}
		r.Actuated.Containers[name] = *size.DeepCopy()
	})
}

// SetCgroup records the limits of the pod's cgroup.
func (m *Manager) SetCgroup(uid types.UID, limits cgroup.Limits) {
	m.change(uid, func(r *record) { r.Cgroup = &limits })
}

func (m *Manager) change(uid types.UID, change func(*record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[uid]
	if s == nil || s.record == nil {
		return
	}
	next := *s.record
	change(&next)
	s.record = &next
	m.save(uid, s)
}

// Forget forgets a pod that is gone, with all its files.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	delete(m.pods, uid)
	m.mu.Unlock()
	m.retry(TriggerRemoved)
}
