package simulate

import (
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// preempt decides which pods must end for a pod that fits no node, and reserves the node for it, as a
// [schedule.Scheduler] does. It returns those that do not end yet.
func (s *simulation) preempt(p *pod, unfit *schedule.FitError) (victims []*pod) {
	if !s.policy.Preempt {
		return nil
	}
	choice, ok := s.state.Preempt(p.info, unfit, s.workload.Budgets)
	if !ok {
		return nil
	}
	for _, info := range choice.Victims {
		if victim := s.pods[info.Key]; victim.info.Pod.DeletionTimestamp == nil {
			victims = append(victims, victim)
		}
	}
	for _, loser := range s.state.Outranked(p.info, choice.Node) {
		s.change(s.state.Withdraw(loser.Key))
		s.queue.WakeNow(loser, s.time())
	}
	s.state.Nominate(p.info, choice.Node)
	return victims
}

// evict begins the end of pods in favor of p.
func (s *simulation) evict(p *pod, victims []*pod) {
	for _, victim := range victims {
		s.preemptions = append(s.preemptions, Preemption{At: s.now, Victim: victim.info.Key, Preemptor: p.info.Key, Node: victim.placement.Node})
		object := *victim.info.Pod
		object.DeletionTimestamp = &metav1.Time{Time: s.time()}
		victim.info = schedule.NewPodInfo(&object)
		s.change(s.state.SetPod(victim.info))
		s.at(s.now+grace(&object), func() { s.remove(victim, Preempted) })
		if victim.arrival.Recreate {
			s.recreate(victim)
		}
	}
}

// grace returns how long a preempted pod takes to end, at most an hour: a pod that takes longer is as good
// as one that does not end.
func grace(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		seconds = *s
	}
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second
}

// recreate lets another pod arrive in the place of one that is preempted.
func (s *simulation) recreate(victim *pod) {
	a := *victim.arrival
	object := *a.Pod
	object.Name = s.unique(object.Namespace, object.Name)
	object.UID, object.CreationTimestamp = "", metav1.Time{}
	object.Spec.NodeName, object.Status = "", corev1.PodStatus{}
	a.Pod, a.At = &object, s.now
	s.at(s.now, func() { s.arrive(&a) })
}
