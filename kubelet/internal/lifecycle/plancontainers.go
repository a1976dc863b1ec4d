package lifecycle

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/internal/resize"
	"github.com/planekit/planekit/kubelet/probe"
)

// showPullError is how long a failed pull is reported as ErrImagePull before it is reported as
// ImagePullBackOff.
const showPullError = 2 * time.Second

// showStartError is how long a failed start, such as a failed postStart hook, is reported before
// CrashLoopBackOff.
const showStartError = 2 * time.Second

// planContainers plans the containers of a pod whose sandbox is ready.
func (p *planner) planContainers() {
	if p.over() {
		// Check this before the sidecars, so that stopped sidecars are not started again.
		p.finish()
		return
	}
	p.planEphemeral()
	if !p.planInit() {
		return
	}
	p.Initialized = true
	for i := range p.pod.Spec.Containers {
		p.planContainer(&p.pod.Spec.Containers[i], p.pod.Spec.RestartPolicy)
	}
}

// planEphemeral starts each ephemeral container once, whether the pod is initialized or not.
func (p *planner) planEphemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		e := &p.pod.Spec.EphemeralContainers[i]
		current := p.state.latest(e.Name)
		switch {
		case current != nil && current.Phase == Created:
			p.Remove = append(p.Remove, current.ID)
		case current == nil:
			p.startEphemeral(e)
		}
	}
}

// startEphemeral starts an ephemeral container, in the processes of its target if it has one. It waits
// for the target.
func (p *planner) startEphemeral(e *corev1.EphemeralContainer) {
	target := ""
	if e.TargetContainerName != "" {
		c := p.state.LatestIn(p.sandbox().ID, e.TargetContainerName)
		if c == nil || c.Phase != Running {
			return
		}
		target = c.ID
	}
	started := len(p.Start)
	p.planStart((*corev1.Container)(&e.EphemeralContainerCommon), nil)
	for i := range p.Start[started:] {
		p.Start[started+i].Target = target
	}
}

// over reports whether the pod has ended: its main containers have ended, or an init container has
// failed for good.
func (p *planner) over() bool {
	policy := p.pod.Spec.RestartPolicy
	for i := range p.pod.Spec.InitContainers {
		spec := &p.pod.Spec.InitContainers[i]
		c := p.inRound(p.state.latest(spec.Name))
		if !IsSidecar(spec) && c != nil && c.Phase == Exited && c.ExitCode != 0 && !p.restarts(spec, initPolicy(policy), c) {
			p.Initialized = false
			return true
		}
	}
	for i := range p.pod.Spec.Containers {
		spec := &p.pod.Spec.Containers[i]
		c := p.inRound(p.state.latest(spec.Name))
		if c == nil || c.Phase != Exited || p.restarts(spec, policy, c) {
			return false
		}
	}
	return true
}

// planInit plans the init containers in order, each after the previous one has succeeded or, if it
// is a sidecar, is running. It reports whether the main containers may start.
func (p *planner) planInit() bool {
	sandbox := p.sandbox().ID
	through := false
	for i := range p.pod.Spec.Containers {
		through = through || p.inRound(p.state.LatestIn(sandbox, p.pod.Spec.Containers[i].Name)) != nil
	}
	for i := range p.pod.Spec.InitContainers {
		spec := &p.pod.Spec.InitContainers[i]
		current := p.inRound(p.state.LatestIn(sandbox, spec.Name))
		if IsSidecar(spec) {
			p.planContainer(spec, corev1.RestartPolicyAlways)
			if !through && (current == nil || current.Phase != Running || !p.state.health(spec).Started) {
				return false
			}
			continue
		}
		if through || current != nil && current.Phase == Exited && current.ExitCode == 0 {
			continue
		}
		p.Initialized = false
		p.planInitContainer(spec, current)
		return false
	}
	return true
}

// planInitContainer starts an init container, even if it succeeded in an earlier sandbox, because
// its results may be gone.
func (p *planner) planInitContainer(spec *corev1.Container, current *Container) {
	if current == nil {
		p.planStart(spec, p.state.latest(spec.Name))
		return
	}
	p.planContainer(spec, initPolicy(p.pod.Spec.RestartPolicy))
}

// planContainer plans one container.
func (p *planner) planContainer(spec *corev1.Container, policy corev1.RestartPolicy) {
	current := p.inRound(p.state.LatestIn(p.sandbox().ID, spec.Name))
	if current == nil {
		if before := p.state.latest(spec.Name); p.inRound(before) == nil || p.restarts(spec, policy, before) {
			p.planStart(spec, before)
		}
		return
	}
	switch current.Phase {
	case Running:
		resized := resize.Same(p.state.Actuated[spec.Name], spec.Resources)
		p.Resizing = p.Resizing || !resized
		if current.Spec != "" && current.Spec != Fingerprint(spec) {
			p.stopOne(*current, fmt.Sprintf("Container %s definition changed, will be restarted", spec.Name))
		} else if failed := p.state.health(spec).Unhealthy; failed != nil {
			p.stopUnhealthy(*current, policyOf(spec, policy), failed)
		} else if !resized {
			p.planSize(spec, current)
		}
	case Unknown:
		p.stopOne(*current, fmt.Sprintf("Container %s is in unknown state, try killing it before restart", spec.Name))
	case Created:
		// The kubelet that created it ended before it could start it.
		p.Remove = append(p.Remove, current.ID)
	case Exited:
		if p.restarts(spec, policy, current) {
			p.planStart(spec, current)
		}
	}
}

