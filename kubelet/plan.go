package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// decision is the list of actions for a pod, in the order of the fields. After any action above
// start, the pod is observed and planned again.
type decision struct {
	// stop holds waves of containers. The containers of a wave are stopped together, and a wave
	// after the previous one has stopped.
	stop [][]stopAction
	// stopSandboxes, and the containers and sandboxes to remove, are IDs.
	stopSandboxes    []string
	remove           []string
	removeSandboxes  []string
	createSandbox    bool
	sandboxAttempt   uint32
	sandboxWasChange bool // there was a sandbox before
	start            []startAction

	// waiting holds the reasons why containers are held back, by name.
	waiting map[string]corev1.ContainerStateWaiting
	// initialized means that all init containers have succeeded.
	initialized bool
	// finished means that nothing of the pod will run again.
	finished bool
	// reason and message, if set, say why the pod failed as a whole.
	reason, message string
	// again is when the decision may change by itself; zero means never.
	again time.Time
}

type stopAction struct {
	container containerState
	// message is the message of the event.
	message string
	// unhealthy means that a probe has failed. grace is then the probe's own grace period in
	// seconds; nil means the pod's.
	unhealthy bool
	grace     *int64
}

type startAction struct {
	spec    *corev1.Container
	attempt uint32
	// failed is when the replaced container ended; zero if there is none.
	failed time.Time
}

// changes reports whether the decision affects what later parts of it depend on.
func (d *decision) changes() bool {
	return len(d.stop)+len(d.stopSandboxes)+len(d.remove)+len(d.removeSandboxes) > 0 || d.createSandbox
}

// lookAgain makes sure that the pod is planned again no later than t.
func (d *decision) lookAgain(t time.Time) {
	if d.again.IsZero() || t.Before(d.again) {
		d.again = t
	}
}

// plan returns the actions for a pod that must run. It depends only on its arguments and changes
// none of them. It does not decide whether to stop a pod for good; see stopOrder.
func plan(pod *corev1.Pod, s *podState, m *memory, now time.Time) decision {
	p := planner{pod: pod, state: s, memory: m, now: now}
	p.waiting = map[string]corev1.ContainerStateWaiting{}
	p.initialized = initializedBefore(pod, s)
	p.clean()
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		p.finish()
	case p.overdue():
		p.reason, p.message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
		p.finish()
	case p.sandbox() == nil:
		p.planSandbox()
	default:
		p.stopSpare()
		p.planContainers()
	}
	return p.decision
}

// planner builds a decision.
type planner struct {
	decision
	pod    *corev1.Pod
	state  *podState
	memory *memory
	now    time.Time
}

// sandbox returns the newest sandbox if it is ready and has its addresses.
func (p *planner) sandbox() *sandboxState {
	s := p.state.sandbox()
	if s == nil || !s.hostNetwork && len(s.ips) == 0 {
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
	p.lookAgain(deadline)
	return false
}

// finish stops what still runs, and then the sandbox.
func (p *planner) finish() {
	p.finished = true
	if p.stop = stopOrder(p.pod, p.state); len(p.stop) > 0 {
		return
	}
	for _, s := range p.state.sandboxes {
		if s.ready {
			p.stopSandboxes = append(p.stopSandboxes, s.id)
		}
	}
}

// planSandbox replaces a missing or dead sandbox. It first stops whatever still runs in an old one.
func (p *planner) planSandbox() {
	if !p.wanted() {
		p.finish()
		return
	}
	p.sandboxWasChange = len(p.state.sandboxes) > 0
	for _, s := range p.state.sandboxes {
		if s.ready {
			p.stopSandboxes = append(p.stopSandboxes, s.id)
		}
	}
	if p.stop = stopOrder(p.pod, p.state); len(p.stop)+len(p.stopSandboxes) > 0 {
		return
	}
	if retry := p.memory.sandboxFailed.Add(retrySandbox); p.now.Before(retry) {
		p.lookAgain(retry)
		return
	}
	p.createSandbox = true
	p.sandboxAttempt = p.memory.sandboxAttempt
	if len(p.state.sandboxes) > 0 {
		p.sandboxAttempt = max(p.sandboxAttempt, p.state.sandboxes[0].attempt+1)
	}
}

// wanted reports whether something of the pod must still run. A pod that is never restarted ends
// with its sandbox once a container was created.
func (p *planner) wanted() bool {
	if p.over() {
		return false
	}
	never := p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	return !never || len(p.state.containers) == 0
}

// stopSpare stops ready sandboxes other than the newest: a creation that timed out may have
// succeeded late.
func (p *planner) stopSpare() {
	for _, s := range p.state.sandboxes[1:] {
		if s.ready {
			p.stopSandboxes = append(p.stopSandboxes, s.id)
		}
	}
}

// restarts reports whether policy requires a container that is not running to run again.
func restarts(policy corev1.RestartPolicy, c *containerState) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return c.phase == containerCreated
	case corev1.RestartPolicyOnFailure:
		return c.phase != containerExited || c.exitCode != 0
	}
	return true
}

// clean removes dead containers except the newest of each name, and dead sandboxes except the
// newest, unless they contain a kept container.
func (p *planner) clean() {
	kept := map[string]bool{}
	inUse := map[string]bool{}
	for _, c := range p.state.containers {
		if c.phase == containerExited && kept[c.name] && !c.recalled {
			p.remove = append(p.remove, c.id)
			continue
		}
		if c.phase == containerExited {
			kept[c.name] = true
		}
		inUse[c.sandbox] = true
	}
	for i, s := range p.state.sandboxes {
		if i > 0 && !s.ready && !inUse[s.id] {
			p.removeSandboxes = append(p.removeSandboxes, s.id)
		}
	}
}

func podName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}
