package kubelet

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/probe"
)

// showPullError is how long a failed pull is reported as ErrImagePull before it is reported as
// ImagePullBackOff.
const showPullError = 2 * time.Second

// planContainers plans the containers of a pod whose sandbox is ready.
func (p *planner) planContainers() {
	if p.over() {
		// Check this before the sidecars, so that stopped sidecars are not started again.
		p.finish()
		return
	}
	if !p.planInit() {
		return
	}
	p.initialized = true
	for i := range p.pod.Spec.Containers {
		p.planContainer(&p.pod.Spec.Containers[i], p.pod.Spec.RestartPolicy)
	}
}

// over reports whether the pod has ended: its main containers have ended, or an init container has
// failed for good.
func (p *planner) over() bool {
	policy := p.pod.Spec.RestartPolicy
	for i := range p.pod.Spec.InitContainers {
		spec := &p.pod.Spec.InitContainers[i]
		c := p.state.latest(spec.Name)
		if policy == corev1.RestartPolicyNever && !sidecar(spec) && c != nil && c.phase == containerExited && c.exitCode != 0 {
			p.initialized = false
			return true
		}
	}
	for i := range p.pod.Spec.Containers {
		c := p.state.latest(p.pod.Spec.Containers[i].Name)
		if c == nil || c.phase != containerExited || p.restarts(policy, c) {
			return false
		}
	}
	return true
}

// planInit plans the init containers in order, each after the previous one has succeeded or, if it
// is a sidecar, is running. It reports whether the main containers may start.
func (p *planner) planInit() bool {
	sandbox := p.sandbox().id
	through := false
	for i := range p.pod.Spec.Containers {
		through = through || p.state.latestIn(sandbox, p.pod.Spec.Containers[i].Name) != nil
	}
	for i := range p.pod.Spec.InitContainers {
		spec := &p.pod.Spec.InitContainers[i]
		current := p.state.latestIn(sandbox, spec.Name)
		if sidecar(spec) {
			p.planContainer(spec, corev1.RestartPolicyAlways)
			if !through && (current == nil || current.phase != containerRunning || !p.state.health(spec).Started) {
				return false
			}
			continue
		}
		if through || current != nil && current.phase == containerExited && current.exitCode == 0 {
			continue
		}
		p.initialized = false
		p.planInitContainer(spec, current)
		return false
	}
	return true
}

// planInitContainer starts an init container, even if it succeeded in an earlier sandbox, because
// its results may be gone.
func (p *planner) planInitContainer(spec *corev1.Container, current *containerState) {
	if current == nil {
		p.planStart(spec, p.state.latest(spec.Name))
		return
	}
	policy := p.pod.Spec.RestartPolicy
	if policy == corev1.RestartPolicyAlways {
		policy = corev1.RestartPolicyOnFailure
	}
	p.planContainer(spec, policy)
}

// planContainer plans one container.
func (p *planner) planContainer(spec *corev1.Container, policy corev1.RestartPolicy) {
	current := p.state.latestIn(p.sandbox().id, spec.Name)
	if current == nil {
		if before := p.state.latest(spec.Name); before == nil || p.restarts(policy, before) {
			p.planStart(spec, before)
		}
		return
	}
	switch current.phase {
	case containerRunning:
		if current.spec != "" && current.spec != fingerprint(spec) {
			p.stopOne(*current, fmt.Sprintf("Container %s definition changed, will be restarted", spec.Name))
		} else if failed := p.state.health(spec).Unhealthy; failed != nil {
			p.stopUnhealthy(*current, policy, failed)
		}
	case containerUnknown:
		p.stopOne(*current, fmt.Sprintf("Container %s is in unknown state, try killing it before restart", spec.Name))
	case containerCreated:
		// The kubelet that created it ended before it could start it.
		p.remove = append(p.remove, current.id)
	case containerExited:
		if p.restarts(policy, current) {
			p.planStart(spec, current)
		}
	}
}

