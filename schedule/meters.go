package schedule

import (
	"math/rand/v2"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Meters are called with what the scheduler does. Each may be nil. They must be safe for concurrent use, must
// not block, and must not call the scheduler. A profile is the schedulerName of a pod. Package metrics has
// Meters for Prometheus.
type Meters struct {
	// Attempted is called when an attempt to schedule a pod has ended, with its result: scheduled,
	// unschedulable or error; and with the time since the pod left the queue, until it was bound.
	Attempted func(profile, result string, took time.Duration)
	// Decided is called with the time that the decision took, including the search for a preemption.
	Decided func(took time.Duration)
	// Scheduled is called when a pod is bound, with the number of attempts and the time since the first one.
	Scheduled func(attempts int, took time.Duration)
	// ScheduledAfterFlush is called when a pod is bound whose last attempt began because it was parked for five
	// minutes. An event that should have woken it was perhaps missed.
	ScheduledAfterFlush func()
	// Queued is called when a pod enters a queue: active, backoff or unschedulable; with the event that was
	// the reason, such as UnschedulablePodAdd or BackoffComplete.
	Queued func(queue, event string)
	// Preempting is called when a pod that fits no node looks for pods to preempt, with the number of victims.
	// 0 means that none were found.
	Preempting func(victims int)
	// Waited is called with the time that a pod has waited for a permission and how that ended: Success,
	// Unschedulable or Error.
	Waited func(status string, took time.Duration)
	// Extended is called when all extensions were asked at a point: Reserve, Unreserve, Permit, PreBind, Bind
	// or PostBind; or when pods to preempt were looked for, which is PostFilter. Filter and Score are the two
	// parts of a decision in which no extender takes part; only one node needs no Score. The status is
	// Success, Unschedulable, Error or Wait.
	Extended func(profile, point, status string, took time.Duration)
	// Executed is called when one extension was asked at one of these points but Filter and Score, and when the search
	// for pods to preempt has ended, whose plugin is DefaultPreemption. As in kube-scheduler, a tenth of the calls
	// is measured, chosen at random.
	Executed func(plugin, point, status string, took time.Duration)
	// Handled is called when a change of a node, a pod, a namespace or a source was handled, with the name of the
	// event, such as NodeAdd or AssignedPodDelete.
	Handled func(event string, took time.Duration)
	// Count is called when a run begins, with a function that counts what the scheduler holds, and with nil
	// when the run ends.
	Count func(counts func() Counts)
}

// Counts counts what a scheduler holds.
type Counts struct {
	// Active, Backoff and Unschedulable count the pods in each queue, and Gated those with scheduling gates.
	Active, Backoff, Unschedulable, Gated int
	// Nodes and Pods count the nodes and the pods on them. Assumed counts those pods of them whose binding the
	// cache does not show yet.
	Nodes, Pods, Assumed int
	// Binding counts the pods that are being bound.
	Binding int
	// Evaluations counts the questions to predicates and priorities since the run began. What is known for pods that
	// are alike is not asked again.
	Evaluations map[Evaluation]uint64
	// Refused counts the pods that were refused in their last attempt, or have scheduling gates, by each
	// predicate or extension.
	Refused map[Refusal]int
}

// Refusal says what has refused a pod.
type Refusal struct{ Plugin, Profile string }

// The results of an attempt.
const (
	scheduled     = "scheduled"
	unschedulable = "unschedulable"
	failed        = "error"
)

// The statuses of extensions.
const (
	statusSuccess       = "Success"
	statusUnschedulable = "Unschedulable"
	statusError         = "Error"
	statusWait          = "Wait"
)

// attempt is one attempt to schedule a pod.
type attempt struct {
	pod *PodInfo
	// began is the time of the attempt, first that of the first one.
	began, first time.Time
	// count is the number of this attempt.
	count int
	// flushed says that the pod was parked for too long before.
	flushed bool
}

func (m *Meters) attempted(a *attempt, result string) {
	if m.Attempted != nil {
		m.Attempted(a.pod.Pod.Spec.SchedulerName, result, time.Since(a.began))
	}
	if result == scheduled && m.Scheduled != nil {
		m.Scheduled(a.count, time.Since(a.first))
	}
	if result == scheduled && a.flushed && m.ScheduledAfterFlush != nil {
		m.ScheduledAfterFlush()
	}
}

func (m *Meters) decided(began time.Time) {
	if m.Decided != nil {
		m.Decided(time.Since(began))
	}
}

func (m *Meters) queued(queue, event string) {
	if m.Queued != nil {
		m.Queued(queue, event)
	}
}

func (m *Meters) preempting(pod *PodInfo, victims int, began time.Time) {
	if m.Preempting != nil {
		m.Preempting(victims)
	}
	status := statusUnschedulable
	if victims > 0 {
		status = statusSuccess
	}
	m.extended(pod.Pod, "PostFilter", status, began)
	if m.Executed != nil && isSampled() {
		m.Executed("DefaultPreemption", "PostFilter", status, time.Since(began))
	}
}

// sampleOneIn says that one of so many calls of extensions is measured.
const sampleOneIn = 10

func isSampled() bool { return rand.IntN(sampleOneIn) == 0 }

// sample returns the time if the next call of an extension is to be measured, and the zero time otherwise.
func (m *Meters) sample() (began time.Time) {
	if m.Executed != nil && isSampled() {
		began = time.Now()
	}
	return began
}

// executed ends the call of an extension that began at a time of sample.
func (m *Meters) executed(plugin, point, status string, began time.Time) {
	if !began.IsZero() {
		m.Executed(plugin, point, status, time.Since(began))
	}
}

func (m *Meters) handled(event string, began time.Time) {
	if m.Handled != nil {
		m.Handled(event, time.Since(began))
	}
}

func (m *Meters) waited(w *waitingPod) {
	if m.Waited != nil && w.waited {
		m.Waited(waitStatus[w.outcome.kind], time.Since(w.since))
	}
}

// waitStatus has the status of each outcome of a wait.
var waitStatus = map[outcomeKind]string{allowed: statusSuccess, refused: statusUnschedulable, preempted: statusError, gone: statusUnschedulable}

func (m *Meters) extended(pod *corev1.Pod, point, status string, began time.Time) {
	if m.Extended != nil {
		m.Extended(pod.Spec.SchedulerName, point, status, time.Since(began))
	}
}

// measure measures the parts of a decision, until the function that it returns is called.
func (m *Meters) measure(s *State, pod *PodInfo) (done func()) {
	if m.Extended == nil {
		return func() {}
	}
	began := time.Now()
	var filtered time.Time
	s.scoring = func() { filtered = time.Now() }
	return func() {
		s.scoring = nil
		profile, ended := pod.Pod.Spec.SchedulerName, time.Now()
		if filtered.IsZero() {
			m.Extended(profile, "Filter", statusSuccess, ended.Sub(began))
			return
		}
		m.Extended(profile, "Filter", statusSuccess, filtered.Sub(began))
		m.Extended(profile, "Score", statusSuccess, ended.Sub(filtered))
	}
}

func statusOfVerdict(v Verdict) string {
	if v.OK() {
		return statusSuccess
	}
	return statusUnschedulable
}

func statusOfError(err error) string {
	if err != nil {
		return statusError
	}
	return statusSuccess
}

// podLabel returns kube-scheduler's name of a change of a pod.
func podLabel(old, pod *corev1.Pod) string {
	action := "Update"
	switch {
	case old == nil:
		action = "Add"
	case pod == nil:
		action = "Delete"
	}
	if either(pod, old).Spec.NodeName == "" {
		return "UnschedulablePod" + action
	}
	return "AssignedPod" + action
}

// label returns kube-scheduler's name of an event.
func (e Event) label() string {
	object, action := e.New, "Add"
	switch {
	case e.New == nil:
		object, action = e.Old, "Delete"
	case e.Old != nil:
		action = "Update"
	}
	if _, ok := object.(*PodInfo); ok {
		return "AssignedPod" + action
	}
	if t := reflect.TypeOf(object); t != nil && t.Kind() == reflect.Pointer {
		return t.Elem().Name() + action
	}
	return "Other" + action
}

// The other reasons to enter a queue.
const (
	podAdded        = "UnschedulablePodAdd"
	podUpdated      = "UnschedulablePodUpdate"
	attemptFailed   = "ScheduleAttemptFailure"
	backoffComplete = "BackoffComplete"
	parkedTooLong   = "UnschedulableTimeout"
	activated       = "ForceActivate"
)

// counts counts what the loop holds.
func (l *loop) counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Counts{
		Active: l.queue.ready.Len() + l.queue.turns.Len(), Backoff: l.queue.backoff.Len(), Unschedulable: l.queue.parked.Len(), Gated: len(l.gated),
		Nodes: len(l.state.order), Pods: len(l.state.pods), Binding: int(l.binding.Load()), Evaluations: l.state.evaluations(), Refused: make(map[Refusal]int),
	}
	for _, p := range l.state.pods {
		if p.assumed {
			c.Assumed++
		}
	}
	for _, e := range l.queue.entries {
		for _, plugin := range e.refusers {
			c.Refused[Refusal{plugin, e.pod.Pod.Spec.SchedulerName}]++
		}
	}
	for _, profile := range l.gated {
		c.Refused[Refusal{"SchedulingGates", profile}]++
	}
	return c
}