func (p *planner) stopOne(c Container, message string) {
	p.Stop = append(p.Stop, []StopAction{{Container: c, Message: message}})
}

// stopUnhealthy stops a container whose probe has failed.
func (p *planner) stopUnhealthy(c Container, policy corev1.RestartPolicy, failed *probe.Unhealthy) {
	message := fmt.Sprintf("Container %s failed %s probe", c.Name, strings.ToLower(string(failed.Kind)))
	if policy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	p.Stop = append(p.Stop, []StopAction{{Container: c, Message: message, Unhealthy: true, Grace: failed.Grace}})
}

// restarts reports whether an exited container runs again. One that was stopped because a probe
// has failed has not succeeded, whatever its exit code.
func (p *planner) restarts(spec *corev1.Container, policy corev1.RestartPolicy, c *Container) bool {
	return restarts(spec, policy, c) || policyOf(spec, policy) == corev1.RestartPolicyOnFailure && p.memory.Unhealthy[c.Name] == c.ID
}

// planStart starts a container in place of before, which may be nil, unless a backoff holds it.
func (p *planner) planStart(spec *corev1.Container, before *Container) {
	action := StartAction{Spec: spec, Round: p.round}
	if before != nil {
		action.Attempt = before.Attempt + 1
	}
	before = p.inRound(before)
	action.First = before == nil
	if before != nil { // a restart of all containers has no backoff
		action.Failed = before.Finished
		b := p.memory.Restarts[spec.Name]
		if until := b.until(before.Finished, p.now); p.now.Before(until) {
			f, failed := p.memory.Starts[spec.Name]
			if shown := f.At.Add(showStartError); failed && f.Sandbox == p.sandbox().ID && p.now.Before(shown) {
				p.hold(spec.Name, shown, f.Reason, f.Message)
				return
			}
			p.hold(spec.Name, until, "CrashLoopBackOff",
				fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", b.delay, spec.Name, PodName(p.pod)))
			return
		}
	}
	if f, failed := p.memory.Pulls[spec.Name]; failed && f.Image == spec.Image {
		if until := f.Backoff.until(f.Failed, p.now); p.now.Before(until) {
			if shown := f.Failed.Add(showPullError); p.now.Before(shown) {
				p.hold(spec.Name, shown, f.Reason, f.Message)
			} else {
				p.hold(spec.Name, until, "ImagePullBackOff",
					fmt.Sprintf("Back-off pulling image %q: %s: %s", f.Reference(), f.Reason, f.Message))
			}
			return
		}
	}
	if f, failed := p.memory.Starts[spec.Name]; failed && f.Sandbox == p.sandbox().ID {
		if until := f.At.Add(retryStart); p.now.Before(until) {
			p.hold(spec.Name, until, f.Reason, f.Message)
			return
		}
	}
	p.Start = append(p.Start, action)
}

func (p *planner) hold(name string, until time.Time, reason, message string) {
	p.Waiting[name] = corev1.ContainerStateWaiting{Reason: reason, Message: message}
	p.LookAgain(until)
}

// StopOrder returns the order in which running containers are stopped: the main and init containers
// together, then the sidecars, in reverse order of their start.
func StopOrder(pod *corev1.Pod, s *State) [][]StopAction {
	isSidecar := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		isSidecar[pod.Spec.InitContainers[i].Name] = IsSidecar(&pod.Spec.InitContainers[i])
	}
	running := func(c Container) bool {
		return c.Phase == Running || c.Phase == Unknown
	}
	var waves [][]StopAction
	var mains []StopAction
	for _, c := range s.Containers {
		if running(c) && !isSidecar[c.Name] {
			mains = append(mains, StopAction{Container: c, Message: "Stopping container " + c.Name})
		}
	}
	if len(mains) > 0 {
		waves = append(waves, mains)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		for _, c := range s.Containers {
			if running(c) && isSidecar[c.Name] && c.Name == pod.Spec.InitContainers[i].Name {
				waves = append(waves, []StopAction{{Container: c, Message: "Stopping container " + c.Name}})
			}
		}
	}
	return waves
}

// InitializedBefore reports whether the existing containers show that the pod's init containers
// have succeeded.
func InitializedBefore(pod *corev1.Pod, s *State) bool {
	waits := false
	for i := range pod.Spec.InitContainers {
		waits = waits || !IsSidecar(&pod.Spec.InitContainers[i])
	}
	if !waits {
		return true
	}
	for i := range pod.Spec.Containers {
		if c := s.latest(pod.Spec.Containers[i].Name); c != nil && c.Round == s.round() {
			return true
		}
	}
	return false
}