func (p *planner) stopOne(c containerState, message string) {
	p.stop = append(p.stop, []stopAction{{container: c, message: message}})
}

// stopUnhealthy stops a container whose probe has failed.
func (p *planner) stopUnhealthy(c containerState, policy corev1.RestartPolicy, failed *probe.Unhealthy) {
	message := fmt.Sprintf("Container %s failed %s probe", c.name, strings.ToLower(string(failed.Kind)))
	if policy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	p.stop = append(p.stop, []stopAction{{container: c, message: message, unhealthy: true, grace: failed.Grace}})
}

// restarts reports whether an exited container runs again. One that was stopped because a probe
// has failed has not succeeded, whatever its exit code.
func (p *planner) restarts(policy corev1.RestartPolicy, c *containerState) bool {
	return restarts(policy, c) || policy == corev1.RestartPolicyOnFailure && p.memory.unhealthy[c.name] == c.id
}

// planStart starts a container in place of before, which may be nil, unless a backoff holds it.
func (p *planner) planStart(spec *corev1.Container, before *containerState) {
	action := startAction{spec: spec}
	if before != nil {
		action.attempt = before.attempt + 1
		action.failed = before.finished
		b := p.memory.restarts[spec.Name]
		if until := b.until(before.finished); p.now.Before(until) {
			p.hold(spec.Name, until, "CrashLoopBackOff",
				fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", b.delay, spec.Name, podName(p.pod)))
			return
		}
	}
	if f, failed := p.memory.pulls[spec.Name]; failed && f.image == spec.Image {
		if until := f.backoff.until(f.failed); p.now.Before(until) {
			if shown := f.failed.Add(showPullError); p.now.Before(shown) {
				p.hold(spec.Name, shown, f.reason, f.message)
			} else {
				p.hold(spec.Name, until, "ImagePullBackOff",
					fmt.Sprintf("Back-off pulling image %q: %s: %s", spec.Image, f.reason, f.message))
			}
			return
		}
	}
	if f, failed := p.memory.starts[spec.Name]; failed && f.sandbox == p.sandbox().id {
		if until := f.at.Add(retryStart); p.now.Before(until) {
			p.hold(spec.Name, until, f.reason, f.message)
			return
		}
	}
	p.start = append(p.start, action)
}

func (p *planner) hold(name string, until time.Time, reason, message string) {
	p.waiting[name] = corev1.ContainerStateWaiting{Reason: reason, Message: message}
	p.lookAgain(until)
}

// stopOrder returns the order in which running containers are stopped: the main and init containers
// together, then the sidecars, in reverse order of their start.
func stopOrder(pod *corev1.Pod, s *podState) [][]stopAction {
	isSidecar := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		isSidecar[pod.Spec.InitContainers[i].Name] = sidecar(&pod.Spec.InitContainers[i])
	}
	running := func(c containerState) bool {
		return c.phase == containerRunning || c.phase == containerUnknown
	}
	var waves [][]stopAction
	var mains []stopAction
	for _, c := range s.containers {
		if running(c) && !isSidecar[c.name] {
			mains = append(mains, stopAction{container: c, message: "Stopping container " + c.name})
		}
	}
	if len(mains) > 0 {
		waves = append(waves, mains)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		for _, c := range s.containers {
			if running(c) && isSidecar[c.name] && c.name == pod.Spec.InitContainers[i].Name {
				waves = append(waves, []stopAction{{container: c, message: "Stopping container " + c.name}})
			}
		}
	}
	return waves
}

// initializedBefore reports whether the existing containers show that the pod's init containers
// have succeeded.
func initializedBefore(pod *corev1.Pod, s *podState) bool {
	waits := false
	for i := range pod.Spec.InitContainers {
		waits = waits || !sidecar(&pod.Spec.InitContainers[i])
	}
	if !waits {
		return true
	}
	for i := range pod.Spec.Containers {
		if s.latest(pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	return false
}
