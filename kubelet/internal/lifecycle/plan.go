package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
)

// Decision is the list of actions for a pod, in the order of the fields. After any action above
// Start, the pod is observed and planned again.
type Decision struct {
	// Stop holds waves of containers. The containers of a wave are stopped together, and a wave
	// after the previous one has stopped.
	Stop [][]StopAction
	// StopSandboxes, and the containers and sandboxes to remove, are IDs.
	StopSandboxes   []string
	Remove          []string
	RemoveSandboxes []string
	// Resize lists the running containers that get another size, and ResizePod means that the pod's
	// cgroup does.
	Resize          []resize.Update
	ResizePod       bool
	CreateSandbox   bool
	SandboxAttempt  uint32
	ReplacesSandbox bool // there was a sandbox before
	Start           []StartAction

	// Waiting holds the reasons why containers are held back, by name.
	Waiting map[string]corev1.ContainerStateWaiting
	// Resizing means that something that runs does not have its size yet.
	Resizing bool
	// Initialized means that all init containers have succeeded.
	Initialized bool
	// Finished means that nothing of the pod will run again.
	Finished bool
	// Overdue means that this is because the pod has exceeded its active deadline.
	Overdue bool
	// reason and message, if set, say why the pod failed as a whole.
	reason, message string
	// refused means that the node has not admitted the pod.
	refused bool
	// disruption, if set, is the message of the condition of a pod that is evicted.
	disruption string
	// Again is when the decision may change by itself; zero means never.
	Again time.Time
}

// StopAction stops a container.
type StopAction struct {
	Container Container
	// Message is the message of the event.
	Message string
	// Unhealthy means that a probe has failed. Grace is then the probe's own grace period in
	// seconds; nil means the pod's.
	Unhealthy bool
	Grace     *int64
	// Resize means that the container is started again with another size.
	Resize bool
	// SkipHook means that the container's preStop hook is not called.
	SkipHook bool
}

// StartAction creates and starts a container.
type StartAction struct {
	Spec    *corev1.Container
	Attempt uint32
	Round   uint32
	First   bool // of its name in the round
	// Failed is when the replaced container ended; zero if there is none.
	Failed time.Time
	// Target is the ID of the container whose processes the container sees; empty means its own.
	Target string
}

// Changes reports whether the decision affects what later parts of it depend on.
func (d *Decision) Changes() bool {
	return len(d.Stop)+len(d.StopSandboxes)+len(d.Remove)+len(d.RemoveSandboxes)+len(d.Resize) > 0 || d.ResizePod || d.CreateSandbox
}

// LookAgain makes sure that the pod is planned again no later than t.
func (d *Decision) LookAgain(t time.Time) {
	if d.Again.IsZero() || t.Before(d.Again) {
		d.Again = t
	}
}

// The reason and message of a pod that has exceeded its active deadline.
const (
	DeadlineExceeded = "DeadlineExceeded"
	DeadlineMessage  = "Pod was active on the node longer than the specified deadline"
)

// Plan returns the actions for a pod that must run, with its allocated resources in its spec. It
// depends only on its arguments and changes none of them. It does not decide whether to stop a pod
// for good; see StopOrder.
func Plan(pod *corev1.Pod, s *State, m *Memory, now time.Time) Decision {
	p := planner{pod: pod, state: s, memory: m, now: now}
	p.Waiting = map[string]corev1.ContainerStateWaiting{}
	p.Initialized = InitializedBefore(pod, s)
	p.round = nextRound(pod, s)
	p.clean()
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		p.finish()
	case m.Rejection != nil:
		p.reject()
	case p.overdue():
		p.Overdue = true
		p.reason, p.message = DeadlineExceeded, DeadlineMessage
		p.finish()
	case p.endRound():
	case p.sandbox() == nil:
		p.planSandbox()
	default:
		p.stopSpare()
		p.planContainers()
		p.planPodSize()
	}
	return p.Decision
}

