package lifecycle

import corev1 "k8s.io/api/core/v1"

// A restart rule with the action RestartAllContainers restarts a pod in place. Such a restart begins a new
// round of the pod: its init containers run again, while its sandbox and volumes stay. The runtime
// stores the round of each container, so a restart of the kubelet in the middle changes nothing.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers

// Reasons and messages of a pod whose containers are all restarted.
const (
	// reasonRestartAll is the reason of the condition AllContainersRestarting while it is true.
	reasonRestartAll  = "RestartAllContainersStarted"
	messageRestartAll = "container exited with restart policy rule"
	// reasonRestarting is why a container of an earlier round waits, and why it has ended.
	reasonRestarting  = "RestartingAllContainers"
	messageRestarting = "The container is removed because RestartAllContainers in place"
	// messageRestartKill is the message of the event about a container that is stopped.
	messageRestartKill = "killing"
	exitKilled         = 137
)

// restartsAll reports whether a container of a pod has a rule that restarts all containers.
func restartsAll(spec *corev1.PodSpec) bool {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// endsRound reports whether the end of a container restarts all containers of the pod: the first of its
// rules that matches says so.
func endsRound(spec *corev1.Container, c *Container) bool {
	if c == nil || c.Phase != Exited {
		return false
	}
	rule := ruleFor(spec, c.ExitCode)
	return rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// round returns the newest round of the containers of a pod.
func (s *State) round() uint32 {
	newest := uint32(0)
	for _, c := range s.Containers {
		newest = max(newest, c.Round)
	}
	return newest
}

// lost reports whether the runtime has no container of the pod.
func (s *State) lost() bool {
	for _, c := range s.Containers {
		if !c.recalled {
			return false
		}
	}
	return true
}

// nextRound returns the round that the containers of a pod must have: the newest, or the one after it if a
// container has ended that. A recalled container ends a round only if all are recalled: the status from
// which it was recalled may be older than the containers in the runtime.
func nextRound(pod *corev1.Pod, s *State) uint32 {
	newest, lost := s.round(), s.lost()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := s.latest(list[i].Name)
			if endsRound(&list[i], c) && c.Round == newest && (!c.recalled || lost) {
				return newest + 1
			}
		}
	}
	return newest
}

// endRound stops the init and main containers of earlier rounds, with neither a preStop hook nor a grace
// period, and removes those that were never started. It reports whether there are any. Ephemeral
// containers go on.
func (p *planner) endRound() bool {
	if p.round == 0 {
		return false
	}
	old := func(c Container) bool { return c.Round < p.round && !isEphemeral(p.pod, c.Name) }
	for _, c := range p.state.Containers {
		if c.Phase == Created && old(c) {
			p.Remove = append(p.Remove, c.ID)
		}
	}
	for _, wave := range StopOrder(p.pod, p.state) {
		var stops []StopAction
		for _, action := range wave {
			if old(action.Container) {
				action.Message, action.Grace, action.SkipHook = messageRestartKill, new(int64), true
				stops = append(stops, action)
			}
		}
		if len(stops) > 0 {
			p.Stop = append(p.Stop, stops)
		}
	}
	return len(p.Stop) > 0
}

func isEphemeral(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}

// inRound returns c if it is of the current round, else nil.
func (p *planner) inRound(c *Container) *Container {
	if c != nil && c.Round < p.round {
		return nil
	}
	return c
}

// awaitsRound reports whether a container is of an earlier round than others of the pod: those have begun
// a new round, and it has not been started again yet.
func (o *Observation) awaitsRound(c *Container) bool {
	return c.Phase == Exited && c.Round < o.State.round() && !isEphemeral(o.Pod, c.Name)
}

// restarting returns the end of a container of an earlier round.
func restarting() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: exitKilled, Reason: reasonRestarting, Message: messageRestarting}
}

// restartCondition sets the condition of a pod that can be restarted in place. It is true from the end of the
// container whose rule says so until the first container of the next round exists.
func (o *Observation) restartCondition(status *corev1.PodStatus) {
	if !restartsAll(&o.Pod.Spec) {
		return
	}
	is, reason, message := false, "", ""
	switch {
	case status.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case status.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case nextRound(o.Pod, o.State) > o.State.round():
		is, reason, message = true, reasonRestartAll, messageRestartAll
	}
	o.set(status, corev1.AllContainersRestarting, is, reason, message)
	findCondition(status, corev1.AllContainersRestarting).ObservedGeneration = 0 // as Kubernetes' kubelet
}