// planner builds a decision.
type planner struct {
	Decision
	pod    *corev1.Pod
	state  *State
	memory *Memory
	now    time.Time
	round  uint32 // of the containers that must run
}

// sandbox returns the newest sandbox if it is ready and has its addresses.
func (p *planner) sandbox() *Sandbox {
	s := p.state.Sandbox()
	if s == nil || !s.HostNetwork && len(s.IPs) == 0 {
		return nil
	}
	return s
}

// overdue reports whether the pod has exceeded its active deadline. Before that, it schedules
// another look at the deadline.
func (p *planner) overdue() bool {
	seconds := p.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil || p.pod.Status.StartTime == nil {
		return false
	}
	deadline := p.pod.Status.StartTime.Add(time.Duration(*seconds) * time.Second)
	if !p.now.Before(deadline) {
		return true
	}
	p.LookAgain(deadline)
	return false
}

// reject ends the pod with the reason, message and grace period of its rejection.
func (p *planner) reject() {
	r := p.memory.Rejection
	p.reason, p.message, p.refused = r.Reason, r.Message, r.Refused
	if r.Disruption {
		p.disruption = cmp.Or(r.DisruptionMessage, r.Message)
	}
	p.finish()
	for _, wave := range p.Stop {
		for i := range wave {
			wave[i].Grace = r.Grace
		}
	}
}

// finish stops what still runs, and then the sandbox.
func (p *planner) finish() {
	p.Finished = true
	if p.Stop = StopOrder(p.pod, p.state); len(p.Stop) > 0 {
		return
	}
	for _, s := range p.state.Sandboxes {
		if s.Ready {
			p.StopSandboxes = append(p.StopSandboxes, s.ID)
		}
	}
}

// planSandbox replaces a missing or dead sandbox. It first stops whatever still runs in an old one.
func (p *planner) planSandbox() {
	if !p.wanted() {
		p.finish()
		return
	}
	p.ReplacesSandbox = len(p.state.Sandboxes) > 0
	for _, s := range p.state.Sandboxes {
		if s.Ready {
			p.StopSandboxes = append(p.StopSandboxes, s.ID)
		}
	}
	if p.Stop = StopOrder(p.pod, p.state); len(p.Stop)+len(p.StopSandboxes) > 0 {
		return
	}
	if retry := p.memory.SandboxFailed.Add(retrySandbox); p.now.Before(retry) {
		p.LookAgain(retry)
		return
	}
	p.CreateSandbox = true
	p.SandboxAttempt = p.memory.SandboxAttempt
	if len(p.state.Sandboxes) > 0 {
		p.SandboxAttempt = max(p.SandboxAttempt, p.state.Sandboxes[0].Attempt+1)
	}
}

// wanted reports whether something of the pod must still run. A pod that is never restarted ends
// with its sandbox once a container was created.
func (p *planner) wanted() bool {
	if p.over() {
		return false
	}
	return !neverRestarts(p.pod) || len(p.state.Containers) == 0 || p.round > p.state.round()
}

// stopSpare stops ready sandboxes other than the newest: a creation that timed out may have
// succeeded late.
func (p *planner) stopSpare() {
	for _, s := range p.state.Sandboxes[1:] {
		if s.Ready {
			p.StopSandboxes = append(p.StopSandboxes, s.ID)
		}
	}
}

// clean removes dead containers except the newest of each name, and dead sandboxes except the
// newest, unless they contain a kept container.
func (p *planner) clean() {
	kept := map[string]bool{}
	inUse := map[string]bool{}
	for _, c := range p.state.Containers {
		if c.Phase == Exited && kept[c.Name] && !c.recalled {
			p.Remove = append(p.Remove, c.ID)
			continue
		}
		if c.Phase == Exited {
			kept[c.Name] = true
		}
		inUse[c.Sandbox] = true
	}
	for i, s := range p.state.Sandboxes {
		if i > 0 && !s.Ready && !inUse[s.ID] {
			p.RemoveSandboxes = append(p.RemoveSandboxes, s.ID)
		}
	}
}

func PodName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}
